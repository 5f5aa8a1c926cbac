//! Where a client keeps the tokens that servers gave it. RFC 9000 s8.1.3.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    sync::{Mutex, PoisonError},
};

use bytes::Bytes;

use crate::wire::Version;

/// Keeps NEW_TOKEN tokens between connections.
///
/// A token is handed out once, so that an observer cannot link two connections by it, and only to
/// a connection of the QUIC version that it was given out in. RFC 9369 s5.
pub trait TokenStore: fmt::Debug + Send + Sync {
    /// `server_name` gave us `token` on a connection that had come to use `version`.
    fn insert(&self, server_name: &str, version: Version, token: Bytes);
    /// A token for a new connection to `server_name` that starts in `version`; the store forgets
    /// it.
    fn take(&self, server_name: &str, version: Version) -> Option<Bytes>;
}

/// Longest token kept; longer ones would crowd out the ClientHello.
const MAX_TOKEN_BYTES: usize = 512;

/// A [`TokenStore`] in memory. When full, the server that gave its newest token first is
/// forgotten. A server that gives tokens in two versions counts as two.
///
/// Memory: at most `max_servers * tokens_per_server * 512` bytes and the names.
#[derive(Debug)]
pub struct MemoryTokenStore {
    max_servers: usize,
    tokens_per_server: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    servers: BTreeMap<ServerKey, Entry>,
    /// Servers by age of their newest token.
    ages: BTreeMap<u64, ServerKey>,
    next_age: u64,
}

type ServerKey = (Version, String);

#[derive(Debug, Default)]
struct Entry {
    age: u64,
    tokens: VecDeque<Bytes>,
}

impl MemoryTokenStore {
    /// For at most this many servers and tokens of each (at least one).
    pub fn new(max_servers: usize, tokens_per_server: usize) -> Self {
        Self {
            max_servers: max_servers.max(1),
            tokens_per_server: tokens_per_server.max(1),
            state: Mutex::default(),
        }
    }
}

impl Default for MemoryTokenStore {
    /// 256 servers, 2 tokens of each.
    fn default() -> Self {
        Self::new(256, 2)
    }
}

impl TokenStore for MemoryTokenStore {
    fn insert(&self, server_name: &str, version: Version, token: Bytes) {
        if token.is_empty() || token.len() > MAX_TOKEN_BYTES {
            return;
        }
        let mut guard = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let state = &mut *guard;
        let age = state.next_age;
        state.next_age += 1;
        let key = (version, server_name.to_owned());
        if let Some(entry) = state.servers.get_mut(&key) {
            state.ages.remove(&entry.age);
            entry.age = age;
            entry.tokens.push_back(token);
            if entry.tokens.len() > self.tokens_per_server {
                entry.tokens.pop_front();
            }
        } else {
            if state.servers.len() >= self.max_servers
                && let Some((_, oldest)) = state.ages.pop_first()
            {
                state.servers.remove(&oldest);
            }
            let entry = Entry {
                age,
                tokens: VecDeque::from([token]),
            };
            state.servers.insert(key.clone(), entry);
        }
        state.ages.insert(age, key);
    }

    fn take(&self, server_name: &str, version: Version) -> Option<Bytes> {
        let key = (version, server_name.to_owned());
        let mut guard = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let state = &mut *guard;
        let entry = state.servers.get_mut(&key)?;
        // The newest is the one least likely to have expired.
        let token = entry.tokens.pop_back();
        if entry.tokens.is_empty() {
            let age = entry.age;
            state.ages.remove(&age);
            state.servers.remove(&key);
        }
        token
    }
}
