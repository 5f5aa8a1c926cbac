//! Tautline as an interop peer.

mod watch;

use std::{net::SocketAddr, process::ExitCode, sync::Arc, time::Duration};

use anyhow::Result;
use interop_kit::{
    Accepted, Arguments, Case, Client, Connected, Connection, RawStreams, Role, Server, fact, note,
    run_client, run_server, tls, unsupported,
};
use tautline::{
    ClientConfig, Endpoint, EndpointConfig, RecvStream, SendStream, ServerConfig, TransportConfig,
    Version,
};

/// The longest time for peers to hear of the end.
const LINGER: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    interop_kit::main(|arguments| async move {
        match arguments.role {
            Role::Client => run_client(Ours::client(&arguments)?, &arguments).await,
            Role::Server => run_server(Ours::server(&arguments)?, &arguments).await,
        }
    })
}

struct Ours {
    endpoint: Endpoint,
    address: SocketAddr,
    case: Case,
}

fn endpoint_config(case: Case) -> EndpointConfig {
    let mut config = EndpointConfig::default();
    if case.wants_version_2() {
        config.versions = vec![Version::V2, Version::V1];
    }
    config
}

fn transport(arguments: &Arguments) -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    config.observer = Some(watch::factory(arguments.qlog.clone()));
    Arc::new(config)
}

impl Ours {
    fn client(arguments: &Arguments) -> Result<Self> {
        let mut config: ClientConfig = tautline::tls::client_config(tls::client(arguments)?)?;
        config.transport = transport(arguments);
        if arguments.case == Case::Version2First {
            config.initial_version = Version::V2;
        }
        let endpoint = Endpoint::builder()
            .client(config)
            .config(endpoint_config(arguments.case))
            .bind(any_port(arguments.address))?;
        Ok(Self {
            endpoint,
            address: arguments.address,
            case: arguments.case,
        })
    }

    fn server(arguments: &Arguments) -> Result<Self> {
        let mut config: ServerConfig = tautline::tls::server_config(tls::server(arguments)?)?;
        config.transport = transport(arguments);
        let endpoint = Endpoint::builder()
            .server(config)
            .config(endpoint_config(arguments.case))
            .bind(arguments.address)?;
        Ok(Self {
            endpoint,
            address: arguments.address,
            case: arguments.case,
        })
    }

    async fn end(self) {
        self.endpoint.close(0, b"");
        let _ = tokio::time::timeout(LINGER, self.endpoint.wait_idle()).await;
    }
}

fn any_port(peer: SocketAddr) -> SocketAddr {
    match peer {
        SocketAddr::V4(_) => SocketAddr::from(([127, 0, 0, 1], 0)),
        SocketAddr::V6(_) => SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], 0)),
    }
}

impl Client for Ours {
    type Connection = Conn;

    async fn connect(&self, early: bool) -> Result<Connected<Conn>> {
        let connecting = self.endpoint.connect(self.address, tls::SERVER_NAME)?;
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
        let socket = std::net::UdpSocket::bind(any_port(self.address))?;
        Ok(self.endpoint.rebind(socket)?)
    }

    async fn finish(self) {
        self.end().await;
    }
}

impl Server for Ours {
    type Connection = Conn;

    async fn accept(&self) -> Option<Accepted<Conn>> {
        loop {
            let incoming = self.endpoint.accept().await?;
            if self.case == Case::Retry && !incoming.remote_address_validated() {
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
                    Ok((connection, accepted)) => {
                        tokio::task::spawn_local(async move {
                            fact("early_accepted", u64::from(accepted.await));
                        });
                        Ok(Conn(connection))
                    }
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
struct Conn(tautline::Connection);

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
        send.id().0
    }

    fn recv_id(recv: &RecvStream) -> u64 {
        recv.id().0
    }

    fn close(&self, code: u64, reason: &[u8]) {
        self.0.close(code, reason);
    }
}

impl Connection for Conn {
    type Http3 = tautline_h3::Connection;

    fn http3(&self) -> tautline_h3::Connection {
        tautline_h3::Connection::new(self.0.clone())
    }

    fn update_keys(&self) -> Result<bool> {
        Ok(self.0.force_key_update().is_ok())
    }

    fn report(&self) {
        fact("reported", 1);
        fact("resumed", u64::from(self.0.is_resumed()));
        note("version", &format!("{:?}", self.0.version()));
        if let Some(alpn) = self.0.alpn() {
            note("alpn", &String::from_utf8_lossy(&alpn));
        }
        let stats = self.0.stats();
        fact("dropped_packets", stats.packets_dropped);
    }
}
