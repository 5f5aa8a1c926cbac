//! Values that several records share.

use std::{borrow::Cow, net::SocketAddr, time::Duration};

use super::Json;
use crate::{
    error::{Code, ConnectionError, TransportError},
    space::SpaceKind,
    tls::Level,
    units::{Ecn, FourTuple, PathId},
    wire::{ConnectionId, TransportParameters, Version},
};

pub(super) fn header(d: &mut Json<'_>, packet_type: &str, number: Option<u64>, path: PathId) {
    d.key("header").object(|h| {
        h.key("packet_type").str(packet_type);
        if let Some(number) = number {
            h.key("packet_number").u64(number);
        }
        if path != PathId::ZERO {
            h.key("path_id").u64(u64::from(path.0));
        }
    });
}

pub(super) const fn packet_type(level: Level) -> &'static str {
    match level {
        Level::Initial => "initial",
        Level::ZeroRtt => "0RTT",
        Level::Handshake => "handshake",
        Level::OneRtt => "1RTT",
    }
}

pub(super) const fn packet_type_of_space(kind: SpaceKind) -> &'static str {
    match kind {
        SpaceKind::Initial => "initial",
        SpaceKind::Handshake => "handshake",
        SpaceKind::Data => "1RTT",
    }
}

pub(super) const fn space_name(kind: SpaceKind) -> &'static str {
    match kind {
        SpaceKind::Initial => "initial",
        SpaceKind::Handshake => "handshake",
        SpaceKind::Data => "application_data",
    }
}

pub(super) const fn ecn_name(ecn: Ecn) -> &'static str {
    match ecn {
        Ecn::NotEct => "Not-ECT",
        Ecn::Ect1 => "ECT(1)",
        Ecn::Ect0 => "ECT(0)",
        Ecn::Ce => "CE",
    }
}

/// The schema's word for a transport error, else `unknown`.
pub(super) fn error_name(code: Code) -> Cow<'static, str> {
    match (code.tls_alert(), code.name()) {
        (Some(_), _) => format!("crypto_error_{:#05x}", code.0).into(),
        (None, Some(name)) if code.0 <= Code::NO_VIABLE_PATH.0 => name.to_ascii_lowercase().into(),
        _ => "unknown".into(),
    }
}

pub(super) fn closed(d: &mut Json<'_>, error: &ConnectionError, application: Option<(u64, &[u8])>) {
    if let Some((code, reason)) = application {
        closed_by_application(d, "local", code, reason);
        return;
    }
    let transport = |d: &mut Json<'_>, initiator: &str, error: &TransportError| {
        d.key("initiator").str(initiator);
        let name = error_name(error.code);
        d.key("connection_error").str(&name);
        if name == "unknown" {
            d.key("error_code").u64(error.code.0);
        }
        d.key("reason").str(&error.reason);
        d.key("trigger").str("error");
    };
    match error {
        ConnectionError::Transport(error) => transport(d, "local", error),
        ConnectionError::PeerTransport(error) => transport(d, "remote", error),
        ConnectionError::PeerApplication { code, reason } => {
            closed_by_application(d, "remote", *code, reason);
        }
        other => {
            let trigger = match other {
                ConnectionError::LocallyClosed => "application",
                ConnectionError::IdleTimeout => "idle_timeout",
                ConnectionError::VersionMismatch { .. } => "version_mismatch",
                ConnectionError::StatelessReset => "stateless_reset",
                ConnectionError::HandshakeTimeout => "aborted",
                _ => "unspecified",
            };
            d.key("reason").str(&other.to_string());
            d.key("trigger").str(trigger);
        }
    }
}

fn closed_by_application(d: &mut Json<'_>, initiator: &str, code: u64, reason: &[u8]) {
    d.key("initiator").str(initiator);
    d.key("application_error").str("unknown");
    d.key("error_code").u64(code);
    d.key("reason").str(&String::from_utf8_lossy(reason));
    d.key("trigger").str("application");
}

pub(super) fn versions(d: &mut Json<'_>, key: &str, list: &[Version]) {
    if !list.is_empty() {
        d.key(key).array(|out| {
            list.iter()
                .for_each(|version| out.hex(&version.0.to_be_bytes()));
        });
    }
}

pub(super) fn tuple(d: &mut Json<'_>, four_tuple: FourTuple) {
    endpoint(d, "tuple_remote", four_tuple.remote, None);
    endpoint(d, "tuple_local", four_tuple.local, None);
}

pub(super) fn endpoint(d: &mut Json<'_>, key: &str, socket: SocketAddr, cid: Option<ConnectionId>) {
    d.key(key).object(|e| {
        address(e, socket);
        if let Some(cid) = cid {
            e.key("connection_ids")
                .array(|list| list.hex(cid.as_slice()));
        }
    });
}

pub(super) fn address(e: &mut Json<'_>, socket: SocketAddr) {
    let (ip, port) = match socket {
        SocketAddr::V4(_) => ("ip_v4", "port_v4"),
        SocketAddr::V6(_) => ("ip_v6", "port_v6"),
    };
    e.key(ip).str(&socket.ip().to_string());
    e.key(port).u64(u64::from(socket.port()));
}

pub(super) fn parameters(d: &mut Json<'_>, initiator: Option<&str>, p: &TransportParameters) {
    if let Some(initiator) = initiator {
        d.key("initiator").str(initiator);
        let ids = [
            (
                "original_destination_connection_id",
                p.original_destination_connection_id,
            ),
            (
                "initial_source_connection_id",
                p.initial_source_connection_id,
            ),
            ("retry_source_connection_id", p.retry_source_connection_id),
        ];
        for (key, cid) in ids {
            if let Some(cid) = cid {
                d.key(key).hex(cid.as_slice());
            }
        }
        d.key("ack_delay_exponent")
            .u64(u64::from(p.ack_delay_exponent));
        d.key("max_ack_delay").u64(p.max_ack_delay_ms);
        d.key("reset_stream_at").bool(p.reset_stream_at);
        if let Some(delay) = p.min_ack_delay_us {
            d.key("min_ack_delay").u64(delay);
        }
        if let Some(max) = p.initial_max_path_id {
            d.key("initial_max_path_id").u64(max);
        }
        if let Some(decoder) = &p.fec_decoder {
            d.key("fec_decoder").object(|f| {
                f.key("window_symbols").u64(decoder.window_symbols);
                f.key("window_bytes").u64(decoder.window_bytes);
                f.key("max_symbol_size").u64(decoder.max_symbol_bytes);
                f.key("schemes").array(|schemes| {
                    for scheme in &decoder.schemes {
                        schemes.array(|pair| {
                            pair.u64(scheme.id);
                            pair.u64(scheme.parameter);
                        });
                    }
                });
            });
        }
        if p.path_echo {
            d.key("path_echo").bool(true);
        }
        if !p.fec_encoder.is_empty() {
            d.key("fec_encoder").array(|ids| {
                for id in &p.fec_encoder {
                    ids.u64(*id);
                }
            });
        }
        if let Some(preferred) = &p.preferred_address {
            d.key("preferred_address").object(|a| {
                if let Some(v4) = preferred.v4 {
                    address(a, v4.into());
                }
                if let Some(v6) = preferred.v6 {
                    address(a, v6.into());
                }
                a.key("connection_id").hex(preferred.cid.as_slice());
                a.key("stateless_reset_token").hex(&preferred.token.0);
            });
        }
    }
    d.key("disable_active_migration")
        .bool(p.disable_active_migration);
    d.key("grease_quic_bit").bool(p.grease_quic_bit);
    let numbers = [
        ("max_idle_timeout", p.max_idle_timeout_ms),
        ("max_udp_payload_size", p.max_udp_payload_size),
        ("active_connection_id_limit", p.active_connection_id_limit),
        ("initial_max_data", p.initial_max_data),
        (
            "initial_max_stream_data_bidi_local",
            p.initial_max_stream_data_bidi_local,
        ),
        (
            "initial_max_stream_data_bidi_remote",
            p.initial_max_stream_data_bidi_remote,
        ),
        ("initial_max_stream_data_uni", p.initial_max_stream_data_uni),
        ("initial_max_streams_bidi", p.initial_max_streams_bidi),
        ("initial_max_streams_uni", p.initial_max_streams_uni),
        ("max_datagram_frame_size", p.max_datagram_frame_size),
    ];
    for (key, value) in numbers {
        d.key(key).u64(value);
    }
}

pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
