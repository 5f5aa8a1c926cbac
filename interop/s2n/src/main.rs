//! s2n-quic as an interop peer.

use std::{net::SocketAddr, process::ExitCode, rc::Rc};

use anyhow::{Result, anyhow};
use interop_kit::{
    Accepted, Arguments, Case, Client, Connected, Connection, Http3, RawStreams, Role, Server,
    fact, run_client, run_server, tls, unsupported,
};
use s2n_quic::{
    application,
    connection::{BidirectionalStreamAcceptor, Handle, ReceiveStreamAcceptor},
    provider::{
        endpoint_limits::{ConnectionAttempt, Limiter, Outcome},
        tls::rustls as provider,
    },
    stream::{ReceiveStream, SendStream},
};
use tokio::sync::Mutex;

fn main() -> ExitCode {
    interop_kit::main(|arguments| async move {
        match arguments.role {
            Role::Client => run_client(ClientPeer::new(&arguments)?, &arguments).await,
            Role::Server => run_server(ServerPeer::new(&arguments)?, &arguments).await,
        }
    })
}

/// Asks every client for a proof of its address.
struct AlwaysRetry;

impl Limiter for AlwaysRetry {
    fn on_connection_attempt(&mut self, _info: &ConnectionAttempt<'_>) -> Outcome {
        Outcome::retry()
    }
}

struct ClientPeer {
    client: s2n_quic::Client,
    address: SocketAddr,
}

impl ClientPeer {
    fn new(arguments: &Arguments) -> Result<Self> {
        let mut config = tls::client(arguments)?;
        config.enable_early_data = false;
        let client = s2n_quic::Client::builder()
            .with_tls(provider::Client::from(config))?
            .with_io("127.0.0.1:0")?
            .start()?;
        Ok(Self {
            client,
            address: arguments.address,
        })
    }
}

impl Client for ClientPeer {
    type Connection = Conn;

    async fn connect(&self, early: bool) -> Result<Connected<Conn>> {
        if early {
            return unsupported("s2n_quic::Client sends nothing before the handshake is done");
        }
        let wanted = s2n_quic::client::Connect::new(self.address);
        let connection = self
            .client
            .connect(wanted.with_server_name(tls::SERVER_NAME))
            .await?;
        Ok(Connected {
            connection: Conn::new(connection),
            early: None,
        })
    }

    fn migrate(&self) -> Result<()> {
        unsupported("s2n_quic::Client cannot move to another socket")
    }

    async fn finish(mut self) {
        let limit = std::time::Duration::from_secs(1);
        let _ = tokio::time::timeout(limit, self.client.wait_idle()).await;
    }
}

struct ServerPeer {
    server: Mutex<s2n_quic::Server>,
}

impl ServerPeer {
    fn new(arguments: &Arguments) -> Result<Self> {
        let mut config = tls::server(arguments)?;
        // What the provider's own builder leaves it at.
        config.max_early_data_size = 0;
        let builder = s2n_quic::Server::builder()
            .with_tls(provider::Server::from(config))?
            .with_io(arguments.address)?;
        let server = if arguments.case == Case::Retry {
            builder.with_endpoint_limits(AlwaysRetry)?.start()?
        } else {
            builder.start()?
        };
        Ok(Self {
            server: Mutex::new(server),
        })
    }
}

impl Server for ServerPeer {
    type Connection = Conn;

    async fn accept(&self) -> Option<Accepted<Conn>> {
        let connection = self.server.lock().await.accept().await?;
        Some(Box::pin(async move { Ok(Conn::new(connection)) }))
    }

    async fn finish(self) {}
}

#[derive(Clone)]
struct Conn {
    handle: Handle,
    bidirectional: Rc<Mutex<BidirectionalStreamAcceptor>>,
    unidirectional: Rc<Mutex<ReceiveStreamAcceptor>>,
}

impl Conn {
    fn new(connection: s2n_quic::Connection) -> Self {
        let (handle, acceptor) = connection.split();
        let (bidirectional, unidirectional) = acceptor.split();
        Self {
            handle,
            bidirectional: Rc::new(Mutex::new(bidirectional)),
            unidirectional: Rc::new(Mutex::new(unidirectional)),
        }
    }
}

impl RawStreams for Conn {
    type Send = SendStream;
    type Recv = ReceiveStream;

    async fn open_bi(&self) -> Result<(SendStream, ReceiveStream)> {
        let stream = self.handle.clone().open_bidirectional_stream().await?;
        let (recv, send) = stream.split();
        Ok((send, recv))
    }

    async fn accept_bi(&self) -> Result<(SendStream, ReceiveStream)> {
        let mut acceptor = self.bidirectional.lock().await;
        let stream = acceptor.accept_bidirectional_stream().await?;
        let (recv, send) = stream
            .ok_or_else(|| anyhow!("the connection is closed"))?
            .split();
        Ok((send, recv))
    }

    async fn open_uni(&self) -> Result<SendStream> {
        Ok(self.handle.clone().open_send_stream().await?)
    }

    async fn accept_uni(&self) -> Result<ReceiveStream> {
        let mut acceptor = self.unidirectional.lock().await;
        let stream = acceptor.accept_receive_stream().await?;
        stream.ok_or_else(|| anyhow!("the connection is closed"))
    }

    fn send_id(send: &SendStream) -> u64 {
        send.id()
    }

    fn recv_id(recv: &ReceiveStream) -> u64 {
        recv.id()
    }

    fn close(&self, code: u64, _reason: &[u8]) {
        self.handle
            .close(application::Error::new(code).unwrap_or(application::Error::UNKNOWN));
    }
}

impl Connection for Conn {
    type Http3 = Http3<Self>;

    fn http3(&self) -> Http3<Self> {
        Http3::new(self.clone())
    }

    fn update_keys(&self) -> Result<bool> {
        unsupported("s2n-quic has no call that starts a key update")
    }

    fn report(&self) {
        fact("reported", 1);
    }
}
