//! s2n-quic under the bench's loads, with the TLS provider it takes by default.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use bench_kit::{
    ALPN, CHUNKS, CONNECTION_WINDOW, Connection, MAX_UDP_PAYLOAD, Opener, RecvHalf, STREAM_WINDOW,
    STREAMS, SendHalf, Stack,
    identity::{self, Identity},
};
use bytes::Bytes;
use s2n_quic::{
    Client, Server,
    client::Connect,
    connection::{Handle, StreamAcceptor},
    provider::{congestion_controller::Cubic, io, limits::Limits, tls::default as tls},
    stream::{BidirectionalStream, ReceiveStream, SendStream},
};

struct S2n;
struct Peer {
    handle: Handle,
    acceptor: StreamAcceptor,
}
#[derive(Clone)]
struct Open(Handle);
struct Send(SendStream);
struct Recv(ReceiveStream);

/// s2n-quic counts IPv4 and UDP headers in.
const MTU: u16 = MAX_UDP_PAYLOAD + 28;

fn limits() -> Result<Limits> {
    Ok(Limits::new()
        .with_data_window(CONNECTION_WINDOW)?
        .with_bidirectional_local_data_window(STREAM_WINDOW)?
        .with_bidirectional_remote_data_window(STREAM_WINDOW)?
        .with_max_send_buffer_size(CONNECTION_WINDOW as u32)?
        .with_max_open_local_bidirectional_streams(STREAMS)?
        .with_max_open_remote_bidirectional_streams(STREAMS)?)
}

fn io() -> Result<io::tokio::Provider> {
    let socket = identity::socket()?;
    Ok(io::tokio::Provider::builder()
        .with_max_mtu(MTU)?
        .with_rx_socket(socket)?
        .build()?)
}

fn peer(connection: s2n_quic::Connection) -> Peer {
    let (handle, acceptor) = connection.split();
    Peer { handle, acceptor }
}

fn halves(stream: BidirectionalStream) -> (Send, Recv) {
    let (recv, send) = stream.split();
    (Send(send), Recv(recv))
}

impl Stack for S2n {
    const THREADS: usize = 0;
    type Server = Server;
    type Client = Client;
    type Connection = Peer;

    fn server(identity: &Identity) -> Result<(Server, SocketAddr)> {
        let tls = tls::Server::builder()
            .with_certificate(
                identity.certificate_file.as_path(),
                identity.key_file.as_path(),
            )?
            .with_application_protocols([ALPN].iter())?
            .build()?;
        let server = Server::builder()
            .with_tls(tls)?
            .with_io(io()?)?
            .with_limits(limits()?)?
            .with_congestion_controller(Cubic::default())?
            .start()?;
        let address = server.local_addr()?;
        Ok((server, address))
    }

    async fn serve(mut server: Server) {
        while let Some(connection) = server.accept().await {
            tokio::spawn(bench_kit::answer(peer(connection)));
        }
    }

    fn client(identity: &Identity) -> Result<Client> {
        let tls = tls::Client::builder()
            .with_certificate(identity.authority_file.as_path())?
            .with_application_protocols([ALPN].iter())?
            .build()?;
        Ok(Client::builder()
            .with_tls(tls)?
            .with_io(io()?)?
            .with_limits(limits()?)?
            .with_congestion_controller(Cubic::default())?
            .start()?)
    }

    async fn connect(client: &Client, server: SocketAddr) -> Result<Peer> {
        let connect = Connect::new(server).with_server_name(identity::NAME);
        Ok(peer(client.connect(connect).await?))
    }
}

impl Connection for Peer {
    type Opener = Open;
    type Send = Send;
    type Recv = Recv;

    fn opener(&self) -> Open {
        Open(self.handle.clone())
    }

    async fn accept(&mut self) -> Option<(Send, Recv)> {
        self.acceptor
            .accept_bidirectional_stream()
            .await
            .ok()?
            .map(halves)
    }

    fn close(self) {
        self.handle.close(0u32.into());
    }
}

impl Opener for Open {
    type Send = Send;
    type Recv = Recv;

    async fn open(&self) -> Result<(Send, Recv)> {
        Ok(halves(self.0.clone().open_bidirectional_stream().await?))
    }
}

impl SendHalf for Send {
    async fn send(&mut self, chunk: Bytes) -> Result<()> {
        Ok(self.0.send(chunk).await?)
    }

    fn finish(&mut self) -> Result<()> {
        self.0.finish().context("finish")
    }
}

impl RecvHalf for Recv {
    async fn recv(
        &mut self,
        mut each: impl FnMut(&[u8]) + std::marker::Send,
    ) -> Result<Option<usize>> {
        let mut chunks = [const { Bytes::new() }; CHUNKS];
        let (count, open) = self.0.receive_vectored(&mut chunks).await?;
        if count == 0 && !open {
            return Ok(None);
        }
        let chunks = &chunks[..count];
        chunks.iter().for_each(|chunk| each(chunk));
        Ok(Some(chunks.iter().map(Bytes::len).sum()))
    }
}

fn main() {
    bench_kit::main::<S2n>()
}
