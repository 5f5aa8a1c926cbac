//! Writing transport parameters.

use super::{PreferredAddress, TransportParameters, VersionInformation, fec::encode_encoder, id};
use crate::{
    rng::Rng,
    units::Side,
    wire::{MAX_VARINT, Writer, codepoints::parameter, varint_len},
};

/// Most bytes of a greased parameter's value.
const MAX_GREASE_BYTES: u64 = 16;

impl TransportParameters {
    /// The bytes of the quic_transport_parameters extension as `side` sends them.
    ///
    /// Parameters at their default are left out, and so are those only servers may send when
    /// `side` is the client. `grease` adds a parameter (RFC 9000 s18.1) and a version (RFC 9368 s3)
    /// that nobody knows, and shuffles the order.
    pub fn encode(&self, side: Side, mut grease: Option<&mut Rng>) -> Vec<u8> {
        let mut entries = Entries::default();
        self.integers(&mut entries);
        self.flags(&mut entries);
        if let Some(cid) = &self.initial_source_connection_id {
            entries.bytes(id::INITIAL_SOURCE_CONNECTION_ID, cid.as_slice());
        }
        if let Some(information) = &self.version_information {
            let mut bytes = version_bytes(information);
            if let Some(rng) = grease.as_deref_mut() {
                bytes.extend(greased_version(rng));
            }
            entries.bytes(parameter::VERSION_INFORMATION, &bytes);
        }
        if let Some(decoder) = &self.fec_decoder {
            entries.bytes(parameter::FEC_DECODER, &decoder.encode());
        }
        if !self.fec_encoder.is_empty() {
            entries.bytes(parameter::FEC_ENCODER, &encode_encoder(&self.fec_encoder));
        }
        if side.is_server() {
            self.server_only(&mut entries);
        }
        if let Some(rng) = grease {
            entries.grease(rng);
            entries.shuffle(rng);
        }
        entries.concat()
    }

    fn integers(&self, entries: &mut Entries) {
        let default = Self::default();
        let values = [
            (
                id::MAX_IDLE_TIMEOUT,
                self.max_idle_timeout_ms,
                default.max_idle_timeout_ms,
            ),
            (
                id::MAX_UDP_PAYLOAD_SIZE,
                self.max_udp_payload_size,
                default.max_udp_payload_size,
            ),
            (id::INITIAL_MAX_DATA, self.initial_max_data, 0),
            (
                id::INITIAL_MAX_STREAM_DATA_BIDI_LOCAL,
                self.initial_max_stream_data_bidi_local,
                0,
            ),
            (
                id::INITIAL_MAX_STREAM_DATA_BIDI_REMOTE,
                self.initial_max_stream_data_bidi_remote,
                0,
            ),
            (
                id::INITIAL_MAX_STREAM_DATA_UNI,
                self.initial_max_stream_data_uni,
                0,
            ),
            (
                id::INITIAL_MAX_STREAMS_BIDI,
                self.initial_max_streams_bidi,
                0,
            ),
            (id::INITIAL_MAX_STREAMS_UNI, self.initial_max_streams_uni, 0),
            (
                id::ACK_DELAY_EXPONENT,
                self.ack_delay_exponent.into(),
                default.ack_delay_exponent.into(),
            ),
            (
                id::MAX_ACK_DELAY,
                self.max_ack_delay_ms,
                default.max_ack_delay_ms,
            ),
            (
                id::ACTIVE_CONNECTION_ID_LIMIT,
                self.active_connection_id_limit,
                default.active_connection_id_limit,
            ),
            (
                parameter::MAX_DATAGRAM_FRAME_SIZE,
                self.max_datagram_frame_size,
                0,
            ),
            (
                parameter::MAX_RECEIVE_TIMESTAMPS_PER_ACK,
                self.max_receive_timestamps_per_ack,
                0,
            ),
            (
                parameter::RECEIVE_TIMESTAMPS_EXPONENT,
                self.receive_timestamps_exponent.into(),
                0,
            ),
        ];
        for (id, value, default) in values {
            if value != default {
                entries.integer(id, value);
            }
        }
        let optional = [
            (parameter::INITIAL_MAX_PATH_ID, self.initial_max_path_id),
            (parameter::MIN_ACK_DELAY, self.min_ack_delay_us),
        ];
        for (id, value) in optional {
            if let Some(value) = value {
                entries.integer(id, value);
            }
        }
    }

    fn flags(&self, entries: &mut Entries) {
        let flags = [
            (id::DISABLE_ACTIVE_MIGRATION, self.disable_active_migration),
            (parameter::RESET_STREAM_AT, self.reset_stream_at),
            (parameter::GREASE_QUIC_BIT, self.grease_quic_bit),
            (parameter::PATH_ECHO, self.path_echo),
        ];
        for (id, set) in flags {
            if set {
                entries.bytes(id, &[]);
            }
        }
    }

    fn server_only(&self, entries: &mut Entries) {
        if let Some(cid) = &self.original_destination_connection_id {
            entries.bytes(id::ORIGINAL_DESTINATION_CONNECTION_ID, cid.as_slice());
        }
        if let Some(token) = &self.stateless_reset_token {
            entries.bytes(id::STATELESS_RESET_TOKEN, &token.0);
        }
        if let Some(cid) = &self.retry_source_connection_id {
            entries.bytes(id::RETRY_SOURCE_CONNECTION_ID, cid.as_slice());
        }
        if let Some(address) = &self.preferred_address {
            entries.bytes(id::PREFERRED_ADDRESS, &address_bytes(address));
        }
    }
}

fn version_bytes(information: &VersionInformation) -> Vec<u8> {
    std::iter::once(&information.chosen)
        .chain(&information.available)
        .flat_map(|version| version.0.to_be_bytes())
        .collect()
}

/// A version of the form `0x?a?a?a?a`. RFC 9000 s15.
fn greased_version(rng: &mut Rng) -> [u8; 4] {
    rng.array().map(|byte: u8| byte & 0xf0 | 0x0a)
}

/// An absent address is all zeros.
fn address_bytes(address: &PreferredAddress) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(61);
    bytes.extend(address.v4.map_or([0; 4], |v4| v4.ip().octets()));
    bytes.extend(address.v4.map_or(0, |v4| v4.port()).to_be_bytes());
    bytes.extend(address.v6.map_or([0; 16], |v6| v6.ip().octets()));
    bytes.extend(address.v6.map_or(0, |v6| v6.port()).to_be_bytes());
    // At most 20.
    bytes.push(address.cid.len() as u8);
    bytes.extend(address.cid.as_slice());
    bytes.extend(address.token.0);
    bytes
}

/// Encoded parameters in an order that may still change.
#[derive(Default)]
struct Entries(Vec<Vec<u8>>);

impl Entries {
    fn bytes(&mut self, id: u64, value: &[u8]) {
        let header_len = varint_len(id) + varint_len(value.len() as u64);
        let mut entry = vec![0; header_len];
        let mut w = Writer::new(&mut entry);
        w.varint(id);
        w.varint(value.len() as u64);
        entry.extend_from_slice(value);
        self.0.push(entry);
    }

    /// Values above what a variable-length integer holds, which is more than any limit, are cut.
    fn integer(&mut self, id: u64, value: u64) {
        let mut buf = [0; 8];
        let mut w = Writer::new(&mut buf);
        w.varint(value.min(MAX_VARINT));
        let value = w.into_written();
        self.bytes(id, value);
    }

    /// Identifiers of the form 31 * N + 27 are reserved. RFC 9000 s18.1.
    fn grease(&mut self, rng: &mut Rng) {
        let id = 31 * rng.below((MAX_VARINT - 27) / 31 + 1) + 27;
        let random: [u8; MAX_GREASE_BYTES as usize] = rng.array();
        let len = usize::try_from(rng.below(MAX_GREASE_BYTES + 1)).unwrap_or(0);
        self.bytes(id, random.get(..len).unwrap_or_default());
    }

    fn shuffle(&mut self, rng: &mut Rng) {
        for i in (1..self.0.len()).rev() {
            let other = usize::try_from(rng.below(i as u64 + 1)).unwrap_or(i);
            self.0.swap(i, other);
        }
    }

    fn concat(self) -> Vec<u8> {
        self.0.concat()
    }
}
