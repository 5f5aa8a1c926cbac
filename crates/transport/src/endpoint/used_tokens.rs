//! Which tokens were used already. RFC 9000 s8.1.4.

use std::{
    collections::BTreeSet,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use super::replay::ReplayFilter;
use crate::{config::fixed, rng::Rng, time::Instant};

/// Which NEW_TOKEN tokens were used. Share one between all endpoints that share a token key: else a
/// token counts once at each of them, and its holder chooses the endpoint by the connection ID it
/// makes up.
///
/// Memory: none before the first token is given out or used, then 288 KiB.
#[derive(Debug)]
pub struct UsedTokens {
    filter: Mutex<ReplayFilter>,
    /// The filter has its memory.
    prepared: AtomicBool,
}

impl UsedTokens {
    /// Remembers nothing yet.
    pub fn new(rng: &mut Rng) -> Self {
        Self {
            filter: Mutex::new(ReplayFilter::new(fixed::USED_TOKENS, rng)),
            prepared: AtomicBool::new(false),
        }
    }

    /// Tokens are given out. Takes the memory to know them by: whether a server holds it shall not
    /// depend on when the first client comes back.
    pub(super) fn prepare(&self) {
        if !self.prepared.swap(true, Ordering::Relaxed) {
            self.filter().reserve();
        }
    }

    fn filter(&self) -> MutexGuard<'_, ReplayFilter> {
        self.filter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this is the token's first use; from now on it is used.
    pub(super) fn first_use(&self, id: u64, issued: Instant) -> bool {
        self.filter().first_use(id, issued)
    }
}

/// When a token was given out, and its name.
pub(super) type TokenName = (Instant, u64);

/// Retry tokens that have opened a connection, as long as they are good.
///
/// An endpoint has its own: the connection ID that such a token is bound to leads there. While the
/// connection lives, that ID leads to it; this is for the time after. A client that opens more than
/// [`fixed::USED_RETRY_TOKENS`] connections within the life of a token may use its oldest ones again.
#[derive(Debug, Default)]
pub(super) struct AnsweredRetries(BTreeSet<TokenName>);

impl AnsweredRetries {
    pub(super) fn contains(&self, token: &TokenName) -> bool {
        self.0.contains(token)
    }

    /// `token` has opened a connection; tokens are good for `lifetime`.
    pub(super) fn insert(&mut self, token: TokenName, lifetime: Duration) {
        let (issued, _) = token;
        let expired = |(oldest, _): &TokenName| issued.saturating_since(*oldest) > lifetime;
        while self.0.len() >= fixed::USED_RETRY_TOKENS || self.0.first().is_some_and(expired) {
            self.0.pop_first();
        }
        self.0.insert(token);
    }
}
