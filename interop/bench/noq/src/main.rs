//! noq under the bench's loads.

use std::{net::SocketAddr, sync::Arc};

use anyhow::Result;
use bench_kit::{
    CHUNKS, CONNECTION_WINDOW, Connection, Opener, RecvHalf, STREAM_WINDOW, STREAMS, SendHalf,
    Stack,
    identity::{self, Identity},
};
use bytes::Bytes;
use noq::{
    ClientConfig, Endpoint, EndpointConfig, RecvStream, SendStream, ServerConfig, TokioRuntime,
    TransportConfig,
    crypto::rustls::{QuicClientConfig, QuicServerConfig},
};

struct Noq;
#[derive(Clone)]
struct Peer(noq::Connection);
struct Send(SendStream);
struct Recv(RecvStream);

fn transport() -> Result<Arc<TransportConfig>> {
    let mut config = TransportConfig::default();
    config
        .receive_window(CONNECTION_WINDOW.try_into()?)
        .stream_receive_window(STREAM_WINDOW.try_into()?)
        .send_window(CONNECTION_WINDOW)
        .max_concurrent_bidi_streams(STREAMS.try_into()?);
    Ok(Arc::new(config))
}

fn endpoint(server: Option<ServerConfig>) -> Result<Endpoint> {
    let socket = identity::socket()?;
    Ok(Endpoint::new(
        EndpointConfig::default(),
        server,
        socket,
        Arc::new(TokioRuntime),
    )?)
}

impl Stack for Noq {
    const THREADS: usize = 0;
    type Server = Endpoint;
    type Client = Endpoint;
    type Connection = Peer;

    fn server(identity: &Identity) -> Result<(Endpoint, SocketAddr)> {
        let crypto = QuicServerConfig::try_from(identity.rustls_server()?)?;
        let mut config = ServerConfig::with_crypto(Arc::new(crypto));
        config.transport_config(transport()?);
        let endpoint = endpoint(Some(config))?;
        let address = endpoint.local_addr()?;
        Ok((endpoint, address))
    }

    async fn serve(server: Endpoint) {
        while let Some(incoming) = server.accept().await {
            tokio::spawn(async move {
                if let Ok(connection) = incoming.await {
                    bench_kit::answer(Peer(connection)).await;
                }
            });
        }
    }

    fn client(identity: &Identity) -> Result<Endpoint> {
        let crypto = QuicClientConfig::try_from(identity.rustls_client()?)?;
        let mut config = ClientConfig::new(Arc::new(crypto));
        config.transport_config(transport()?);
        let endpoint = endpoint(None)?;
        endpoint.set_default_client_config(config);
        Ok(endpoint)
    }

    async fn connect(client: &Endpoint, server: SocketAddr) -> Result<Peer> {
        Ok(Peer(client.connect(server, identity::NAME)?.await?))
    }
}

impl Connection for Peer {
    type Opener = Self;
    type Send = Send;
    type Recv = Recv;

    fn opener(&self) -> Self {
        self.clone()
    }

    async fn accept(&mut self) -> Option<(Send, Recv)> {
        let (send, recv) = self.0.accept_bi().await.ok()?;
        Some((Send(send), Recv(recv)))
    }

    fn close(self) {
        self.0.close(0u32.into(), b"");
    }
}

impl Opener for Peer {
    type Send = Send;
    type Recv = Recv;

    async fn open(&self) -> Result<(Send, Recv)> {
        let (send, recv) = self.0.open_bi().await?;
        Ok((Send(send), Recv(recv)))
    }
}

impl SendHalf for Send {
    async fn send(&mut self, chunk: Bytes) -> Result<()> {
        Ok(self.0.write_chunk(chunk).await?)
    }

    fn finish(&mut self) -> Result<()> {
        Ok(self.0.finish()?)
    }
}

impl RecvHalf for Recv {
    async fn recv(
        &mut self,
        mut each: impl FnMut(&[u8]) + std::marker::Send,
    ) -> Result<Option<usize>> {
        let mut chunks = [const { Bytes::new() }; CHUNKS];
        let Some(count) = self.0.read_many_chunks(&mut chunks).await? else {
            return Ok(None);
        };
        let chunks = &chunks[..count];
        chunks.iter().for_each(|chunk| each(chunk));
        Ok(Some(chunks.iter().map(Bytes::len).sum()))
    }
}

fn main() {
    bench_kit::main::<Noq>()
}
