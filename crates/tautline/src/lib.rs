//! QUIC for tokio that stays taut on slack networks.
//!
//! [`Endpoint`] is one UDP address; [`Connection`] one peer, over one path or several
//! ([`Connection::open_path`]); [`SendStream`] and [`RecvStream`] the
//! halves of a stream (also tokio's `AsyncWrite` and `AsyncRead`). Plain RFC 9000 on the wire:
//! every other QUIC stack can talk to it. If you know quinn, see `docs/coming-from-quinn.md`.
//!
//! ```
//! use tautline::{Endpoint, tls};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // A server with a certificate made on the spot...
//! let identity = tls::self_signed(["localhost"])?;
//! let server = Endpoint::server(
//!     identity.server().alpn(["echo"]).build()?,
//!     "127.0.0.1:0".parse()?,
//! )?;
//! let address = server.local_addr();
//! tokio::spawn(async move {
//!     while let Some(incoming) = server.accept().await {
//!         let connection = incoming.await.unwrap();
//!         let (mut send, mut recv) = connection.accept_bi().await.unwrap();
//!         tokio::io::copy(&mut recv, &mut send).await.unwrap();
//!         send.finish().unwrap();
//!         connection.closed().await;
//!     }
//! });
//! // ...and a client that trusts exactly that certificate.
//! let client = Endpoint::client("127.0.0.1:0".parse()?)?;
//! client.set_default_client_config(
//!     tls::ClientTls::pinned([identity.fingerprint]).alpn(["echo"]).build()?,
//! );
//! let connection = client.connect(address, "localhost")?.await?;
//! let (mut send, mut recv) = connection.open_bi().await?;
//! send.write_all(b"hello").await?;
//! send.finish()?;
//! assert_eq!(recv.read_to_end(100).await?, b"hello");
//! connection.close(0, b"done");
//! client.wait_idle().await;
//! # Ok(()) }
//! ```
//!
//! # Dropping, cancelling, waiting
//!
//! | what | dropped |
//! |---|---|
//! | [`Endpoint`] (last clone) | takes no new clients; existing connections go on |
//! | [`Incoming`] | refused |
//! | [`Connecting`] | the attempt is given up |
//! | [`Connection`] (last clone, and no stream of it left) | closed with code 0, at once |
//! | [`SendStream`], neither finished nor reset | finished: what was written is delivered |
//! | [`RecvStream`], not read to its end | stopped with code 0 |
//! | a future of this crate | nothing is lost, unless its method says "not cancel safe" |
//!
//! Nothing here buffers without bound: see [`Connection`] for what waits and what is dropped.
//! Every limit is a field of [`TransportConfig`] or [`config::Limits`].
//!
//! # Runtimes
//!
//! An endpoint's driver is a task of the tokio runtime in which the endpoint is made, or runs on
//! threads of its own ([`EndpointBuilder::shards`]). The runtime needs I/O enabled, and time for
//! [`Endpoint::connect_host`] and on systems other than Linux.

mod clock;
mod conn;
mod connection;
mod endpoint;
pub mod error;
pub mod interfaces;
mod message;
mod paths;
mod shard;
mod socket;
mod stream;
mod timer;
pub mod tls;
mod wait;

pub use bytes::Bytes;
pub use tautline_transport::{
    config::{self, ClientConfig, EndpointConfig, Profile, ServerConfig, TransportConfig},
    fec::{self, FecConfig, FecStats, LossEstimate, LossMemory, LossStore},
    message::{Expiry, Message, MessageConfig, MessageFate, MessageId, MessageStats},
    multipath::{
        AckRouting, MOST_PATHS, MultipathConfig, PathCost, PathPin, PathStatus, PinError, WindowRtt,
    },
    path::PathEvent,
    stream::{Protection, StreamStats, sched::Priority},
    units::{Dir, PathId, Rate, Side, StreamId},
    wire::Version,
};

/// The sans-IO core, for its traits (congestion controllers, schedulers, observers).
pub use tautline_transport as transport;

pub use connection::{Connection, ConnectionStats, PathStats};
pub use endpoint::{
    Connecting, Endpoint, EndpointBuilder, EndpointStats, Incoming, IncomingFuture, RetryError,
    ZeroRttAccepted,
};
pub use error::{
    AbandonPathError, BindError, ClosedStream, ConnectError, ConnectHostError, ConnectionError,
    ExportError, HandshakeError, KeyUpdateError, LocalEndError, NextMessageError, OpenPathError,
    ReadError, ReadExactError, ReadToEndError, ResetError, SendDatagramError, SendMessageError,
    StoppedError, UnknownMessage, WriteError,
};
pub use message::{MessageOptions, MessageReport};
pub use paths::{Followed, LocalEnd, OpenedPath, PathEvents};
pub use socket::SocketBuffers;
pub use stream::{ReadChunk, RecvStream, SendStream};

/// The example of `docs/erasure-correction.md`, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/erasure-correction.md")]
struct ErasureCorrectionDoctest;

/// The example of `docs/messages.md`, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/messages.md")]
struct MessagesDoctest;

/// The example of `docs/paths.md`, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/paths.md")]
struct PathsDoctest;

/// The README's example, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct ReadmeDoctest;
