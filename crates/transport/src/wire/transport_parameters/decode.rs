//! Reading transport parameters.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};

use super::{
    FecDecoder, PreferredAddress, TransportParameters, VersionInformation, fec::decode_encoder, id,
};
use crate::{
    error::{DecodeError, TransportError},
    units::Side,
    wire::{ConnectionId, MAX_STREAM_COUNT, Reader, ResetToken, Version, codepoints::parameter},
};

type Result<T> = std::result::Result<T, TransportError>;

impl TransportParameters {
    /// Reads the quic_transport_parameters extension that `side_of_sender` sent.
    ///
    /// Unknown parameters are skipped.
    ///
    /// # Errors
    ///
    /// TRANSPORT_PARAMETER_ERROR for malformed bytes, duplicates (unknown ones too), values out
    /// of bounds, and parameters that a client must not send.
    pub fn decode(side_of_sender: Side, bytes: &[u8]) -> Result<Self> {
        let mut params = Self::default();
        let mut seen = Vec::new();
        let mut r = Reader::new(bytes);
        while !r.is_empty() {
            let id = r.varint().map_err(|_| invalid("malformed parameter"))?;
            let value = r
                .varint_prefixed()
                .map_err(|_| invalid("malformed parameter"))?;
            seen.push(id);
            if side_of_sender.is_client() && is_server_only(id) {
                return Err(invalid("parameter that only servers may send"));
            }
            params.set(side_of_sender, id, value)?;
        }
        // RFC 9000 s7.4
        seen.sort_unstable();
        if seen.windows(2).any(|pair| matches!(pair, [a, b] if a == b)) {
            return Err(invalid("duplicate parameter"));
        }
        params.check_together()?;
        Ok(params)
    }

    fn set(&mut self, sender: Side, id: u64, value: &[u8]) -> Result<()> {
        match id {
            id::ORIGINAL_DESTINATION_CONNECTION_ID => {
                self.original_destination_connection_id =
                    Some(cid(value, "original_destination_connection_id")?);
            }
            id::MAX_IDLE_TIMEOUT => self.max_idle_timeout_ms = integer(value, "max_idle_timeout")?,
            id::STATELESS_RESET_TOKEN => {
                let token = value
                    .try_into()
                    .map_err(|_| invalid("stateless_reset_token"))?;
                self.stateless_reset_token = Some(ResetToken(token));
            }
            id::MAX_UDP_PAYLOAD_SIZE => {
                let name = "max_udp_payload_size";
                self.max_udp_payload_size = bounded(value, name, 1200, u64::MAX)?;
            }
            id::INITIAL_MAX_DATA => self.initial_max_data = integer(value, "initial_max_data")?,
            id::INITIAL_MAX_STREAM_DATA_BIDI_LOCAL => {
                self.initial_max_stream_data_bidi_local =
                    integer(value, "initial_max_stream_data_bidi_local")?;
            }
            id::INITIAL_MAX_STREAM_DATA_BIDI_REMOTE => {
                self.initial_max_stream_data_bidi_remote =
                    integer(value, "initial_max_stream_data_bidi_remote")?;
            }
            id::INITIAL_MAX_STREAM_DATA_UNI => {
                self.initial_max_stream_data_uni = integer(value, "initial_max_stream_data_uni")?;
            }
            id::INITIAL_MAX_STREAMS_BIDI => {
                let name = "initial_max_streams_bidi";
                self.initial_max_streams_bidi = bounded(value, name, 0, MAX_STREAM_COUNT)?;
            }
            id::INITIAL_MAX_STREAMS_UNI => {
                let name = "initial_max_streams_uni";
                self.initial_max_streams_uni = bounded(value, name, 0, MAX_STREAM_COUNT)?;
            }
            id::ACK_DELAY_EXPONENT => {
                self.ack_delay_exponent = exponent(value, "ack_delay_exponent")?;
            }
            id::MAX_ACK_DELAY => {
                self.max_ack_delay_ms = bounded(value, "max_ack_delay", 0, (1 << 14) - 1)?;
            }
            id::DISABLE_ACTIVE_MIGRATION => {
                self.disable_active_migration = flag(value, "disable_active_migration")?;
            }
            id::PREFERRED_ADDRESS => self.preferred_address = Some(preferred_address(value)?),
            id::ACTIVE_CONNECTION_ID_LIMIT => {
                let name = "active_connection_id_limit";
                self.active_connection_id_limit = bounded(value, name, 2, u64::MAX)?;
            }
            id::INITIAL_SOURCE_CONNECTION_ID => {
                self.initial_source_connection_id =
                    Some(cid(value, "initial_source_connection_id")?);
            }
            id::RETRY_SOURCE_CONNECTION_ID => {
                self.retry_source_connection_id = Some(cid(value, "retry_source_connection_id")?);
            }
            _ => self.set_extension(sender, id, value)?,
        }
        Ok(())
    }

    fn set_extension(&mut self, sender: Side, id: u64, value: &[u8]) -> Result<()> {
        match id {
            parameter::VERSION_INFORMATION => {
                self.version_information = Some(version_information(sender, value)?);
            }
            parameter::RESET_STREAM_AT => self.reset_stream_at = flag(value, "reset_stream_at")?,
            parameter::MAX_DATAGRAM_FRAME_SIZE => {
                self.max_datagram_frame_size = integer(value, "max_datagram_frame_size")?;
            }
            parameter::INITIAL_MAX_PATH_ID => {
                let limit = u64::from(u32::MAX);
                let max = bounded(value, "initial_max_path_id", 0, limit)?;
                self.initial_max_path_id = Some(max);
            }
            parameter::GREASE_QUIC_BIT => self.grease_quic_bit = flag(value, "grease_quic_bit")?,
            parameter::MIN_ACK_DELAY => {
                self.min_ack_delay_us = Some(integer(value, "min_ack_delay")?);
            }
            parameter::MAX_RECEIVE_TIMESTAMPS_PER_ACK => {
                let name = "max_receive_timestamps_per_ack";
                self.max_receive_timestamps_per_ack = integer(value, name)?;
            }
            parameter::RECEIVE_TIMESTAMPS_EXPONENT => {
                let name = "receive_timestamps_exponent";
                self.receive_timestamps_exponent = exponent(value, name)?;
            }
            parameter::PATH_ECHO => self.path_echo = flag(value, "path_echo")?,
            parameter::FEC_DECODER => {
                let decoder = FecDecoder::decode(value).ok_or_else(|| invalid("fec_decoder"))?;
                self.fec_decoder = Some(decoder);
            }
            parameter::FEC_ENCODER => {
                self.fec_encoder = decode_encoder(value).ok_or_else(|| invalid("fec_encoder"))?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Rules between parameters.
    fn check_together(&self) -> Result<()> {
        // draft-ietf-quic-ack-frequency s3
        if self
            .min_ack_delay_us
            .is_some_and(|min| min > self.max_ack_delay_ms * 1_000)
        {
            return Err(invalid("min_ack_delay"));
        }
        // RFC 9000 s18.2: a server without connection IDs of its own cannot offer one.
        let without_ids = self.initial_source_connection_id == Some(ConnectionId::EMPTY);
        if self.preferred_address.is_some() && without_ids {
            return Err(invalid("preferred_address"));
        }
        Ok(())
    }
}

fn invalid(what: &'static str) -> TransportError {
    TransportError::transport_parameter(what)
}

const fn is_server_only(id: u64) -> bool {
    matches!(
        id,
        id::ORIGINAL_DESTINATION_CONNECTION_ID
            | id::STATELESS_RESET_TOKEN
            | id::PREFERRED_ADDRESS
            | id::RETRY_SOURCE_CONNECTION_ID
    )
}

fn integer(value: &[u8], name: &'static str) -> Result<u64> {
    let mut r = Reader::new(value);
    match r.varint() {
        Ok(integer) if r.is_empty() => Ok(integer),
        _ => Err(invalid(name)),
    }
}

fn bounded(value: &[u8], name: &'static str, min: u64, max: u64) -> Result<u64> {
    integer(value, name).and_then(|integer| {
        if (min..=max).contains(&integer) {
            Ok(integer)
        } else {
            Err(invalid(name))
        }
    })
}

fn exponent(value: &[u8], name: &'static str) -> Result<u8> {
    u8::try_from(bounded(value, name, 0, 20)?).map_err(|_| invalid(name))
}

fn flag(value: &[u8], name: &'static str) -> Result<bool> {
    if value.is_empty() {
        Ok(true)
    } else {
        Err(invalid(name))
    }
}

fn cid(value: &[u8], name: &'static str) -> Result<ConnectionId> {
    ConnectionId::new(value).ok_or_else(|| invalid(name))
}

fn preferred_address(value: &[u8]) -> Result<PreferredAddress> {
    let malformed = |_: DecodeError| invalid("preferred_address");
    let mut r = Reader::new(value);
    let v4 = SocketAddrV4::new(
        Ipv4Addr::from(r.array::<4>().map_err(malformed)?),
        r.u16().map_err(malformed)?,
    );
    let v6 = SocketAddrV6::new(
        Ipv6Addr::from(r.array::<16>().map_err(malformed)?),
        r.u16().map_err(malformed)?,
        0,
        0,
    );
    let cid_len = usize::from(r.u8().map_err(malformed)?);
    let cid = cid(r.bytes(cid_len).map_err(malformed)?, "preferred_address")?;
    let token = ResetToken(r.array().map_err(malformed)?);
    if cid.is_empty() || !r.is_empty() {
        return Err(invalid("preferred_address"));
    }
    Ok(PreferredAddress {
        v4: Some(v4).filter(|v4| !v4.ip().is_unspecified() || v4.port() != 0),
        v6: Some(v6).filter(|v6| !v6.ip().is_unspecified() || v6.port() != 0),
        cid,
        token,
    })
}

/// RFC 9368 s3: whole versions, none of them 0; a client's list has the chosen one.
fn version_information(sender: Side, value: &[u8]) -> Result<VersionInformation> {
    let malformed = || invalid("version_information");
    let (versions, rest) = value.as_chunks::<4>();
    let mut versions = versions
        .iter()
        .map(|bytes| Version(u32::from_be_bytes(*bytes)));
    let chosen = versions.next().ok_or_else(malformed)?;
    let available: Vec<_> = versions.collect();
    let has_zero = chosen == Version::NEGOTIATION || available.contains(&Version::NEGOTIATION);
    if !rest.is_empty() || has_zero || (sender.is_client() && !available.contains(&chosen)) {
        return Err(malformed());
    }
    Ok(VersionInformation { chosen, available })
}
