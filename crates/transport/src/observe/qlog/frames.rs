//! Frames as qlog objects. draft-ietf-quic-qlog-quic-events-13 s8.13.
//!
//! Frames that the schema does not know bear the names of their RFC or draft, and a `path_id`
//! where they have one.

use super::{Json, values::error_name};
use crate::{
    error::Code,
    observe::Event,
    units::{Dir, PathId, StreamId},
    wire::{Ack, AckRanges, Close, Frame, NewConnectionId, Reader},
};

/// The frame of an event about a frame being sent.
pub(super) fn sent(json: &mut Json<'_>, event: &Event<'_>, ack_exponent: u8) {
    match *event {
        Event::FrameSent(sent) => frame(json, sent, ack_exponent),
        Event::StreamFrameSent {
            id,
            offset,
            len,
            fin,
        } => stream(json, id, offset, len, fin),
        Event::CryptoFrameSent { offset, len } => crypto(json, offset, len),
        Event::AckFrameSent {
            path,
            largest,
            delay,
            encoded,
        } => match Frame::decode(&mut Reader::new(encoded)) {
            Ok(Frame::Ack(written)) => ack(json, &written, ack_exponent),
            _ => json.object(|f| {
                ack_start(f, path, delay, ack_exponent);
                f.key("acked_ranges")
                    .array(|ranges| ranges.array(|range| range.u64(largest)));
            }),
        },
        Event::PaddingSent { len } => padding(json, len),
        _ => {}
    }
}

/// A frame.
pub(super) fn frame(json: &mut Json<'_>, frame: &Frame<'_>, ack_exponent: u8) {
    match *frame {
        Frame::Padding { len } => padding(json, len),
        Frame::Ping => named(json, "ping", |_| {}),
        Frame::Ack(ref received) => ack(json, received, ack_exponent),
        Frame::ResetStream(reset) => named(json, "reset_stream", |f| {
            f.key("stream_id").u64(reset.id.0);
            application_error(f, reset.code);
            f.key("final_size").u64(reset.final_size);
        }),
        Frame::ResetStreamAt {
            id,
            code,
            final_size,
            reliable_size,
        } => {
            named(json, "reset_stream_at", |f| {
                f.key("stream_id").u64(id.0);
                application_error(f, code);
                f.key("final_size").u64(final_size);
                f.key("reliable_size").u64(reliable_size);
            });
        }
        Frame::StopSending { id, code } => named(json, "stop_sending", |f| {
            f.key("stream_id").u64(id.0);
            application_error(f, code);
        }),
        Frame::Crypto { offset, data } => crypto(json, offset, data.len()),
        Frame::NewToken { token } => named(json, "new_token", |f| {
            f.key("token").object(|t| {
                t.key("type").str("resumption");
                length(t, token.len());
            });
        }),
        Frame::Stream(s) => stream(json, s.id, s.offset, s.data.len(), s.fin),
        Frame::Datagram { data } => named(json, "datagram", |f| length(f, data.len())),
        Frame::ConnectionClose(ref c) => close(json, c),
        Frame::HandshakeDone => named(json, "handshake_done", |_| {}),
        Frame::PathChallenge(data) => named(json, "path_challenge", |f| f.key("data").hex(&data)),
        Frame::PathResponse(data) => named(json, "path_response", |f| f.key("data").hex(&data)),
        _ => control(json, frame),
    }
}

/// Frames that only carry numbers.
fn control(json: &mut Json<'_>, frame: &Frame<'_>) {
    match *frame {
        Frame::MaxData(maximum) => named(json, "max_data", |f| f.key("maximum").u64(maximum)),
        Frame::MaxStreamData { id, max } => named(json, "max_stream_data", |f| {
            f.key("stream_id").u64(id.0);
            f.key("maximum").u64(max);
        }),
        Frame::MaxStreams { dir, max } => named(json, "max_streams", |f| {
            f.key("stream_type").str(stream_type(dir));
            f.key("maximum").u64(max);
        }),
        Frame::DataBlocked(limit) => named(json, "data_blocked", |f| f.key("limit").u64(limit)),
        Frame::StreamDataBlocked { id, limit } => named(json, "stream_data_blocked", |f| {
            f.key("stream_id").u64(id.0);
            f.key("limit").u64(limit);
        }),
        Frame::StreamsBlocked { dir, limit } => named(json, "streams_blocked", |f| {
            f.key("stream_type").str(stream_type(dir));
            f.key("limit").u64(limit);
        }),
        Frame::NewConnectionId(ref new) => new_connection_id(json, new),
        Frame::RetireConnectionId { path, sequence } => {
            let name = with_path(path, "retire_connection_id", "path_retire_connection_id");
            named(json, name, |f| {
                path_id(f, path);
                f.key("sequence_number").u64(sequence);
            });
        }
        Frame::ImmediateAck => named(json, "immediate_ack", |_| {}),
        Frame::AckFrequency {
            sequence,
            threshold,
            max_ack_delay_us,
            reordering,
        } => {
            named(json, "ack_frequency", |f| {
                f.key("sequence_number").u64(sequence);
                f.key("ack_eliciting_threshold").u64(threshold);
                f.key("request_max_ack_delay").u64(max_ack_delay_us);
                f.key("reordering_threshold").u64(reordering);
            });
        }
        Frame::SourceSymbol(_)
        | Frame::Repair(_)
        | Frame::SymbolAck(_)
        | Frame::FecWindow { .. } => erasure(json, frame),
        _ => multipath(json, frame),
    }
}

/// Frames of forward erasure correction. docs/spec/fec.md.
fn erasure(json: &mut Json<'_>, frame: &Frame<'_>) {
    match *frame {
        Frame::SourceSymbol(header) => named(json, "source_symbol", |f| {
            f.key("truncated_symbol_id")
                .u64(u64::from(header.truncated));
        }),
        Frame::Repair(repair) => named(json, "repair", |f| {
            f.key("first_symbol_id").u64(repair.first);
            f.key("symbol_count").u64(repair.count);
            f.key("repair_key").u64(repair.key);
            length(f, repair.symbol.len());
        }),
        Frame::SymbolAck(ack) => named(json, "symbol_ack", |f| {
            f.key("acked_ranges").array(|all| ranges(all, ack.iter()));
        }),
        Frame::FecWindow {
            epoch,
            symbols,
            bytes,
        } => named(json, "fec_window", |f| {
            f.key("epoch").u64(epoch);
            f.key("symbols").u64(symbols);
            f.key("bytes").u64(bytes);
        }),
        _ => {}
    }
}

fn ranges(json: &mut Json<'_>, ranges: AckRanges<'_>) {
    for range in ranges {
        json.array(|pair| {
            pair.u64(*range.start());
            if range.end() != range.start() {
                pair.u64(*range.end());
            }
        });
    }
}

/// Frames of RFC 10069.
fn multipath(json: &mut Json<'_>, frame: &Frame<'_>) {
    match *frame {
        Frame::PathAbandon { path, code } => named(json, "path_abandon", |f| {
            path_id(f, Some(path));
            f.key("error_code").u64(code);
        }),
        Frame::PathStatus {
            path,
            available,
            sequence,
        } => {
            let name = if available {
                "path_status_available"
            } else {
                "path_status_backup"
            };
            named(json, name, |f| {
                path_id(f, Some(path));
                f.key("path_status_sequence_number").u64(sequence);
            });
        }
        Frame::PathEcho { path, numbers } => named(json, "path_echo", |f| {
            path_id(f, Some(path));
            f.key("acked_ranges")
                .array(|all| ranges(all, numbers.iter()));
        }),
        Frame::MaxPathId(max) => named(json, "max_path_id", |f| f.key("maximum_path_id").u64(max)),
        Frame::PathsBlocked(max) => {
            named(json, "paths_blocked", |f| f.key("maximum_path_id").u64(max));
        }
        Frame::PathCidsBlocked {
            path,
            next_sequence,
        } => named(json, "path_cids_blocked", |f| {
            path_id(f, Some(path));
            f.key("next_sequence_number").u64(next_sequence);
        }),
        _ => named(json, "unknown", |f| {
            f.key("frame_type_bytes").u64(frame.frame_type())
        }),
    }
}

fn named(json: &mut Json<'_>, name: &str, fill: impl FnOnce(&mut Json<'_>)) {
    json.object(|f| {
        f.key("frame_type").str(name);
        fill(f);
    });
}

fn padding(json: &mut Json<'_>, len: usize) {
    named(json, "padding", |f| {
        f.key("raw")
            .object(|raw| raw.key("payload_length").u64(len as u64));
    });
}

fn stream(json: &mut Json<'_>, id: StreamId, offset: u64, len: usize, fin: bool) {
    named(json, "stream", |f| {
        f.key("stream_id").u64(id.0);
        f.key("offset").u64(offset);
        if fin {
            f.key("fin").bool(true);
        }
        length(f, len);
    });
}

fn crypto(json: &mut Json<'_>, offset: u64, len: usize) {
    named(json, "crypto", |f| {
        f.key("offset").u64(offset);
        length(f, len);
    });
}

fn ack(json: &mut Json<'_>, ack: &Ack<'_>, exponent: u8) {
    json.object(|f| {
        ack_start(f, ack.path, ack.delay, exponent);
        f.key("acked_ranges").array(|all| ranges(all, ack.ranges()));
        if let Some(ecn) = ack.ecn {
            f.key("ect1").u64(ecn.ect1);
            f.key("ect0").u64(ecn.ect0);
            f.key("ce").u64(ecn.ce);
        }
        if let Some(timestamps) = &ack.timestamps {
            f.key("receive_timestamps").u64(timestamps.count());
        }
    });
}

fn ack_start(f: &mut Json<'_>, path: Option<PathId>, delay: u64, exponent: u8) {
    f.key("frame_type").str(with_path(path, "ack", "path_ack"));
    path_id(f, path);
    // The field counts units of 2^exponent microseconds. RFC 9000 s19.3.
    let micros = delay
        .checked_shl(u32::from(exponent))
        .filter(|d| d >> exponent == delay);
    f.key("ack_delay")
        .millis(micros.unwrap_or(u64::MAX).saturating_mul(1_000));
}

fn new_connection_id(json: &mut Json<'_>, new: &NewConnectionId) {
    let name = with_path(new.path, "new_connection_id", "path_new_connection_id");
    named(json, name, |f| {
        path_id(f, new.path);
        f.key("sequence_number").u64(new.sequence);
        f.key("retire_prior_to").u64(new.retire_prior_to);
        f.key("connection_id_length").u64(new.cid.len() as u64);
        f.key("connection_id").hex(new.cid.as_slice());
    });
}

fn close(json: &mut Json<'_>, close: &Close<'_>) {
    named(json, "connection_close", |f| {
        match close.frame_type {
            Some(trigger) => {
                f.key("error_space").str("transport");
                let name = error_name(Code(close.code));
                f.key("error").str(&name);
                if name == "unknown" {
                    f.key("error_code").u64(close.code);
                }
                f.key("trigger_frame_type").u64(trigger);
            }
            None => {
                f.key("error_space").str("application");
                application_error(f, close.code);
            }
        }
        match std::str::from_utf8(close.reason) {
            Ok(reason) => f.key("reason").str(reason),
            Err(_) => f.key("reason_bytes").hex(close.reason),
        }
    });
}

fn application_error(f: &mut Json<'_>, code: u64) {
    f.key("error").str("unknown");
    f.key("error_code").u64(code);
}

fn length(f: &mut Json<'_>, len: usize) {
    f.key("raw").object(|raw| raw.key("length").u64(len as u64));
}

fn path_id(f: &mut Json<'_>, path: Option<PathId>) {
    if let Some(path) = path {
        f.key("path_id").u64(u64::from(path.0));
    }
}

const fn with_path(
    path: Option<PathId>,
    without: &'static str,
    with: &'static str,
) -> &'static str {
    if path.is_some() { with } else { without }
}

/// `bidirectional` or `unidirectional`.
pub(super) const fn stream_type(dir: Dir) -> &'static str {
    match dir {
        Dir::Bi => "bidirectional",
        Dir::Uni => "unidirectional",
    }
}
