//! The machine that waits: it serves runs to those who have the token, and does nothing else.
//!
//! What it does for a peer is bounded before it is begun: how many peers there are, one run at a time of
//! each, how long a run lasts, and how many bytes and streams each connection moves: what the run's
//! workload comes to, whatever the peer then asks for. It opens no file; what a workload's files hold
//! comes with the run.
//!
//! Owns: [`Far`], [`Limits`], who is let in. Does not own: what is said (`talk`), a run (`run.rs`), a peer
//! (`peer.rs`).

mod peer;
mod run;

use std::{
    collections::BTreeMap,
    fmt,
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant as StdInstant},
};

use tautline::{
    BindError, Endpoint, Incoming, ServerConfig, TransportConfig,
    tls::{ServerTls, TlsError},
};
use tokio::sync::{Semaphore, oneshot};

pub(crate) use self::peer::laboratory;
use crate::{clock, talk};

/// Those who have not shown the token, at once.
const STRANGERS: usize = 16;

/// What is done for peers at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Peers at once.
    pub peers: usize,
    /// Application bytes of a run, each way.
    pub bytes: u64,
    /// How long a run lasts.
    pub duration: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            peers: 4,
            bytes: 4_000_000_000,
            duration: Duration::from_secs(3600),
        }
    }
}

/// A far end that listens.
pub struct Far {
    endpoint: Endpoint,
    house: Arc<House>,
}

/// What all peers share.
struct House {
    limits: Limits,
    token: String,
    /// Who this is; TLS set-up is made of it again and again.
    identity: Box<dyn Fn() -> ServerTls + Send + Sync>,
    /// What [`talk::Ask::Clock`] counts from.
    since: StdInstant,
    peers: AtomicUsize,
    doors: Mutex<Doors>,
}

/// Connections of runs that are still to come.
#[derive(Default)]
struct Doors {
    /// Not knocked for yet, by what one knocks with.
    keys: BTreeMap<String, oneshot::Sender<Incoming>>,
    /// By the address they will come from.
    expected: BTreeMap<SocketAddr, (String, oneshot::Sender<Incoming>)>,
}

impl fmt::Debug for Far {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the token.
        f.debug_struct("Far")
            .field("endpoint", &self.endpoint)
            .field("limits", &self.house.limits)
            .finish_non_exhaustive()
    }
}

/// Why a far end cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum FarError {
    /// The address.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The certificate.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

impl Far {
    /// Listens. `identity` makes TLS set-up with a certificate, without ALPN.
    ///
    /// # Errors
    /// An address that cannot be bound, or a certificate that TLS does not take.
    pub fn bind(
        listen: SocketAddr,
        token: String,
        limits: Limits,
        identity: impl Fn() -> ServerTls + Send + Sync + 'static,
    ) -> Result<Self, FarError> {
        let mut config = identity().alpn([talk::CONTROL]).build()?;
        config.transport = Arc::new(control_transport());
        Ok(Self {
            endpoint: Endpoint::server(config, listen)?,
            house: Arc::new(House {
                limits,
                token,
                identity: Box::new(identity),
                since: clock::now(),
                peers: AtomicUsize::new(0),
                doors: Mutex::default(),
            }),
        })
    }

    /// Its socket.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Serves until the endpoint is closed; `told` hears of peers and runs, a line each.
    pub async fn serve(&self, told: impl Fn(&str) + Clone + Send + Sync + 'static) {
        let strangers = Arc::new(Semaphore::new(STRANGERS));
        while let Some(incoming) = self.endpoint.accept().await {
            let Some(incoming) = self.house.let_in(incoming) else {
                continue;
            };
            // Addresses that are not the peer's own must take nobody's place.
            if !incoming.remote_address_validated() {
                if let Err(error) = incoming.retry() {
                    error.into_incoming().refuse();
                }
                continue;
            }
            let Ok(place) = Arc::clone(&strangers).try_acquire_owned() else {
                incoming.refuse();
                continue;
            };
            let (house, told) = (Arc::clone(&self.house), told.clone());
            tokio::spawn(async move { peer::serve(house, incoming, place, &told).await });
        }
    }
}

/// Small: a control connection has one stream.
fn control_transport() -> TransportConfig {
    let mut config = TransportConfig::default();
    config.max_concurrent_bidi_streams = 1;
    config.max_concurrent_uni_streams = 0;
    config.max_idle_timeout = Some(Duration::from_secs(20));
    config
}

impl House {
    fn doors<R>(&self, act: impl FnOnce(&mut Doors) -> R) -> R {
        act(&mut self.doors.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Hands a run's connection on to its run; gives back what is none.
    fn let_in(&self, incoming: Incoming) -> Option<Incoming> {
        let from = incoming.remote_address();
        match self.doors(|doors| doors.expected.remove(&from)) {
            Some((_, run)) => {
                // Fails when the run was over first: dropped, it is refused.
                let _ = run.send(incoming);
                None
            }
            None => Some(incoming),
        }
    }

    /// From now on the connection of this key is expected from there. Whether there is such a key.
    fn knocked(&self, key: &str, from: SocketAddr) -> bool {
        self.doors(|doors| {
            let run = doors.keys.remove(key);
            let known = run.is_some();
            let run = run.map(|run| (key.to_owned(), run));
            doors.expected.extend(run.map(|run| (from, run)));
            known
        })
    }

    fn forget(&self, keys: &[String]) {
        self.doors(|doors| {
            doors.keys.retain(|key, _| !keys.contains(key));
            doors.expected.retain(|_, (key, _)| !keys.contains(key));
        });
    }

    /// How a run's connections are accepted.
    fn run_config(&self, transport: TransportConfig) -> Result<ServerConfig, TlsError> {
        let mut config = (self.identity)().alpn([talk::RUN]).build()?;
        config.transport = Arc::new(transport);
        Ok(config)
    }

    /// A place among the peers, if one is free.
    fn seat(self: &Arc<Self>) -> Option<PeerSeat> {
        let taken = self.peers.fetch_add(1, Ordering::AcqRel);
        let seat = PeerSeat(Arc::clone(self));
        (taken < self.limits.peers).then_some(seat)
    }
}

/// Counts as a peer while it lives.
struct PeerSeat(Arc<House>);

impl Drop for PeerSeat {
    fn drop(&mut self) {
        self.0.peers.fetch_sub(1, Ordering::AcqRel);
    }
}
