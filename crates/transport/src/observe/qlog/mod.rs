//! Events as a qlog file: JSON text sequences (RFC 7464), one trace per file.
//!
//! Purpose: traces that qvis and other tools read.
//! Owns: the file header, the order of records, batching, what happens when the writer fails.
//! Does not own: files; whoever configures the sink hands in a writer.
//! Called by: the connection, through [`Observer`](super::Observer).
//! Spec: draft-ietf-quic-qlog-main-schema-13 s5, s11.2; draft-ietf-quic-qlog-quic-events-13.
//! What the schema has no name for (policy decisions, abuse, multipath frames) stands under the
//! namespace `tautline` and in fields that readers ignore.

mod events;
mod frames;
mod json;
#[cfg(test)]
mod tests;
mod values;

use std::{fmt, io::Write, sync::Arc};

use self::json::Json;
use super::{ConnectionInfo, Event, Sink, SinkFactory};
use crate::{time::Instant, units::Side};

/// The schema of events under the namespace `quic`.
const QUIC_SCHEMA: &str = "urn:ietf:params:qlog:events:quic-13";
/// The schema of our own events.
const OWN_SCHEMA: &str = "https://github.com/tautline/tautline#qlog-events-1";
/// Records are handed to the writer in portions of about this many bytes.
const BATCH_BYTES: usize = 16 * 1024;
/// Frames of one packet beyond this many bytes of JSON are left out.
const MAX_FRAME_BYTES: usize = 64 * 1024;
/// Start of a record. RFC 7464 s2.2.
const RECORD_SEPARATOR: u8 = 0x1e;

/// Where a trace is written to.
pub type QlogWriter = Box<dyn Write + Send>;

type MakeWriter = dyn Fn(&ConnectionInfo) -> Option<QlogWriter> + Send + Sync;

/// Writes one trace per connection.
#[derive(Clone)]
pub struct QlogFactory {
    make_writer: Arc<MakeWriter>,
}

impl QlogFactory {
    /// `make_writer` opens what a connection's trace is written to; `None` skips the connection.
    pub fn new(
        make_writer: impl Fn(&ConnectionInfo) -> Option<QlogWriter> + Send + Sync + 'static,
    ) -> Self {
        Self {
            make_writer: Arc::new(make_writer),
        }
    }

    /// The customary name of a connection's file: `<original dcid>_<side>.sqlog`.
    pub fn file_name(info: &ConnectionInfo) -> String {
        let mut name = String::new();
        for byte in info.original_dcid.as_slice() {
            name.push_str(&format!("{byte:02x}"));
        }
        let side = if info.side.is_client() {
            "client"
        } else {
            "server"
        };
        format!("{name}_{side}.sqlog")
    }
}

impl fmt::Debug for QlogFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("QlogFactory")
    }
}

impl SinkFactory for QlogFactory {
    fn build(&self, info: &ConnectionInfo) -> Option<Box<dyn Sink>> {
        let writer = (self.make_writer)(info)?;
        Some(Box::new(QlogSink::new(writer, info)))
    }
}

/// Writes the events of one connection.
///
/// Runs inside the state machine: a writer that may block should be a queue to another thread.
/// The first error of the writer silences the sink for good.
pub struct QlogSink {
    /// `None` once it failed.
    writer: Option<QlogWriter>,
    /// Records not handed to the writer yet.
    batch: Vec<u8>,
    /// Frames written for the packet that will be sent next: JSON objects, comma-separated.
    sent_frames: Vec<u8>,
    /// The packet received last, as long as more frames of it may come.
    open: Option<OpenPacket>,
    /// Records that came up while a received packet was open; they follow it.
    after_open: Vec<u8>,
    context: Context,
}

/// What the sink must know to write events.
struct Context {
    start: Instant,
    side: Side,
    /// ack_delay_exponent of our ACKs and of the peer's.
    local_exponent: u8,
    remote_exponent: u8,
}

/// A received packet whose frames are being collected.
struct OpenPacket {
    /// The record up to and without the end of its `data`.
    head: Vec<u8>,
    /// JSON objects, comma-separated.
    frames: Vec<u8>,
}

impl QlogSink {
    /// Writes to `writer`; the header at once.
    pub fn new(writer: QlogWriter, info: &ConnectionInfo) -> Self {
        let mut sink = Self {
            writer: Some(writer),
            batch: Vec::with_capacity(BATCH_BYTES + 4 * 1024),
            sent_frames: Vec::new(),
            open: None,
            after_open: Vec::new(),
            context: Context {
                start: info.start,
                side: info.side,
                local_exponent: 3,
                remote_exponent: 3,
            },
        };
        header(&mut sink.batch, info);
        sink
    }

    /// Takes what belongs to packets under construction; true if the event is done with.
    fn collect(&mut self, now: Instant, event: &Event<'_>) -> bool {
        match event {
            Event::FrameSent(_)
            | Event::StreamFrameSent { .. }
            | Event::CryptoFrameSent { .. }
            | Event::AckFrameSent { .. }
            | Event::PaddingSent { .. } => {
                let exponent = self.context.local_exponent;
                add_frame(&mut self.sent_frames, |json| {
                    frames::sent(json, event, exponent)
                });
                true
            }
            Event::FrameReceived(frame) => {
                let exponent = self.context.remote_exponent;
                if let Some(open) = &mut self.open {
                    add_frame(&mut open.frames, |json| {
                        frames::frame(json, frame, exponent)
                    });
                }
                true
            }
            Event::PacketSent { .. } => {
                self.close_received();
                let frames = std::mem::take(&mut self.sent_frames);
                events::packet_sent(&mut self.batch, &self.context, now, event, &frames);
                self.sent_frames = frames;
                self.sent_frames.clear();
                true
            }
            Event::PacketReceived { .. } => {
                self.close_received();
                let mut head = Vec::new();
                events::packet_received_head(&mut head, &self.context, now, event);
                self.open = Some(OpenPacket {
                    head,
                    frames: Vec::new(),
                });
                true
            }
            _ => false,
        }
    }

    /// The open received packet is complete.
    fn close_received(&mut self) {
        if let Some(open) = self.open.take() {
            self.batch.extend_from_slice(&open.head);
            self.batch.extend_from_slice(b",\"frames\":[");
            self.batch.extend_from_slice(&open.frames);
            self.batch.extend_from_slice(b"]}}\n");
        }
        self.batch.append(&mut self.after_open);
    }

    fn flush(&mut self) {
        self.close_received();
        if let Some(writer) = &mut self.writer {
            let written = writer.write_all(&self.batch).and_then(|()| writer.flush());
            if written.is_err() {
                self.writer = None;
            }
        }
        self.batch.clear();
    }
}

impl Sink for QlogSink {
    fn on_event(&mut self, now: Instant, event: &Event<'_>) {
        if self.writer.is_none() {
            return;
        }
        match event {
            Event::ParametersSent(params) => {
                self.context.local_exponent = params.ack_delay_exponent;
            }
            Event::ParametersReceived(params) => {
                self.context.remote_exponent = params.ack_delay_exponent;
            }
            _ => {}
        }
        if !self.collect(now, event) {
            let out = if self.open.is_some() {
                &mut self.after_open
            } else {
                &mut self.batch
            };
            events::record(out, &self.context, now, event);
        }
        let over = matches!(event, Event::ConnectionClosed { .. });
        if over || self.batch.len() + self.after_open.len() >= BATCH_BYTES {
            self.flush();
        }
    }
}

impl Drop for QlogSink {
    fn drop(&mut self) {
        self.flush();
    }
}

impl fmt::Debug for QlogSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("QlogSink")
    }
}

/// Appends one frame object, if there is room.
fn add_frame(frames: &mut Vec<u8>, write: impl FnOnce(&mut Json<'_>)) {
    if frames.len() >= MAX_FRAME_BYTES {
        return;
    }
    write(&mut Json(frames));
}

/// The first record of the file.
fn header(out: &mut Vec<u8>, info: &ConnectionInfo) {
    out.push(RECORD_SEPARATOR);
    Json(out).object(|file| {
        file.key("file_schema")
            .str("urn:ietf:params:qlog:file:sequential");
        file.key("serialization_format")
            .str("application/qlog+json-seq");
        file.key("title").str("tautline");
        file.key("trace").object(|trace| {
            trace.key("event_schemas").array(|schemas| {
                schemas.str(QUIC_SCHEMA);
                schemas.str(OWN_SCHEMA);
            });
            trace.key("common_fields").object(|common| {
                common.key("group_id").hex(info.original_dcid.as_slice());
                common.key("time_format").str("relative_to_epoch");
                common.key("reference_time").object(|reference| {
                    reference.key("clock_type").str("monotonic");
                    reference.key("epoch").str("unknown");
                });
            });
            trace.key("vantage_point").object(|vantage| {
                vantage.key("name").str("tautline");
                vantage.key("type").str(if info.side.is_client() {
                    "client"
                } else {
                    "server"
                });
            });
        });
    });
    out.push(b'\n');
}
