//! The control connection to the far end.
//!
//! Owns: [`Link`]: connecting, the introduction, asks and answers, the other clock. Does not own: what is
//! asked for (`run.rs`).

use std::{
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::{Duration, Instant as StdInstant},
};

use tautline::{
    BindError, ClientConfig, ConnectHostError, Connection, Endpoint, HandshakeError, RecvStream,
    SendStream, TransportConfig,
    tls::{ClientTls, Fingerprint, TlsError},
};
use tokio::time::timeout;

use super::{Address, FieldError};
use crate::{
    clock,
    far::laboratory,
    talk::{self, Answer, Ask, Hello, TalkError},
    trust::{self, Prover},
};

/// Every answer comes within so long, but that of a run's end.
const PATIENCE: Duration = Duration::from_secs(20);
/// A run's end: halves stop, and what they saw has to come over the network.
const REPORT_PATIENCE: Duration = Duration::from_secs(180);
/// So often the far end's clock is asked for.
const CLOCKS: usize = 7;

/// A far end that has shown who it is.
pub(super) struct Link {
    far: String,
    token: String,
    endpoint: Endpoint,
    connection: Connection,
    send: SendStream,
    recv: RecvStream,
    /// Of the certificate that it showed; its runs show the same.
    fingerprint: Fingerprint,
}

/// How the far end's clock stands to this one's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clocks {
    here: StdInstant,
    there_nanos: u64,
    /// The shortest round trip; half of it is how far both may be apart.
    pub(super) rtt: Duration,
}

impl Clocks {
    /// A time of this clock, of the far end's.
    pub(super) fn there(&self, time: StdInstant) -> u64 {
        let after = time.saturating_duration_since(self.here);
        let after = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX);
        self.there_nanos.saturating_add(after)
    }
}

/// A socket for packets to `remote`.
pub(super) fn endpoint(remote: &SocketAddr) -> Result<Endpoint, BindError> {
    Endpoint::client(match remote {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    })
}

fn any_endpoint() -> Result<Endpoint, BindError> {
    let any_v6 = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
    Endpoint::client(any_v6)
        .or_else(|_| Endpoint::client(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0))))
}

/// Whom a connection is to, by one of the certificates, and what it speaks.
pub(super) fn config(
    pin: Option<Fingerprint>,
    alpn: &str,
    transport: TransportConfig,
) -> Result<ClientConfig, TlsError> {
    let tls = match pin {
        Some(pin) => ClientTls::pinned([pin]),
        // Who it is is shown by the token then, before anything is asked for.
        None => ClientTls::danger_accept_any_certificate(),
    };
    let mut config = tls.key_log_from_env().alpn([alpn]).build()?;
    config.transport = Arc::new(transport);
    Ok(config)
}

fn control_transport() -> TransportConfig {
    let mut config = TransportConfig::default();
    config.max_concurrent_bidi_streams = 0;
    config.max_concurrent_uni_streams = 0;
    config.max_idle_timeout = Some(Duration::from_secs(20));
    // The only packets of this connection during a run.
    config.keep_alive_interval = Some(Duration::from_secs(6));
    config
}

impl Link {
    /// Calls the far end and sees that both have the token.
    pub(super) async fn connect(address: &Address) -> Result<Self, FieldError> {
        let far = address.name();
        let unreachable = |reason: String| FieldError::Unreachable {
            far: far.clone(),
            reason,
        };
        let config = config(address.pin, talk::CONTROL, control_transport());
        let config = config.map_err(|error| unreachable(error.to_string()))?;
        let endpoint = any_endpoint().map_err(|error| unreachable(error.to_string()))?;
        endpoint.set_default_client_config(config);
        let connected = endpoint.connect_host(&address.host, address.port).await;
        let connection = connected.map_err(|error| sorted(&far, address, &error))?;
        let lost = |reason: String| FieldError::Lost {
            far: far.clone(),
            reason,
        };
        let chain = connection.peer_identity().unwrap_or_default();
        let fingerprint = chain.first().map(Fingerprint::of);
        let fingerprint = fingerprint.ok_or_else(|| lost("it shows no certificate".to_owned()))?;
        let opened = connection.open_bi().await;
        let (send, recv) = opened.map_err(|error| lost(error.to_string()))?;
        let mut link = Self {
            far: far.clone(),
            token: address.token.clone(),
            endpoint,
            connection,
            send,
            recv,
            fingerprint,
        };
        link.introduce().await?;
        Ok(link)
    }

    async fn introduce(&mut self) -> Result<(), FieldError> {
        let proof = trust::proof(&self.connection, &self.token, Prover::Near);
        let hello = Hello {
            version: talk::VERSION,
            laboratory: laboratory(),
            proof: proof.unwrap_or_default(),
        };
        match self.ask(&Ask::Hello(hello)).await? {
            Answer::Hello(hello) => {
                let (connection, token) = (&self.connection, &self.token);
                match trust::holds(connection, token, Prover::Far, &hello.proof) {
                    true => Ok(()),
                    false => Err(FieldError::Impostor {
                        far: self.far.clone(),
                    }),
                }
            }
            answer => Err(self.unexpected(answer)),
        }
    }

    /// An answer that does not fit its ask.
    pub(super) fn unexpected(&self, answer: Answer) -> FieldError {
        let far = self.far.clone();
        match answer {
            Answer::Refused { reason } => FieldError::Refused { far, reason },
            _ => self.lost("its answer does not fit what it was asked".to_owned()),
        }
    }

    pub(super) fn lost(&self, reason: String) -> FieldError {
        FieldError::Lost {
            far: self.far.clone(),
            reason,
        }
    }

    /// Asks; the answer, whatever it is.
    pub(super) async fn ask(&mut self, ask: &Ask) -> Result<Answer, FieldError> {
        let patience = match ask {
            Ask::Finish => REPORT_PATIENCE,
            _ => PATIENCE,
        };
        let asked = async {
            let message = talk::encode(ask, talk::ASK_BYTES)?;
            talk::write(&mut self.send, message).await?;
            talk::read::<Answer>(&mut self.recv, talk::ANSWER_BYTES).await
        };
        match timeout(patience, asked).await {
            Ok(answered) => answered.map_err(|error| self.lost(error.to_string())),
            Err(_) => Err(self.lost(format!("no answer for {patience:?}"))),
        }
    }

    /// Whether an ask is short enough to be heard; else how long it is.
    pub(super) fn fits(ask: &Ask) -> Result<(), TalkError> {
        talk::encode(ask, talk::ASK_BYTES).map(|_| ())
    }

    /// Compares both clocks.
    pub(super) async fn clocks(&mut self) -> Result<Clocks, FieldError> {
        let mut best: Option<Clocks> = None;
        for _ in 0..CLOCKS {
            let before = clock::now();
            let answer = self.ask(&Ask::Clock).await?;
            let rtt = clock::now().saturating_duration_since(before);
            let Answer::Clock { nanos } = answer else {
                return Err(self.unexpected(answer));
            };
            // The least delayed tells most.
            if best.is_none_or(|best| rtt < best.rtt) {
                best = Some(Clocks {
                    here: before + rtt / 2,
                    there_nanos: nanos,
                    rtt,
                });
            }
        }
        best.ok_or_else(|| self.lost("it tells no time".to_owned()))
    }

    pub(super) fn remote(&self) -> SocketAddr {
        self.connection.remote_address()
    }

    pub(super) fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Says with this key, from this socket, that a connection of a run will come from it.
    pub(super) async fn knock(&self, from: &Endpoint, key: &str) -> Result<(), String> {
        let config = config(Some(self.fingerprint), talk::CONTROL, control_transport());
        let config = config.map_err(|error| error.to_string())?;
        let knocking = async {
            let connecting = from.connect_with(config, self.remote(), "localhost");
            let connecting = connecting.map_err(|error| error.to_string())?;
            let connection = connecting.await.map_err(|error| error.to_string())?;
            let opened = connection.open_bi().await;
            let (mut send, mut recv) = opened.map_err(|error| error.to_string())?;
            let ask = Ask::Knock {
                key: key.to_owned(),
            };
            let talk = async {
                let message = talk::encode(&ask, talk::STRANGER_BYTES)?;
                talk::write(&mut send, message).await?;
                talk::read::<Answer>(&mut recv, talk::STRANGER_BYTES).await
            };
            let answer = talk.await.map_err(|error| error.to_string())?;
            connection.close(0, b"");
            match answer {
                Answer::Done => Ok(()),
                Answer::Refused { reason } => Err(reason),
                _ => Err("the answer to a knock does not fit it".to_owned()),
            }
        };
        let knocked = timeout(PATIENCE, knocking).await;
        knocked.unwrap_or_else(|_| Err(format!("no answer to a knock for {PATIENCE:?}")))
    }

    /// Says goodbye.
    pub(super) async fn close(self) {
        self.connection.close(0, b"");
        let _ = timeout(Duration::from_secs(1), self.endpoint.wait_idle()).await;
    }
}

/// Why there is no connection, in words that say what to do.
fn sorted(far: &str, address: &Address, error: &ConnectHostError) -> FieldError {
    let far = far.to_owned();
    let ConnectHostError::AllFailed { attempts, .. } = error else {
        let reason = error.to_string();
        return FieldError::Unreachable { far, reason };
    };
    let any = |is: fn(&HandshakeError) -> bool| attempts.iter().any(|(_, error)| is(error));
    if any(|error| matches!(error, HandshakeError::NoCommonProtocol { .. })) {
        return FieldError::Stranger { far };
    }
    if address.pin.is_some() && any(|error| matches!(error, HandshakeError::BadCertificate { .. }))
    {
        return FieldError::Pin { far };
    }
    let reasons: Vec<String> = attempts
        .iter()
        .map(|(_, error)| error.to_string())
        .collect();
    FieldError::Unreachable {
        far,
        reason: reasons.join(", "),
    }
}
