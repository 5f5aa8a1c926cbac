//! Tautline under the bench's loads.

use std::{net::SocketAddr, sync::Arc};

use anyhow::{Context, Result};
use bench_kit::{
    CHUNKS, CONNECTION_WINDOW, Connection, Opener, RecvHalf, SOCKET_BUFFER, STREAM_WINDOW, STREAMS,
    SendHalf, Stack,
    identity::{self, Identity},
};
use bytes::Bytes;
use tautline::{
    Endpoint, MultipathConfig, Profile, RecvStream, SendStream, TransportConfig,
    config::WindowConfig, tls, transport::fec::redundancy::registry,
};

/// The environment variable with the redundancy scheduler, as `--fec` of the `tautline` program
/// takes it; erasure correction is not negotiated without.
pub const FEC: &str = "BENCH_FEC";
/// The environment variable with the number of paths; multipath is not negotiated without.
pub const PATHS: &str = "BENCH_PATHS";

/// The stack.
pub struct Ours;
/// A connection.
#[derive(Clone)]
pub struct Peer(pub tautline::Connection);
/// A stream's sending half.
pub struct Send(SendStream);
/// A stream's receiving half.
pub struct Recv(RecvStream);

/// The windows that all stacks get.
pub fn transport() -> TransportConfig {
    let mut config = Profile::Bulk.config();
    config.connection_receive_window = WindowConfig::fixed(CONNECTION_WINDOW);
    config.stream_receive_window = WindowConfig::fixed(STREAM_WINDOW);
    config.send_buffer_bytes = CONNECTION_WINDOW;
    config.max_concurrent_bidi_streams = STREAMS;
    config
}

/// As [`transport`], with what [`FEC`] asks for.
fn configured() -> Result<TransportConfig> {
    let mut config = transport();
    if let Some(scheduler) = std::env::var_os(FEC) {
        let scheduler = scheduler.to_str().context("the scheduler is not UTF-8")?;
        config.fec.redundancy = registry::parse(scheduler)?;
        config.fec.decode = true;
    }
    if paths()?.is_some() {
        config.multipath = Some(MultipathConfig::default());
    }
    Ok(config)
}

/// The number of paths that [`PATHS`] asks for.
fn paths() -> Result<Option<u8>> {
    let Some(paths) = std::env::var_os(PATHS) else {
        return Ok(None);
    };
    let paths = paths.to_str().context("the number of paths is not UTF-8")?;
    Ok(Some(paths.parse()?))
}

/// Any port.
pub fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

impl Stack for Ours {
    const THREADS: usize = 0;
    type Server = Endpoint;
    type Client = Endpoint;
    type Connection = Peer;

    fn server(identity: &Identity) -> Result<(Endpoint, SocketAddr)> {
        let mut config = tls::server_config(identity.rustls_server()?)?;
        config.transport = Arc::new(configured()?);
        let endpoint = Endpoint::builder()
            .server(config)
            .socket_buffer_bytes(SOCKET_BUFFER)
            .bind(loopback())?;
        let address = endpoint.local_addr();
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
        let mut config = tls::client_config(identity.rustls_client()?)?;
        config.transport = Arc::new(configured()?);
        Ok(Endpoint::builder()
            .client(config)
            .socket_buffer_bytes(SOCKET_BUFFER)
            .bind(loopback())?)
    }

    async fn connect(client: &Endpoint, server: SocketAddr) -> Result<Peer> {
        let connection = client.connect(server, identity::NAME)?.await?;
        for path in 1..paths()?.unwrap_or(1) {
            let from = SocketAddr::from(([127, 0, 0, 1 + path], 0));
            connection.open_path(from, server).await?;
        }
        Ok(Peer(connection))
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
        self.0.close(0, b"");
    }

    fn counters(&self) -> String {
        let (stats, fec) = (self.0.stats(), self.0.fec_stats());
        let received = self.0.paths().into_iter().map(|path| path.bytes_received);
        let smaller =
            received.clone().min().unwrap_or(0) as f64 / received.sum::<u64>().max(1) as f64;
        format!(
            "\"packets_received\":{},\"packets_sent\":{},\"bytes_received\":{},\
             \"sources_received\":{},\"repairs_received\":{},\"smaller_share\":{smaller}",
            stats.packets_received,
            stats.packets_sent,
            stats.bytes_received,
            fec.sources_received,
            fec.repairs_received,
        )
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
        let Some(count) = self.0.read_chunks(&mut chunks).await? else {
            return Ok(None);
        };
        let chunks = &chunks[..count];
        chunks.iter().for_each(|chunk| each(chunk));
        Ok(Some(chunks.iter().map(Bytes::len).sum()))
    }
}
