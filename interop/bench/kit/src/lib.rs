//! What the bench programs share, so that every stack does the same work in the same way.
//!
//! A program is a [`Stack`] and a call of [`main`]. It is a server or a client, prints one JSON
//! object per line, and takes orders on standard input; `cargo xtask bench` drives it.

mod client;
pub mod heap;
pub mod identity;
mod server;
mod usage;

use std::{future::Future, net::SocketAddr, path::PathBuf, time::Duration};

use anyhow::{Context, Result};
use bytes::Bytes;
use clap::{Parser, Subcommand};

pub use client::{Load, LoadKind};
pub use server::{answer, control};
pub use usage::Usage;

/// Unread bytes that a connection may hold, on both sides.
pub const CONNECTION_WINDOW: u64 = 64 << 20;
/// Unread bytes that a stream may hold.
pub const STREAM_WINDOW: u64 = 32 << 20;
/// Streams that the client may have open at once.
pub const STREAMS: u64 = 1_000;
/// Largest UDP payload.
pub const MAX_UDP_PAYLOAD: u16 = 1_452;
/// Kernel socket buffers, each way.
pub const SOCKET_BUFFER: usize = 7 << 20;
/// The application protocol.
pub const ALPN: &[u8] = b"bench";
/// Chunks taken from a stream at once where the stack can give several.
pub const CHUNKS: usize = 32;

/// One implementation of QUIC.
pub trait Stack: Send + Sync + Sized + 'static {
    /// Threads of the runtime unless chosen otherwise; 0 is tokio's single-threaded runtime.
    const THREADS: usize;
    /// A listening endpoint.
    type Server: Send + 'static;
    /// An endpoint that connects.
    type Client: Send + Sync + 'static;
    /// An established connection.
    type Connection: Connection;

    /// Listens on 127.0.0.1.
    fn server(identity: &identity::Identity) -> Result<(Self::Server, SocketAddr)>;
    /// Runs [`answer`] in a task for every connection.
    fn serve(server: Self::Server) -> impl Future<Output = ()> + Send;
    /// Ready to connect.
    fn client(identity: &identity::Identity) -> Result<Self::Client>;
    /// A full handshake.
    fn connect(
        client: &Self::Client,
        server: SocketAddr,
    ) -> impl Future<Output = Result<Self::Connection>> + Send;
}

/// A connection and its streams.
pub trait Connection: Send + 'static {
    /// What opens streams, from any task.
    type Opener: Opener<Send = Self::Send, Recv = Self::Recv>;
    /// A stream's sending half.
    type Send: SendHalf;
    /// A stream's receiving half.
    type Recv: RecvHalf;

    /// See [`Opener`].
    fn opener(&self) -> Self::Opener;
    /// The next stream of the peer; `None` at the end of the connection.
    fn accept(&mut self) -> impl Future<Output = Option<(Self::Send, Self::Recv)>> + Send;
    /// Ends the connection.
    fn close(self);
    /// What the stack counts, as the inside of a JSON object.
    fn counters(&self) -> String {
        String::new()
    }
}

/// Opens streams.
pub trait Opener: Clone + Send + Sync + 'static {
    /// A stream's sending half.
    type Send: SendHalf;
    /// A stream's receiving half.
    type Recv: RecvHalf;
    /// A bidirectional stream.
    fn open(&self) -> impl Future<Output = Result<(Self::Send, Self::Recv)>> + Send;
}

/// A stream's sending half.
pub trait SendHalf: Send + 'static {
    /// Hands all of `chunk` over.
    fn send(&mut self, chunk: Bytes) -> impl Future<Output = Result<()>> + Send;
    /// No more follows.
    fn finish(&mut self) -> Result<()>;
}

/// A stream's receiving half.
pub trait RecvHalf: Send + 'static {
    /// Takes what there is, in order: as many bytes and chunks as the stack gives in one call.
    /// `None` at the end.
    fn recv(
        &mut self,
        each: impl FnMut(&[u8]) + Send,
    ) -> impl Future<Output = Result<Option<usize>>> + Send;
}

#[derive(Parser)]
struct Arguments {
    /// Folder with the certificates.
    #[arg(long)]
    identity: PathBuf,
    /// Threads of the runtime; 0 is the single-threaded runtime.
    #[arg(long)]
    threads: Option<usize>,
    #[command(subcommand)]
    role: Role,
}

#[derive(Subcommand)]
enum Role {
    /// Makes certificates.
    Identity,
    /// Answers until its standard input ends.
    Server,
    /// Puts a load on a server.
    Client(Load),
}

/// No load takes longer; a peer that hangs shall not hold up the bench.
const PATIENCE: Duration = Duration::from_secs(180);

/// Runs the program; says in one line what went wrong.
pub fn main<S: Stack>() -> ! {
    match run::<S>() {
        // Tasks may still run; nobody needs them.
        Ok(()) => std::process::exit(0),
        Err(error) => {
            eprintln!("error: {error:#}");
            std::process::exit(1)
        }
    }
}

fn run<S: Stack>() -> Result<()> {
    let arguments = Arguments::parse();
    if matches!(arguments.role, Role::Identity) {
        return identity::create(&arguments.identity);
    }
    let identity = identity::Identity::load(&arguments.identity)?;
    let runtime = match arguments.threads.unwrap_or(S::THREADS) {
        0 => tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?,
        threads => tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .enable_all()
            .build()?,
    };
    runtime.block_on(async {
        match arguments.role {
            Role::Server => server::run::<S>(&identity).await,
            Role::Client(load) => {
                let work = client::run::<S>(&identity, &load);
                tokio::time::timeout(PATIENCE, work)
                    .await
                    .context("it takes too long")?
            }
            Role::Identity => Ok(()),
        }
    })
}
