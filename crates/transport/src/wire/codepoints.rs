//! Codepoints of extensions, each in one constant with the document it comes from.
//!
//! The codepoints of RFC 9000 itself stand where they are used; they do not move.

/// Frame types.
pub mod frame {
    /// IMMEDIATE_ACK. draft-ietf-quic-ack-frequency-14.
    pub const IMMEDIATE_ACK: u64 = 0x1f;
    /// ACK_FREQUENCY. draft-ietf-quic-ack-frequency-14.
    pub const ACK_FREQUENCY: u64 = 0xaf;
    /// RESET_STREAM_AT. draft-ietf-quic-reliable-stream-reset-10.
    pub const RESET_STREAM_AT: u64 = 0x24;
    /// DATAGRAM up to the end of the packet. RFC 9221 s4.
    pub const DATAGRAM: u64 = 0x30;
    /// DATAGRAM with a length. RFC 9221 s4.
    pub const DATAGRAM_WITH_LENGTH: u64 = 0x31;
    /// PATH_ACK. RFC 10069; so are all other PATH frames here but those with timestamps.
    pub const PATH_ACK: u64 = 0x3e;
    /// PATH_ACK with ECN counts.
    pub const PATH_ACK_ECN: u64 = 0x3f;
    /// PATH_ABANDON.
    pub const PATH_ABANDON: u64 = 0x3e75;
    /// PATH_STATUS_BACKUP.
    pub const PATH_STATUS_BACKUP: u64 = 0x3e76;
    /// PATH_STATUS_AVAILABLE.
    pub const PATH_STATUS_AVAILABLE: u64 = 0x3e77;
    /// PATH_NEW_CONNECTION_ID.
    pub const PATH_NEW_CONNECTION_ID: u64 = 0x3e78;
    /// PATH_RETIRE_CONNECTION_ID.
    pub const PATH_RETIRE_CONNECTION_ID: u64 = 0x3e79;
    /// MAX_PATH_ID.
    pub const MAX_PATH_ID: u64 = 0x3e7a;
    /// PATHS_BLOCKED.
    pub const PATHS_BLOCKED: u64 = 0x3e7b;
    /// PATH_CIDS_BLOCKED.
    pub const PATH_CIDS_BLOCKED: u64 = 0x3e7c;
    /// SOURCE_SYMBOL with a symbol ID of one byte; the three types after it have 2 to 4.
    /// docs/spec/fec.md, of this project, as all that concerns erasure correction.
    pub const SOURCE_SYMBOL: u64 = 0x2fe4;
    /// SOURCE_SYMBOL with a symbol ID of four bytes.
    pub const SOURCE_SYMBOL_LAST: u64 = 0x2fe7;
    /// REPAIR.
    pub const REPAIR: u64 = 0x2fe8;
    /// SYMBOL_ACK.
    pub const SYMBOL_ACK: u64 = 0x2fe9;
    /// FEC_WINDOW.
    pub const FEC_WINDOW: u64 = 0x2fea;
    /// PATH_ECHO. docs/spec/path-echo.md, of this project.
    pub const PATH_ECHO: u64 = 0x2feb;
    /// ACK_RECEIVE_TIMESTAMPS. draft-ietf-quic-receive-ts-03.
    pub const ACK_RECEIVE_TIMESTAMPS: u64 = 0x0317_8307;
    /// ACK_RECEIVE_TIMESTAMPS with ECN counts. draft-ietf-quic-receive-ts-03.
    pub const ACK_RECEIVE_TIMESTAMPS_ECN: u64 = 0x0317_8308;
    /// PATH_ACK_RECEIVE_TIMESTAMPS. draft-ietf-quic-receive-ts-03.
    pub const PATH_ACK_RECEIVE_TIMESTAMPS: u64 = 0x0317_8309;
    /// PATH_ACK_RECEIVE_TIMESTAMPS with ECN counts. draft-ietf-quic-receive-ts-03.
    pub const PATH_ACK_RECEIVE_TIMESTAMPS_ECN: u64 = 0x0317_830a;
}

/// Transport parameters.
pub mod parameter {
    /// version_information. RFC 9368 s10.1.
    pub const VERSION_INFORMATION: u64 = 0x11;
    /// reset_stream_at. draft-ietf-quic-reliable-stream-reset-10.
    pub const RESET_STREAM_AT: u64 = 0x1d;
    /// max_datagram_frame_size. RFC 9221 s3.
    pub const MAX_DATAGRAM_FRAME_SIZE: u64 = 0x20;
    /// initial_max_path_id. RFC 10069.
    pub const INITIAL_MAX_PATH_ID: u64 = 0x3e;
    /// grease_quic_bit. RFC 9287 s3.
    pub const GREASE_QUIC_BIT: u64 = 0x2ab2;
    /// fec_decoder. docs/spec/fec.md, of this project.
    pub const FEC_DECODER: u64 = 0x2fe1;
    /// fec_encoder. docs/spec/fec.md, of this project.
    pub const FEC_ENCODER: u64 = 0x2fe2;
    /// path_echo. docs/spec/path-echo.md, of this project.
    pub const PATH_ECHO: u64 = 0x2fe3;
    /// max_receive_timestamps_per_ack. draft-ietf-quic-receive-ts-03.
    pub const MAX_RECEIVE_TIMESTAMPS_PER_ACK: u64 = 0x4_ac07;
    /// receive_timestamps_exponent. draft-ietf-quic-receive-ts-03.
    pub const RECEIVE_TIMESTAMPS_EXPONENT: u64 = 0x4_ac26;
    /// min_ack_delay. draft-ietf-quic-ack-frequency-14.
    pub const MIN_ACK_DELAY: u64 = 0xff04_de1b;
}
