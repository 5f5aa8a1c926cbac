//! Tautline and noq, each as both ends.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, atomic::AtomicU64},
};

use anyhow::{Context, Result};
use noq::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use tautline::{
    LocalEnd, MultipathConfig, PathId, TransportConfig,
    tls::{ClientTls, SelfSigned},
    transport::multipath::sched,
};

use crate::transfer;

const ALPN: &str = "multipath";

/// A stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stack {
    Tautline,
    Noq,
}

impl Stack {
    pub fn name(self) -> &'static str {
        match self {
            Self::Tautline => "Tautline",
            Self::Noq => "noq",
        }
    }

    /// A server on loopback. What it returns must be kept.
    pub fn serve(self, identity: &SelfSigned, scheduler: &str) -> Result<(SocketAddr, Server)> {
        match self {
            Self::Tautline => serve_ours(identity, scheduler),
            Self::Noq => serve_noq(identity),
        }
    }

    /// A connection with a path to each of `remotes`.
    pub async fn connect(
        self,
        identity: &SelfSigned,
        scheduler: &str,
        remotes: [SocketAddr; 2],
    ) -> Result<Client> {
        match self {
            Self::Tautline => connect_ours(identity, scheduler, remotes).await,
            Self::Noq => connect_noq(identity, remotes).await,
        }
    }
}

/// Keeps a server alive.
pub enum Server {
    Ours { _endpoint: tautline::Endpoint },
    Noq { _endpoint: noq::Endpoint },
}

/// A client with two paths.
pub enum Client {
    Ours {
        endpoint: tautline::Endpoint,
        connection: tautline::Connection,
        second: PathId,
    },
    Noq {
        endpoint: noq::Endpoint,
        connection: noq::Connection,
        second: noq::Path,
    },
}

fn transport(scheduler: &str) -> Result<Arc<TransportConfig>> {
    let mut config = TransportConfig::default();
    let mut multipath = MultipathConfig::default();
    multipath.scheduler = sched::registry::by_name(scheduler).context("no such scheduler")?;
    config.multipath = Some(multipath);
    Ok(Arc::new(config))
}

fn loopback() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 0))
}

fn serve_ours(identity: &SelfSigned, scheduler: &str) -> Result<(SocketAddr, Server)> {
    let mut config = identity.server().alpn([ALPN]).build()?;
    config.transport = transport(scheduler)?;
    let endpoint = tautline::Endpoint::server(config, loopback())?;
    let address = endpoint.local_addr();
    let accepting = endpoint.clone();
    tokio::spawn(async move {
        while let Some(incoming) = accepting.accept().await {
            tokio::spawn(async move {
                let connection = incoming.await?;
                while let Ok((send, recv)) = connection.accept_bi().await {
                    transfer::as_server(send, recv).await?;
                }
                anyhow::Ok(())
            });
        }
    });
    let server = Server::Ours {
        _endpoint: endpoint,
    };
    Ok((address, server))
}

async fn connect_ours(
    identity: &SelfSigned,
    scheduler: &str,
    [first, second]: [SocketAddr; 2],
) -> Result<Client> {
    let mut config = ClientTls::pinned([identity.fingerprint])
        .alpn([ALPN])
        .build()?;
    config.transport = transport(scheduler)?;
    let endpoint = tautline::Endpoint::client(loopback())?;
    endpoint.set_default_client_config(config);
    let connection = endpoint.connect(first, "localhost")?.await?;
    let local = LocalEnd::from(SocketAddr::from(([127, 0, 0, 2], 0)));
    let path = connection.open_path(local, second).await?;
    Ok(Client::Ours {
        endpoint,
        connection,
        second: path.id,
    })
}

fn noq_transport() -> Arc<noq::TransportConfig> {
    let mut config = noq::TransportConfig::default();
    config.max_concurrent_multipath_paths(4);
    Arc::new(config)
}

fn initial_suite() -> Result<rustls::quic::Suite> {
    let suite = rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;
    let suite = suite.tls13().and_then(|suite| suite.quic_suite());
    suite.context("no QUIC suite")
}

fn serve_noq(identity: &SelfSigned) -> Result<(SocketAddr, Server)> {
    let crypto = identity.server().alpn([ALPN]).into_rustls()?;
    let crypto = QuicServerConfig::with_initial(Arc::new(crypto), initial_suite()?)?;
    let mut config = noq::ServerConfig::with_crypto(Arc::new(crypto));
    config.transport_config(noq_transport());
    let endpoint = noq::Endpoint::server(config, loopback())?;
    let address = endpoint.local_addr()?;
    let accepting = endpoint.clone();
    tokio::spawn(async move {
        while let Some(incoming) = accepting.accept().await {
            tokio::spawn(async move {
                let connection = incoming.await?;
                while let Ok((send, recv)) = connection.accept_bi().await {
                    transfer::as_server(send, recv).await?;
                }
                anyhow::Ok(())
            });
        }
    });
    let server = Server::Noq {
        _endpoint: endpoint,
    };
    Ok((address, server))
}

async fn connect_noq(identity: &SelfSigned, [first, second]: [SocketAddr; 2]) -> Result<Client> {
    let crypto = ClientTls::pinned([identity.fingerprint])
        .alpn([ALPN])
        .into_rustls()?;
    let crypto = QuicClientConfig::with_initial(Arc::new(crypto), initial_suite()?)?;
    let mut config = noq::ClientConfig::new(Arc::new(crypto));
    config.transport_config(noq_transport());
    // Paths of it may begin anywhere.
    let endpoint = noq::Endpoint::client(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)))?;
    endpoint.set_default_client_config(config);
    let connection = endpoint.connect(first, "localhost")?.await?;
    let over = noq::FourTuple::new(second, Some([127, 0, 0, 2].into()));
    let path = connection
        .open_path(over, noq::PathStatus::Available)
        .await?;
    Ok(Client::Noq {
        endpoint,
        connection,
        second: path,
    })
}

impl Client {
    /// One transfer.
    pub async fn transfer(&self, download: bool, bytes: u64, progress: &AtomicU64) -> Result<()> {
        match self {
            Self::Ours { connection, .. } => {
                let (send, recv) = connection.open_bi().await?;
                transfer::as_client(send, recv, download, bytes, progress).await
            }
            Self::Noq { connection, .. } => {
                let (send, recv) = connection.open_bi().await?;
                transfer::as_client(send, recv, download, bytes, progress).await
            }
        }
    }

    /// Gives up the handshake's path, or the other.
    pub fn abandon(&self, first: bool) -> Result<()> {
        match self {
            Self::Ours {
                connection, second, ..
            } => {
                let path = if first { PathId::ZERO } else { *second };
                Ok(connection.close_path(path)?)
            }
            Self::Noq {
                connection, second, ..
            } => {
                let path = if first {
                    let path = connection.path(noq::PathId::ZERO);
                    path.context("noq has no path 0")?
                } else {
                    second.clone()
                };
                Ok(path.close()?)
            }
        }
    }

    /// Tells the server, for a short time.
    pub async fn end(self) {
        const LINGER: std::time::Duration = std::time::Duration::from_secs(2);
        match self {
            Self::Ours {
                endpoint,
                connection,
                ..
            } => {
                connection.close(0, b"");
                let _ = tokio::time::timeout(LINGER, endpoint.wait_idle()).await;
            }
            Self::Noq {
                endpoint,
                connection,
                ..
            } => {
                connection.close(0u32.into(), b"");
                let _ = tokio::time::timeout(LINGER, endpoint.wait_idle()).await;
            }
        }
    }
}
