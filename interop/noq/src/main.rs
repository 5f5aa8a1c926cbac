//! noq as an interop peer.

use std::{net::SocketAddr, process::ExitCode, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use interop_kit::{
    Accepted, Arguments, Case, Client, Connected, Connection, Http3, RawStreams, Role, Server,
    fact, run_client, run_server, tls, unsupported,
};
use noq::{
    Endpoint, RecvStream, SendStream, VarInt,
    crypto::rustls::{HandshakeData, QuicClientConfig, QuicServerConfig},
};

const VERSION_2: u32 = 0x6b33_43cf;
const LINGER: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    interop_kit::main(|arguments| async move {
        match arguments.role {
            Role::Client => run_client(Peer::client(&arguments)?, &arguments).await,
            Role::Server => run_server(Peer::server(&arguments)?, &arguments).await,
        }
    })
}

struct Peer {
    endpoint: Endpoint,
    address: SocketAddr,
    case: Case,
}

/// Initial packets are protected by AES-128-GCM whatever suites are offered.
fn initial_suite() -> Result<rustls::quic::Suite> {
    let suite = rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;
    suite
        .tls13()
        .and_then(|suite| suite.quic_suite())
        .context("no QUIC suite")
}

impl Peer {
    fn client(arguments: &Arguments) -> Result<Self> {
        let crypto =
            QuicClientConfig::with_initial(Arc::new(tls::client(arguments)?), initial_suite()?)?;
        let mut config = noq::ClientConfig::new(Arc::new(crypto));
        if arguments.case.wants_version_2() {
            config.version(VERSION_2);
        }
        let endpoint = Endpoint::client(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        endpoint.set_default_client_config(config);
        Ok(Self {
            endpoint,
            address: arguments.address,
            case: arguments.case,
        })
    }

    fn server(arguments: &Arguments) -> Result<Self> {
        let crypto =
            QuicServerConfig::with_initial(Arc::new(tls::server(arguments)?), initial_suite()?)?;
        let config = noq::ServerConfig::with_crypto(Arc::new(crypto));
        let endpoint = Endpoint::server(config, arguments.address)?;
        Ok(Self {
            endpoint,
            address: arguments.address,
            case: arguments.case,
        })
    }

    async fn end(self) {
        self.endpoint.close(VarInt::from_u32(0), b"");
        let _ = tokio::time::timeout(LINGER, self.endpoint.wait_idle()).await;
    }
}

impl Client for Peer {
    type Connection = Conn;

    async fn connect(&self, early: bool) -> Result<Connected<Conn>> {
        let connecting = match self.endpoint.connect(self.address, tls::SERVER_NAME) {
            Err(error @ noq::ConnectError::UnsupportedVersion) => {
                return unsupported(format!("ConnectError::UnsupportedVersion: {error}"));
            }
            other => other?,
        };
        if !early {
            return Ok(Connected {
                connection: Conn(connecting.await?),
                early: None,
            });
        }
        match connecting.into_0rtt() {
            Ok((connection, accepted)) => Ok(Connected {
                connection: Conn(connection),
                early: Some(Box::pin(accepted)),
            }),
            Err(_) => unsupported("the server's ticket allows no early data"),
        }
    }

    fn migrate(&self) -> Result<()> {
        let socket = std::net::UdpSocket::bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        Ok(self.endpoint.rebind(socket)?)
    }

    async fn finish(self) {
        self.end().await;
    }
}

impl Server for Peer {
    type Connection = Conn;

    async fn accept(&self) -> Option<Accepted<Conn>> {
        loop {
            let incoming = self.endpoint.accept().await?;
            if self.case == Case::Retry && incoming.may_retry() {
                if incoming.retry().is_ok() {
                    fact("retries", 1);
                }
                continue;
            }
            let early = self.case == Case::ZeroRtt;
            return Some(Box::pin(async move {
                let connecting = incoming.accept()?;
                if !early {
                    return Ok(Conn(connecting.await?));
                }
                match connecting.into_0rtt() {
                    Ok((connection, _accepted)) => Ok(Conn(connection)),
                    Err(connecting) => Ok(Conn(connecting.await?)),
                }
            }));
        }
    }

    async fn finish(self) {
        self.end().await;
    }
}

#[derive(Clone)]
struct Conn(noq::Connection);

impl RawStreams for Conn {
    type Send = SendStream;
    type Recv = RecvStream;

    async fn open_bi(&self) -> Result<(SendStream, RecvStream)> {
        Ok(self.0.open_bi().await?)
    }

    async fn accept_bi(&self) -> Result<(SendStream, RecvStream)> {
        Ok(self.0.accept_bi().await?)
    }

    async fn open_uni(&self) -> Result<SendStream> {
        Ok(self.0.open_uni().await?)
    }

    async fn accept_uni(&self) -> Result<RecvStream> {
        Ok(self.0.accept_uni().await?)
    }

    fn send_id(send: &SendStream) -> u64 {
        VarInt::from(send.id()).into_inner()
    }

    fn recv_id(recv: &RecvStream) -> u64 {
        VarInt::from(recv.id()).into_inner()
    }

    fn close(&self, code: u64, reason: &[u8]) {
        self.0
            .close(VarInt::from_u64(code).unwrap_or_default(), reason);
    }
}

impl Connection for Conn {
    type Http3 = Http3<Self>;

    fn http3(&self) -> Http3<Self> {
        Http3::new(self.clone())
    }

    fn update_keys(&self) -> Result<bool> {
        self.0.force_key_update();
        Ok(true)
    }

    fn report(&self) {
        fact("reported", 1);
        let data = self
            .0
            .handshake_data()
            .and_then(|data| data.downcast::<HandshakeData>().ok());
        if let Some(protocol) = data.and_then(|data| data.protocol) {
            interop_kit::note("alpn", &String::from_utf8_lossy(&protocol));
        }
        fact("packets_lost", self.0.stats().lost_packets);
    }
}
