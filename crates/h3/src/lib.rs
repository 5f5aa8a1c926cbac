//! HTTP/3 over [`tautline`].
//!
//! Purpose: the transport traits of the well-kept crate [`h3`], so that HTTP/3 is that crate and
//! not ours; what a transport can add on top: bounds on frames that `h3` buffers whole, and
//! priorities (RFC 9218) mapped to stream priorities.
//! Owns: [`Connection`] and [`OpenStreams`] (`connection.rs`), the streams (`stream.rs`), the
//! frame watch (`watch.rs`) with the rules for fields (`message.rs`, `section/`), the peer's unidirectional streams until `h3` gets them
//! (`unidirectional.rs`) or keeps out of them (`qpack.rs`), [`priority`], HTTP datagrams (`datagram.rs`).
//! Does not own: HTTP/3 frames, QPACK, requests ([`h3`], re-exported); its gaps are listed in
//! `docs/h3-gaps.md`.
//! Called by: `tautline serve`, `get` and `interop`; any program that speaks HTTP/3.
//! Spec: RFC 9114, RFC 9218, RFC 9297.
//!
//! ```
//! # async fn f(quic: tautline::Connection) -> Result<(), Box<dyn std::error::Error>> {
//! // A server answers one request after the other on a connection...
//! let mut http = tautline_h3::server_builder()
//!     .build::<_, bytes::Bytes>(tautline_h3::Connection::new(quic))
//!     .await?;
//! while let Some(resolver) = http.accept().await? {
//!     let (_request, mut stream) = resolver.resolve_request().await?;
//!     stream.send_response(http::Response::new(())).await?;
//!     stream.send_data("hello".into()).await?;
//!     stream.finish().await?;
//! }
//! # Ok(()) }
//! ```

mod connection;
mod datagram;
mod error;
mod message;
pub mod priority;
mod qpack;
mod section;
mod stream;
mod unidirectional;
mod varint;
mod watch;

pub use h3;

pub use connection::{Connection, OpenStreams, Priorities};
pub use datagram::{DatagramReceiver, DatagramSender, HttpDatagrams};
pub use stream::{BidiStream, Malformed, RecvStream, SendStream};

/// Bytes of header fields (RFC 9114 s4.2.2 counting) that [`server_builder`] and
/// [`client_builder`] accept. Whatever the setting, no frame that `h3` must buffer whole may be
/// longer than this.
pub const MAX_FIELD_SECTION_BYTES: u64 = 64 * 1024;

/// The ALPN token of HTTP/3. RFC 9114 s3.1.
pub const ALPN: &[u8] = b"h3";

/// `h3::server::builder()` with a bound on header fields.
pub fn server_builder() -> h3::server::Builder {
    let mut builder = h3::server::builder();
    builder.max_field_section_size(MAX_FIELD_SECTION_BYTES);
    builder
}

/// `h3::client::builder()` with a bound on header fields.
pub fn client_builder() -> h3::client::Builder {
    let mut builder = h3::client::builder();
    builder.max_field_section_size(MAX_FIELD_SECTION_BYTES);
    builder
}
