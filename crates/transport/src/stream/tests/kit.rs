//! Packets between stream sets.

use bytes::Bytes;

use crate::{
    config::{TransportConfig, WindowConfig},
    error::TransportError,
    multipath::Takes,
    observe::Observer,
    packet::{FrameStats, PacketFlags, PacketWriter, Token},
    stream::{PeerLimits, ReadOutcome, StreamEvent, StreamSet},
    time::Instant,
    units::{Dir, PathId, Side, StreamId},
    wire::{Frame, PacketTypes, Reader, SourceSymbol},
};
use std::time::Duration;

/// A packet that takes anything.
pub(super) const ANY: Takes = Takes {
    pinned_to: PathId::ZERO,
    free: true,
    again: true,
    ahead: 0,
};

pub(super) const RTT: Duration = Duration::from_millis(10);

/// A payload and what its fate means to the sender.
#[derive(Clone, Debug)]
pub(super) struct Packet {
    pub(super) payload: Bytes,
    pub(super) tokens: Vec<Token>,
    pub(super) flags: PacketFlags,
}

impl Packet {
    pub(super) fn frames(&self) -> Vec<Frame<'_>> {
        let mut reader = Reader::new(&self.payload);
        let mut frames = Vec::new();
        while !reader.is_empty() {
            frames.push(Frame::decode(&mut reader).unwrap());
        }
        frames
    }
}

/// Small windows, so that every limit is met.
pub(super) fn small_config() -> TransportConfig {
    TransportConfig {
        stream_receive_window: WindowConfig {
            initial: 2000,
            max: 8000,
        },
        connection_receive_window: WindowConfig {
            initial: 3000,
            max: 12_000,
        },
        send_buffer_bytes: 10_000,
        max_concurrent_bidi_streams: 3,
        max_concurrent_uni_streams: 2,
        ..TransportConfig::default()
    }
}

pub(super) fn limits_of(config: &TransportConfig) -> PeerLimits {
    PeerLimits {
        max_data: config.connection_receive_window.initial,
        max_stream_data_bidi_local: config.stream_receive_window.initial,
        max_stream_data_bidi_remote: config.stream_receive_window.initial,
        max_stream_data_uni: config.stream_receive_window.initial,
        max_streams_bidi: config.max_concurrent_bidi_streams,
        max_streams_uni: config.max_concurrent_uni_streams,
    }
}

/// A set whose peer has the same configuration.
pub(super) fn set(side: Side, config: &TransportConfig) -> StreamSet {
    let mut set = StreamSet::new(side, config);
    set.set_peer_limits(&limits_of(config));
    set.set_peer_supports_reset_at(true);
    set
}

/// Builds a packet of at most `room` payload bytes; `None` when there is nothing to send.
pub(super) fn packet(set: &mut StreamSet, room: usize) -> Option<Packet> {
    write(set, room, false)
}

/// The same with a source symbol; there must be something to send.
pub(super) fn protected(set: &mut StreamSet, room: usize) -> Packet {
    write(set, room, true).unwrap()
}

fn write(set: &mut StreamSet, room: usize, protects: bool) -> Option<Packet> {
    let mut payload = vec![0; room];
    let mut tokens = Vec::new();
    let mut stats = FrameStats::default();
    let mut observer = Observer::none();
    let mut writer = PacketWriter::new(
        &mut payload,
        PacketTypes::ONE_RTT,
        &mut tokens,
        &mut stats,
        &mut observer,
        Instant::ZERO,
    );
    if protects {
        writer.begin_symbol(SourceSymbol::new(0, 2), 0);
    }
    set.write_control(&mut writer);
    set.write_data(ANY, &mut writer);
    let (len, flags) = (writer.len(), writer.flags());
    payload.truncate(len);
    (len > 0).then(|| Packet {
        payload: payload.into(),
        tokens,
        flags,
    })
}

/// Everything there is to send now.
pub(super) fn packets(set: &mut StreamSet) -> Vec<Packet> {
    let packets: Vec<_> = std::iter::from_fn(|| packet(set, 1200))
        .take(100_000)
        .collect();
    assert!(
        !set.has_control() && !set.has_data(),
        "claims to have frames but writes none"
    );
    packets
}

pub(super) fn deliver(
    set: &mut StreamSet,
    now: Instant,
    packet: &Packet,
) -> Result<(), TransportError> {
    for frame in packet.frames() {
        match frame {
            Frame::Stream(frame) => {
                let data = packet.payload.slice_ref(frame.data);
                set.on_stream(now, RTT, &frame, data)?;
            }
            Frame::ResetStream(frame) => set.on_reset_stream(&frame)?,
            Frame::ResetStreamAt {
                id,
                code,
                final_size,
                reliable_size,
            } => {
                set.on_reset_stream_at(id, code, final_size, reliable_size)?;
            }
            Frame::StopSending { id, code } => set.on_stop_sending(id, code)?,
            Frame::MaxData(max) => set.on_max_data(max),
            Frame::MaxStreamData { id, max } => set.on_max_stream_data(id, max)?,
            Frame::MaxStreams { dir, max } => set.on_max_streams(dir, max)?,
            Frame::DataBlocked(limit) => set.on_data_blocked(limit)?,
            Frame::StreamDataBlocked { id, limit } => set.on_stream_data_blocked(id, limit)?,
            Frame::StreamsBlocked { dir, limit } => set.on_streams_blocked(dir, limit)?,
            Frame::Padding { .. } => {}
            other => panic!("unexpected {other:?}"),
        }
    }
    Ok(())
}

/// Sends everything from one set to the other, acknowledged at once.
pub(super) fn flush(from: &mut StreamSet, to: &mut StreamSet) {
    for packet in packets(from) {
        deliver(to, Instant::ZERO, &packet).unwrap();
        for token in packet.tokens {
            from.on_acked(token);
        }
    }
}

pub(super) fn events(set: &mut StreamSet) -> Vec<StreamEvent> {
    std::iter::from_fn(|| set.poll_event()).collect()
}

/// Reads until blocked or the end; whether it was the end.
pub(super) fn read_all(set: &mut StreamSet, id: StreamId) -> (Vec<u8>, bool) {
    let mut all = Vec::new();
    loop {
        match set.read(id, usize::MAX).unwrap() {
            ReadOutcome::Chunk(chunk) => all.extend_from_slice(&chunk),
            ReadOutcome::Blocked => return (all, false),
            ReadOutcome::Finished => return (all, true),
        }
    }
}

/// A STREAM frame by hand.
pub(super) fn stream_frame(
    set: &mut StreamSet,
    id: StreamId,
    offset: u64,
    data: &[u8],
    fin: bool,
) -> Result<(), TransportError> {
    let frame = crate::wire::Stream {
        id,
        offset,
        data,
        fin,
    };
    set.on_stream(Instant::ZERO, RTT, &frame, Bytes::copy_from_slice(data))
}

pub(super) fn client_bi(index: u64) -> StreamId {
    StreamId::new(Side::Client, Dir::Bi, index)
}

pub(super) fn client_uni(index: u64) -> StreamId {
    StreamId::new(Side::Client, Dir::Uni, index)
}

pub(super) fn server_bi(index: u64) -> StreamId {
    StreamId::new(Side::Server, Dir::Bi, index)
}

pub(super) fn server_uni(index: u64) -> StreamId {
    StreamId::new(Side::Server, Dir::Uni, index)
}
