//! Events as qlog records.

use std::time::Duration;

use super::{
    Context, Json, RECORD_SEPARATOR,
    frames::stream_type,
    values::{
        address, closed, ecn_name, endpoint, error_name, header, nanos, packet_type,
        packet_type_of_space, parameters, space_name, tuple, versions,
    },
};
use crate::{
    observe::{DropReason, Event, FlowScope, RecoveryMetrics, TimerKind},
    time::Instant,
    tls::Level,
    units::{Ecn, FourTuple, PathId, Side},
};

/// A record with everything but the end of `data`, which the caller closes by `}}` and LF.
fn open_record(
    out: &mut Vec<u8>,
    context: &Context,
    now: Instant,
    path: PathId,
    name: &str,
    own: bool,
) {
    out.push(RECORD_SEPARATOR);
    out.push(b'{');
    let mut json = Json(out);
    let elapsed = now.as_nanos().saturating_sub(context.start.as_nanos());
    json.key("time").millis(elapsed);
    let namespace = if own { "tautline" } else { "quic" };
    json.key("name").str(&format!("{namespace}:{name}"));
    // The network tuple of the handshake has the empty name, which is the default.
    if path != PathId::ZERO {
        json.key("tuple").str(&tuple_name(path));
    }
    json.key("data");
    out.push(b'{');
}

fn whole_record(
    out: &mut Vec<u8>,
    context: &Context,
    now: Instant,
    path: PathId,
    (name, own): (&str, bool),
    fill: impl FnOnce(&mut Json<'_>),
) {
    open_record(out, context, now, path, name, own);
    fill(&mut Json(out));
    out.extend_from_slice(b"}}\n");
}

fn tuple_name(path: PathId) -> String {
    if path == PathId::ZERO {
        String::new()
    } else {
        path.to_string()
    }
}

/// A sent packet with its frames.
pub(super) fn packet_sent(
    out: &mut Vec<u8>,
    context: &Context,
    now: Instant,
    event: &Event<'_>,
    frames: &[u8],
) {
    let Event::PacketSent {
        level,
        path,
        number,
        bytes,
        ..
    } = *event
    else {
        return;
    };
    whole_record(out, context, now, path, ("packet_sent", false), |data| {
        header(data, packet_type(level), Some(number), path);
        data.key("raw")
            .object(|raw| raw.key("length").u64(bytes as u64));
        data.key("frames")
            .array(|list| list.0.extend_from_slice(frames));
    });
}

/// A received packet up to where its frames go.
pub(super) fn packet_received_head(
    out: &mut Vec<u8>,
    context: &Context,
    now: Instant,
    event: &Event<'_>,
) {
    let Event::PacketReceived {
        level,
        path,
        number,
        bytes,
        ecn,
    } = *event
    else {
        return;
    };
    open_record(out, context, now, path, "packet_received", false);
    let mut data = Json(out);
    header(&mut data, packet_type(level), Some(number), path);
    data.key("raw")
        .object(|raw| raw.key("length").u64(bytes as u64));
    if ecn != Ecn::NotEct {
        data.key("ecn").str(ecn_name(ecn));
    }
}

/// Any event that stands alone. Frames and numbered packets are collected by the sink.
pub(super) fn record(out: &mut Vec<u8>, context: &Context, now: Instant, event: &Event<'_>) {
    let mut writer = RecordWriter {
        out,
        context,
        now,
        name: event.name(),
    };
    if !(connection(&mut writer, event)
        || packets(&mut writer, event)
        || streams_and_keys(&mut writer, event)
        || paths(&mut writer, event)
        || recovery(&mut writer, event))
    {
        own_events(&mut writer, event);
    }
}

/// Writes records of one event.
struct RecordWriter<'a> {
    out: &'a mut Vec<u8>,
    context: &'a Context,
    now: Instant,
    name: &'static str,
}

impl RecordWriter<'_> {
    fn write(&mut self, fill: impl FnOnce(&mut Json<'_>)) {
        self.on_path(PathId::ZERO, fill);
    }

    fn on_path(&mut self, path: PathId, fill: impl FnOnce(&mut Json<'_>)) {
        whole_record(
            self.out,
            self.context,
            self.now,
            path,
            (self.name, false),
            fill,
        );
    }

    /// Under our own namespace.
    fn own(&mut self, path: PathId, fill: impl FnOnce(&mut Json<'_>)) {
        whole_record(
            self.out,
            self.context,
            self.now,
            path,
            (self.name, true),
            fill,
        );
    }

    fn initiator(&self, owner: Side) -> &'static str {
        if owner == self.context.side {
            "local"
        } else {
            "remote"
        }
    }
}

fn connection(w: &mut RecordWriter<'_>, event: &Event<'_>) -> bool {
    match *event {
        Event::ServerListening { local } => w.write(|d| address(d, local)),
        Event::ConnectionStarted {
            four_tuple,
            local_cid,
            remote_cid,
            ..
        } => w.write(|d| {
            endpoint(d, "local", four_tuple.local, Some(local_cid));
            endpoint(d, "remote", four_tuple.remote, Some(remote_cid));
        }),
        Event::ConnectionClosed { error, application } => {
            w.write(|d| closed(d, error, application));
        }
        Event::ConnectionState { old, new } => w.write(|d| {
            d.key("old").str(old.name());
            d.key("new").str(new.name());
        }),
        Event::ConnectionIdUpdated {
            owner,
            path,
            old,
            new,
        } => {
            // Named by who applies it, so by the other end than who issued it.
            let initiator = w.initiator(owner.peer());
            w.on_path(path, |d| {
                d.key("initiator").str(initiator);
                d.key("old").hex(old.as_slice());
                d.key("new").hex(new.as_slice());
            });
        }
        Event::SpinBit { path, spin } => w.on_path(path, |d| d.key("state").bool(spin)),
        Event::VersionInformation {
            local,
            remote,
            chosen,
        } => {
            let client = w.context.side.is_client();
            w.write(|d| {
                let (ours, theirs) = ("client_versions", "server_versions");
                let (ours, theirs) = if client {
                    (ours, theirs)
                } else {
                    (theirs, ours)
                };
                versions(d, ours, local);
                versions(d, theirs, remote);
                if let Some(chosen) = chosen {
                    d.key("chosen_version").hex(&chosen.0.to_be_bytes());
                }
            });
        }
        Event::VersionChosen { to, .. } => {
            w.write(|d| d.key("chosen_version").hex(&to.0.to_be_bytes()));
        }
        Event::AlpnInformation { chosen } => w.write(|d| {
            d.key("chosen_alpn")
                .object(|alpn| match std::str::from_utf8(chosen) {
                    Ok(text) => alpn.key("string_value").str(text),
                    Err(_) => alpn.key("byte_value").hex(chosen),
                });
        }),
        Event::ParametersSent(params) => w.write(|d| parameters(d, Some("local"), params)),
        Event::ParametersReceived(params) => w.write(|d| parameters(d, Some("remote"), params)),
        Event::ParametersRestored(params) => w.write(|d| parameters(d, None, params)),
        _ => return false,
    }
    true
}

fn packets(w: &mut RecordWriter<'_>, event: &Event<'_>) -> bool {
    match *event {
        Event::SpecialPacketReceived { kind, bytes } => w.write(|d| {
            header(d, kind.name(), None, PathId::ZERO);
            d.key("raw")
                .object(|raw| raw.key("length").u64(bytes as u64));
        }),
        Event::PacketDropped { reason, details } => w.write(|d| {
            d.key("trigger").str(drop_trigger(reason));
            d.key("details").object(|object| {
                object.key("reason").str(details);
            });
        }),
        Event::PacketBuffered { bytes } => w.write(|d| {
            d.key("raw")
                .object(|raw| raw.key("length").u64(bytes as u64));
            d.key("trigger").str("keys_unavailable");
        }),
        Event::PacketLost {
            kind,
            path,
            number,
            trigger,
            ..
        } => w.on_path(path, |d| {
            header(d, packet_type_of_space(kind), Some(number), path);
            d.key("trigger").str(trigger.name());
        }),
        Event::PacketsAcked {
            kind,
            path,
            first,
            last,
        } => w.on_path(path, |d| {
            d.key("packet_number_space").str(space_name(kind));
            // The list is for tools; a longer one than any ACK causes is cut.
            d.key("packet_numbers").array(|numbers| {
                (first..=last)
                    .take(1024)
                    .for_each(|number| numbers.u64(number));
            });
        }),
        Event::DatagramsSent { count, bytes, ecn } => w.write(|d| {
            d.key("count").u64(count as u64);
            d.key("raw").array(|list| {
                list.object(|raw| raw.key("length").u64(bytes as u64));
            });
            d.key("ecn").array(|list| list.str(ecn_name(ecn)));
        }),
        Event::DatagramReceived { bytes } => w.write(|d| {
            d.key("count").u64(1);
            d.key("raw").array(|list| {
                list.object(|raw| raw.key("length").u64(bytes as u64));
            });
        }),
        Event::DatagramDropped {
            four_tuple,
            len,
            reason,
        } => w.write(|d| {
            d.key("raw").object(|raw| raw.key("length").u64(len as u64));
            d.key("reason").str(reason.name());
            endpoint(d, "remote", four_tuple.remote, None);
        }),
        _ => return false,
    }
    true
}

fn streams_and_keys(w: &mut RecordWriter<'_>, event: &Event<'_>) -> bool {
    match *event {
        Event::StreamState { id, half, state } => w.write(|d| {
            d.key("stream_id").u64(id.0);
            d.key("stream_type").str(stream_type(id.dir()));
            d.key("new").str(state);
            d.key("stream_side").str(half.name());
        }),
        Event::StreamDataMoved {
            id,
            offset,
            len,
            from,
            to,
        } => w.write(|d| {
            d.key("stream_id").u64(id.0);
            d.key("offset").u64(offset);
            d.key("from").str(from.name());
            d.key("to").str(to.name());
            d.key("raw").object(|raw| raw.key("length").u64(len as u64));
        }),
        Event::DatagramDataMoved { len, from, to } => w.write(|d| {
            d.key("from").str(from.name());
            d.key("to").str(to.name());
            d.key("raw").object(|raw| raw.key("length").u64(len as u64));
        }),
        Event::FlowBlocked {
            scope: FlowScope::Streams(_),
            ..
        } => return false,
        Event::FlowBlocked {
            scope,
            limit,
            blocked,
        } => w.write(|d| {
            d.key("new")
                .str(if blocked { "blocked" } else { "unblocked" });
            let reason = match scope {
                FlowScope::Stream(id) => {
                    d.key("stream_id").u64(id.0);
                    "stream_flow_control"
                }
                FlowScope::Connection | FlowScope::Streams(_) => "connection_flow_control",
            };
            d.key("reason").str(reason);
            d.key("limit").u64(limit);
        }),
        Event::KeysInstalled(level) => keys(w, level, None, "tls"),
        Event::KeysDiscarded(level) => keys(w, level, None, "tls"),
        Event::KeysUpdated { phase, by_peer } => {
            let trigger = if by_peer {
                "remote_update"
            } else {
                "local_update"
            };
            keys(w, Level::OneRtt, Some(phase), trigger);
        }
        _ => return false,
    }
    true
}

/// The schema's word for why a packet was dropped.
fn drop_trigger(reason: DropReason) -> &'static str {
    match reason {
        DropReason::DecryptionFailure => "decryption_failure",
        DropReason::KeyUnavailable => "key_unavailable",
        DropReason::Duplicate => "duplicate",
        DropReason::UnknownConnectionId => "connection_unknown",
        DropReason::UnsupportedVersion => "unsupported",
        DropReason::Malformed
        | DropReason::UnexpectedPacket
        | DropReason::TooSmall
        | DropReason::BadConnectionId
        | DropReason::Violation => "invalid",
        DropReason::UnexpectedAddress
        | DropReason::Overload
        | DropReason::NotListening
        | DropReason::Closing => "rejected",
        DropReason::General => "general",
    }
}

/// One record per direction.
fn keys(w: &mut RecordWriter<'_>, level: Level, phase: Option<u64>, trigger: &str) {
    let names: &[&str] = match level {
        Level::Initial => &["server_initial_secret", "client_initial_secret"],
        Level::ZeroRtt => &["client_0rtt_secret"],
        Level::Handshake => &["server_handshake_secret", "client_handshake_secret"],
        Level::OneRtt => &["server_1rtt_secret", "client_1rtt_secret"],
    };
    for name in names {
        w.write(|d| {
            d.key("key_type").str(name);
            if let Some(phase) = phase {
                d.key("key_phase").u64(phase);
            }
            d.key("trigger").str(trigger);
        });
    }
}

fn paths(w: &mut RecordWriter<'_>, event: &Event<'_>) -> bool {
    match *event {
        Event::TupleAssigned { path, four_tuple } => w.write(|d| {
            d.key("tuple_id").str(&tuple_name(path));
            d.key("path_id").u64(u64::from(path.0));
            if let Some(four_tuple) = four_tuple {
                tuple(d, four_tuple);
            }
        }),
        Event::PathMigrated { path, to, .. } => migration(w, path, to, "migration_started"),
        Event::PathValidated { path, to } => migration(w, path, to, "migration_complete"),
        Event::PathValidationFailed { path, to } => migration(w, path, to, "migration_abandoned"),
        Event::MtuUpdated {
            path,
            old,
            new,
            done,
        } => w.on_path(path, |d| {
            if old != 0 {
                d.key("old").u64(u64::from(old));
            }
            d.key("new").u64(u64::from(new));
            d.key("done").bool(done);
        }),
        Event::EcnState { path, old, new } => w.on_path(path, |d| {
            d.key("old").str(old.name());
            d.key("new").str(new.name());
        }),
        _ => return false,
    }
    true
}

fn migration(w: &mut RecordWriter<'_>, path: PathId, to: FourTuple, step: &str) {
    w.on_path(path, |d| {
        d.key("new").str(step);
        d.key("tuple_id").str(&tuple_name(path));
        tuple(d, to);
    });
}

fn recovery(w: &mut RecordWriter<'_>, event: &Event<'_>) -> bool {
    match *event {
        Event::RecoveryParameters {
            path,
            controller,
            packet_threshold,
            time_threshold,
            initial_rtt,
            initial_window,
            minimum_window,
            max_datagram_bytes,
        } => w.on_path(path, |d| {
            d.key("reordering_threshold")
                .u64(u64::from(packet_threshold));
            d.key("time_threshold").f64(time_threshold);
            d.key("timer_granularity").u64(1);
            d.key("initial_rtt").millis(nanos(initial_rtt));
            d.key("max_datagram_size").u64(max_datagram_bytes);
            d.key("initial_congestion_window").u64(initial_window);
            d.key("minimum_congestion_window").u64(minimum_window);
            d.key("congestion_controller").str(controller);
        }),
        Event::MetricsUpdated { path, metrics } => w.on_path(path, |d| metrics_fields(d, metrics)),
        Event::CongestionState { path, old, new } => w.on_path(path, |d| {
            d.key("old").str(old);
            d.key("new").str(new);
        }),
        Event::TimerSet { timer, path, at } => {
            let delta = at.saturating_since(w.now);
            timer_record(w, timer, path, "set", Some(delta));
        }
        Event::TimerExpired { timer, path } => timer_record(w, timer, path, "expired", None),
        Event::TimerCancelled { timer, path } => timer_record(w, timer, path, "cancelled", None),
        _ => return false,
    }
    true
}

fn metrics_fields(d: &mut Json<'_>, metrics: &RecoveryMetrics) {
    d.key("min_rtt").millis(nanos(metrics.min_rtt));
    d.key("smoothed_rtt").millis(nanos(metrics.smoothed_rtt));
    d.key("latest_rtt").millis(nanos(metrics.latest_rtt));
    d.key("rtt_variance").millis(nanos(metrics.rtt_variance));
    d.key("pto_count").u64(u64::from(metrics.pto_count));
    d.key("congestion_window").u64(metrics.window);
    d.key("bytes_in_flight").u64(metrics.bytes_in_flight);
    if let Some(threshold) = metrics.slow_start_threshold {
        d.key("ssthresh").u64(threshold);
    }
    if let Some(rate) = metrics.pacing_rate {
        d.key("pacing_rate").u64(rate.bits_per_second());
    }
    if let Some(bandwidth) = metrics.bandwidth {
        d.key("bandwidth").u64(bandwidth.bits_per_second());
    }
    d.key("packet_threshold")
        .u64(u64::from(metrics.packet_threshold));
    if let Some(delay) = metrics.one_way_delay {
        d.key("one_way_delay").millis(nanos(delay));
    }
    if let Some(variation) = metrics.one_way_delay_variation {
        d.key("one_way_delay_variation").millis(nanos(variation));
    }
}

fn timer_record(
    w: &mut RecordWriter<'_>,
    timer: TimerKind,
    path: Option<PathId>,
    what: &str,
    delta: Option<Duration>,
) {
    w.on_path(path.unwrap_or(PathId::ZERO), |d| {
        d.key("timer_type").str(timer.name());
        d.key("event_type").str(what);
        if let Some(delta) = delta {
            d.key("delta").millis(nanos(delta));
        }
    });
}

/// What the schema has no event for.
fn own_events(w: &mut RecordWriter<'_>, event: &Event<'_>) {
    match *event {
        Event::ConnectionClosing { error } => w.own(PathId::ZERO, |d| {
            d.key("error").str(&error_name(error.code));
            d.key("error_code").u64(error.code.0);
            d.key("frame_type").u64(error.frame_type);
            d.key("reason").str(&error.reason);
        }),
        Event::StatelessResponse {
            four_tuple,
            kind,
            len,
        } => w.own(PathId::ZERO, |d| {
            d.key("packet_type").str(kind.name());
            d.key("length").u64(len as u64);
            endpoint(d, "remote", four_tuple.remote, None);
        }),
        Event::IncomingConnection {
            four_tuple,
            dcid,
            validated,
        } => w.own(PathId::ZERO, |d| {
            d.key("connection_id").hex(dcid.as_slice());
            d.key("validated").bool(validated);
            endpoint(d, "remote", four_tuple.remote, None);
        }),
        Event::PacketSpuriouslyLost { kind, path, number } => w.own(path, |d| {
            header(d, packet_type_of_space(kind), Some(number), path);
        }),
        Event::MarkedForRetransmit { path, kind, number } => w.own(path, |d| {
            header(d, packet_type_of_space(kind), Some(number), path);
        }),
        Event::FlowBlocked {
            scope: FlowScope::Streams(dir),
            limit,
            blocked,
        } => {
            w.own(PathId::ZERO, |d| {
                d.key("stream_type").str(stream_type(dir));
                d.key("new")
                    .str(if blocked { "blocked" } else { "unblocked" });
                d.key("limit").u64(limit);
            });
        }
        Event::SymbolRecovered { id, bytes } => w.own(PathId::ZERO, |d| {
            d.key("symbol_id").u64(id);
            d.key("length").u64(bytes as u64);
        }),
        Event::PolicyDecision {
            policy,
            name,
            path,
            decision,
            values,
        } => {
            w.own(path.unwrap_or(PathId::ZERO), |d| {
                d.key("policy").str(policy);
                d.key("name").str(name);
                d.key("decision").str(decision);
                d.key("values").array(|list| {
                    values
                        .into_iter()
                        .flatten()
                        .for_each(|value| list.f64(value));
                });
            });
        }
        Event::PathChosen {
            path,
            scheduler,
            reason,
            waiting,
            changes,
            candidates,
        } => w.own(path.unwrap_or(PathId::ZERO), |d| {
            if let Some(path) = path {
                d.key("path_id").u64(path.0.into());
            }
            d.key("scheduler").str(scheduler);
            d.key("reason").str(reason);
            d.key("waiting").u64(waiting);
            d.key("changes").u64(changes.into());
            d.key("candidates").array(|list| {
                for it in candidates {
                    list.object(|d| {
                        d.key("path_id").u64(it.path.0.into());
                        d.key("verdict").str(it.verdict.name());
                        if let Some(rtt) = it.smoothed_rtt {
                            d.key("smoothed_rtt").millis(nanos(rtt));
                        }
                        d.key("arrival").millis(nanos(it.arrival));
                        d.key("room").u64(it.room);
                        d.key("rate").u64(it.rate.bits_per_second());
                        d.key("loss").f64(it.loss);
                    });
                }
            });
        }),
        Event::Abuse { kind } => w.own(PathId::ZERO, |d| d.key("kind").str(kind.name())),
        // Nothing but their name.
        _ => w.own(PathId::ZERO, |_| {}),
    }
}
