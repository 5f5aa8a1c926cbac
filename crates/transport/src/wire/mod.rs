//! Bytes to values and back, without state.
//!
//! Purpose: parse and write what QUIC puts on the wire: variable-length integers, packet headers
//! before protection, frames, transport parameters.
//! Owns: [`Reader`], [`Writer`], [`Header`], [`Frame`] and its table of properties
//! ([`FrameRow`]), [`TransportParameters`], [`ConnectionId`], [`Version`].
//! Does not own: protection and the Retry integrity tag (`tls/`), whether a frame may come now
//! (`connection/dispatch.rs`), limits that depend on state (each room).
//! Called by: every room. Calls none.
//! Spec: RFC 8999, RFC 9000 s16-19, RFC 9221, RFC 9287, RFC 9368, RFC 9369, RFC 10069,
//! docs/spec/fec.md, and the drafts in [`codepoints`].
//! To add a variant: a frame needs its codepoint, a variant of [`Frame`] with its decoder and
//! encoder in a file under `frame/`, and a row in `frame/table.rs`; a transport parameter needs
//! a field and two lines in `transport_parameters/`.

mod cid;
pub mod codepoints;
mod frame;
mod header;
mod reader;
mod transport_parameters;
mod varint;
mod version;
mod writer;

pub use cid::{ConnectionId, MAX_CONNECTION_ID_LEN, ResetToken};
pub use frame::{
    Ack, AckRanges, AckToWrite, Close, EcnCounts, Frame, FrameCarrier, FrameClass, FrameRow,
    MAX_STREAM_COUNT, NewConnectionId, NumberRanges, PacketTypes, Repair, ResetStream,
    SourceSymbol, Stream, Timestamps, TimestampsToWrite, all_rows, encode_stream_header, row_of,
    stream_header_len, write_ack, write_path_echo, write_symbol_ack,
};
pub use header::{
    Header, LongHeader, LongType, decode_packet_number, encode_short, has_fixed_bit,
    packet_number_len, parse_header, patch_length, write_retry_without_tag,
    write_version_negotiation,
};
pub use reader::Reader;
pub use transport_parameters::{
    FecDecoder, FecScheme, PreferredAddress, TransportParameters, VersionInformation,
};
pub use varint::{MAX_VARINT, varint_len};
pub use version::Version;
pub use writer::Writer;
