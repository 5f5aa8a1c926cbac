//! Transport parameters.
//!
//! Purpose: what each end tells the other inside the TLS handshake.
//! Owns: [`TransportParameters`] with the RFC's defaults, its bytes, and every rule that can be
//! checked on one set alone.
//! Does not own: comparing connection IDs and versions with what was on the wire, and acting on
//! the values (`connection/handshake.rs`).
//! Called by: `connection/`, `tls/client_hello` users, the session store.
//! Spec: RFC 9000 s18, s7.4; RFC 9221 s3; RFC 9287 s3; RFC 9368 s3; RFC 10069;
//! docs/spec/fec.md; the drafts in [`super::codepoints`].
//! To add a variant: a field with its default, a line in `encode.rs` and an arm in `decode.rs`;
//! if it must not be remembered for 0-RTT, a line in [`TransportParameters::for_zero_rtt`].

mod decode;
mod encode;
mod fec;
#[cfg(test)]
mod tests;

use std::net::{SocketAddrV4, SocketAddrV6};

pub use fec::{FecDecoder, FecScheme};

use super::{ConnectionId, ResetToken, Version};

/// Parameter identifiers of RFC 9000 s18.2; those of extensions are in
/// [`super::codepoints::parameter`].
mod id {
    pub(super) const ORIGINAL_DESTINATION_CONNECTION_ID: u64 = 0x00;
    pub(super) const MAX_IDLE_TIMEOUT: u64 = 0x01;
    pub(super) const STATELESS_RESET_TOKEN: u64 = 0x02;
    pub(super) const MAX_UDP_PAYLOAD_SIZE: u64 = 0x03;
    pub(super) const INITIAL_MAX_DATA: u64 = 0x04;
    pub(super) const INITIAL_MAX_STREAM_DATA_BIDI_LOCAL: u64 = 0x05;
    pub(super) const INITIAL_MAX_STREAM_DATA_BIDI_REMOTE: u64 = 0x06;
    pub(super) const INITIAL_MAX_STREAM_DATA_UNI: u64 = 0x07;
    pub(super) const INITIAL_MAX_STREAMS_BIDI: u64 = 0x08;
    pub(super) const INITIAL_MAX_STREAMS_UNI: u64 = 0x09;
    pub(super) const ACK_DELAY_EXPONENT: u64 = 0x0a;
    pub(super) const MAX_ACK_DELAY: u64 = 0x0b;
    pub(super) const DISABLE_ACTIVE_MIGRATION: u64 = 0x0c;
    pub(super) const PREFERRED_ADDRESS: u64 = 0x0d;
    pub(super) const ACTIVE_CONNECTION_ID_LIMIT: u64 = 0x0e;
    pub(super) const INITIAL_SOURCE_CONNECTION_ID: u64 = 0x0f;
    pub(super) const RETRY_SOURCE_CONNECTION_ID: u64 = 0x10;
}

/// The versions an end uses and could use. RFC 9368 s3.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionInformation {
    /// The version in use.
    pub chosen: Version,
    /// A client's compatible versions, or a server's deployed ones, most wanted first.
    pub available: Vec<Version>,
}

/// Where a server wants its client to move after the handshake. RFC 9000 s18.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreferredAddress {
    /// IPv4 address, if any.
    pub v4: Option<SocketAddrV4>,
    /// IPv6 address, if any.
    pub v6: Option<SocketAddrV6>,
    /// Connection ID to use there, 1 to 20 bytes; has sequence number 1.
    pub cid: ConnectionId,
    /// Its stateless reset token.
    pub token: ResetToken,
}

/// One end's transport parameters. `Default` is what an absent parameter means.
///
/// Names ending in `_ms` and `_us` are milliseconds and microseconds as on the wire; sizes and
/// data limits are bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the RFCs'")]
pub struct TransportParameters {
    /// Sent by servers only.
    pub original_destination_connection_id: Option<ConnectionId>,
    /// 0 means none.
    pub max_idle_timeout_ms: u64,
    /// Sent by servers only.
    pub stateless_reset_token: Option<ResetToken>,
    /// At least 1200.
    pub max_udp_payload_size: u64,
    pub initial_max_data: u64,
    pub initial_max_stream_data_bidi_local: u64,
    pub initial_max_stream_data_bidi_remote: u64,
    pub initial_max_stream_data_uni: u64,
    /// At most 2^60.
    pub initial_max_streams_bidi: u64,
    /// At most 2^60.
    pub initial_max_streams_uni: u64,
    /// At most 20.
    pub ack_delay_exponent: u8,
    /// Below 2^14.
    pub max_ack_delay_ms: u64,
    pub disable_active_migration: bool,
    /// Sent by servers only.
    pub preferred_address: Option<PreferredAddress>,
    /// At least 2.
    pub active_connection_id_limit: u64,
    pub initial_source_connection_id: Option<ConnectionId>,
    /// Sent by servers only.
    pub retry_source_connection_id: Option<ConnectionId>,
    /// RFC 9368.
    pub version_information: Option<VersionInformation>,
    /// Whether RESET_STREAM_AT is understood.
    pub reset_stream_at: bool,
    /// Largest DATAGRAM frame taken, its type and length included; 0 takes none. RFC 9221.
    pub max_datagram_frame_size: u64,
    /// RFC 10069; at most 2^32 - 1; `None` leaves multipath off.
    pub initial_max_path_id: Option<u64>,
    /// RFC 9287.
    pub grease_quic_bit: bool,
    /// `Some` lets the peer send ACK_FREQUENCY; at most `max_ack_delay_ms`.
    pub min_ack_delay_us: Option<u64>,
    /// Receive timestamps wanted in one acknowledgement; 0 wants none.
    pub max_receive_timestamps_per_ack: u64,
    /// At most 20.
    pub receive_timestamps_exponent: u8,
    /// `Some` lets the peer send repair symbols.
    pub fec_decoder: Option<FecDecoder>,
    /// Codes this side may make repair symbols with, by number; empty: none.
    pub fec_encoder: Vec<u64>,
    /// Whether PATH_ECHO is understood.
    pub path_echo: bool,
}

impl Default for TransportParameters {
    fn default() -> Self {
        Self {
            original_destination_connection_id: None,
            max_idle_timeout_ms: 0,
            stateless_reset_token: None,
            max_udp_payload_size: 65_527,
            initial_max_data: 0,
            initial_max_stream_data_bidi_local: 0,
            initial_max_stream_data_bidi_remote: 0,
            initial_max_stream_data_uni: 0,
            initial_max_streams_bidi: 0,
            initial_max_streams_uni: 0,
            ack_delay_exponent: 3,
            max_ack_delay_ms: 25,
            disable_active_migration: false,
            preferred_address: None,
            active_connection_id_limit: 2,
            initial_source_connection_id: None,
            retry_source_connection_id: None,
            version_information: None,
            reset_stream_at: false,
            max_datagram_frame_size: 0,
            initial_max_path_id: None,
            grease_quic_bit: false,
            min_ack_delay_us: None,
            max_receive_timestamps_per_ack: 0,
            receive_timestamps_exponent: 0,
            fec_decoder: None,
            fec_encoder: Vec::new(),
            path_echo: false,
        }
    }
}

impl TransportParameters {
    /// The part that a client may remember for 0-RTT; the rest is at its default.
    /// RFC 9000 s7.4.1, RFC 10069, draft-ietf-quic-ack-frequency.
    #[must_use]
    pub fn for_zero_rtt(&self) -> Self {
        let forgotten = Self::default();
        Self {
            original_destination_connection_id: None,
            stateless_reset_token: None,
            ack_delay_exponent: forgotten.ack_delay_exponent,
            max_ack_delay_ms: forgotten.max_ack_delay_ms,
            preferred_address: None,
            initial_source_connection_id: None,
            retry_source_connection_id: None,
            version_information: None,
            initial_max_path_id: None,
            min_ack_delay_us: None,
            max_receive_timestamps_per_ack: 0,
            receive_timestamps_exponent: 0,
            fec_decoder: None,
            fec_encoder: Vec::new(),
            path_echo: false,
            ..self.clone()
        }
    }

    /// Whether a server that accepts 0-RTT may replace `remembered` by these parameters: no limit
    /// that 0-RTT packets may have used is lower. RFC 9000 s7.4.1, RFC 9221 s3.
    pub fn covers(&self, remembered: &Self) -> bool {
        self.active_connection_id_limit >= remembered.active_connection_id_limit
            && self.initial_max_data >= remembered.initial_max_data
            && self.initial_max_stream_data_bidi_local
                >= remembered.initial_max_stream_data_bidi_local
            && self.initial_max_stream_data_bidi_remote
                >= remembered.initial_max_stream_data_bidi_remote
            && self.initial_max_stream_data_uni >= remembered.initial_max_stream_data_uni
            && self.initial_max_streams_bidi >= remembered.initial_max_streams_bidi
            && self.initial_max_streams_uni >= remembered.initial_max_streams_uni
            && self.max_datagram_frame_size >= remembered.max_datagram_frame_size
            && (self.reset_stream_at || !remembered.reset_stream_at)
    }
}
