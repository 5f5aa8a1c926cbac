//! Frames that concern a path rather than data.
//!
//! Owns: which of them go into a packet, and in what order. Does not own: when they are due (`path/`,
//! `space/`), where they stand among other frames (`tx.rs`).

use super::ack_route::AckWay;
use crate::{
    multipath::{PathStatus, StatusExchange, Unopened},
    packet::PacketWriter,
    path::{LocalCids, Path, PathSet, RemoteCids},
    rng::Rng,
    space::TimestampConfig,
    time::Instant,
    units::PathId,
    wire::{Frame, NewConnectionId},
};

/// How ACK frames are written.
pub(super) struct AckWriting {
    pub(super) exponent: u8,
    pub(super) multipath: bool,
    /// Which path carries which.
    pub(super) way: AckWay,
    /// Whether the peer takes echoes.
    pub(super) echoes: bool,
    pub(super) timestamps: Option<TimestampConfig>,
}

/// What a PTO or a keep-alive owes this path beside the data that the packet carries; whether it
/// makes a PTO probe of the packet.
pub(super) fn write_probe(
    path: &mut Path,
    peer_min_ack_delay_us: Option<u64>,
    writer: &mut PacketWriter<'_>,
) -> bool {
    if path.pending.probes == 0 && !path.pending.ping {
        return false;
    }
    // What is repeated may be probing frames only, which would not show a peer that our address
    // changed. RFC 9000 s9.1.
    if path.pending.probes > 0 || !writer.flags().ack_eliciting {
        writer.push(&Frame::Ping);
    }
    if path.pending.immediate_ack && peer_min_ack_delay_us.is_some() {
        writer.push(&Frame::ImmediateAck);
    }
    let probe = path.pending.probes > 0;
    path.pending.probes = path.pending.probes.saturating_sub(1);
    path.pending.ping = false;
    path.pending.immediate_ack = false;
    probe
}

/// A challenge that is due, and an answer if `answers` may leave; whether anything was written.
/// First in the packet: interoperability tests look for them there.
pub(super) fn write_validation(
    now: Instant,
    path: &mut Path,
    datagram_size: usize,
    answers: bool,
    rng: &mut Rng,
    writer: &mut PacketWriter<'_>,
) -> bool {
    let mut wrote = false;
    if path.network.challenge_due(now)
        && let Some(data) = path.network.next_challenge(now, datagram_size, rng)
    {
        wrote |= writer.push(&Frame::PathChallenge(data));
    }
    if answers
        && let Some(data) = path.network.next_response()
        && writer.push(&Frame::PathResponse(data))
    {
        path.network.response_sent();
        wrote = true;
    }
    wrote
}

/// Frames that belong to this path alone, most urgent first.
pub(super) fn write_path_frames(
    now: Instant,
    path: &mut Path,
    acks: &AckWriting,
    full: bool,
    writer: &mut PacketWriter<'_>,
) {
    let ack_path = acks.multipath.then_some(path.id);
    let received = &mut path.space.received;
    if acks.way.is_own(path.id) {
        if received.has_unreported() || received.ack_due(now) {
            received.write_ack(now, ack_path, acks.exponent, acks.timestamps, writer);
        }
    } else if path.ack_copies.is_owed()
        && received.write_ack_copy(now, ack_path, acks.exponent, acks.timestamps, writer)
    {
        let rtt = path.recovery.rtt().smoothed();
        path.ack_copies.on_written(now, rtt);
        if full {
            // It tells whether the path is alive on the way there.
            path.pending.ping = true;
        }
    }
    if !full {
        return;
    }
    let frame_path = acks.multipath.then_some(path.id);
    write_retirements(frame_path, &mut path.remote_cids, writer);
    if !path.needs_introduction() {
        write_connection_ids(frame_path, &mut path.local_cids, writer);
    }
    if acks.multipath {
        write_status(path.id, &mut path.status, writer);
    }
    if let Some(request) = path.ack_frequency.to_send {
        let micros = u64::try_from(request.max_ack_delay.as_micros()).unwrap_or(u64::MAX);
        let frame = Frame::AckFrequency {
            sequence: path.ack_frequency.next_sequence,
            threshold: request.ack_eliciting_threshold,
            max_ack_delay_us: micros,
            reordering: request.reordering_threshold,
        };
        if writer.push(&frame) {
            path.ack_frequency.on_written(request);
            path.recovery.on_ack_request(request);
        }
    }
}

/// Connection IDs of the peer's that we shall not use any more; whether all fitted.
fn write_retirements(
    path: Option<PathId>,
    cids: &mut RemoteCids,
    writer: &mut PacketWriter<'_>,
) -> bool {
    while let Some(sequence) = cids.peek_retirement() {
        if !writer.push(&Frame::RetireConnectionId { path, sequence }) {
            return false;
        }
        cids.pop_retirement();
    }
    true
}

/// Connection IDs that the peer has not been told; whether all fitted.
fn write_connection_ids(
    path: Option<PathId>,
    cids: &mut LocalCids,
    writer: &mut PacketWriter<'_>,
) -> bool {
    while let Some(issued) = cids.peek_unsent() {
        let frame = NewConnectionId {
            path,
            sequence: issued.sequence,
            retire_prior_to: 0,
            cid: issued.cid,
            token: issued.token,
        };
        if !writer.push(&Frame::NewConnectionId(frame)) {
            return false;
        }
        cids.pop_unsent();
    }
    true
}

/// What we wish a path to be used for; whether it fitted.
fn write_status(id: PathId, status: &mut StatusExchange, writer: &mut PacketWriter<'_>) -> bool {
    let Some((sequence, wish)) = status.unsent() else {
        return true;
    };
    let frame = Frame::PathStatus {
        path: id,
        available: wish == PathStatus::Available,
        sequence,
    };
    let written = writer.push(&frame);
    if written {
        status.on_written();
    }
    written
}

/// What the peer must know of a path that is not open yet; whether all fitted.
pub(super) fn write_path_news(
    id: PathId,
    unopened: &mut Unopened,
    writer: &mut PacketWriter<'_>,
) -> bool {
    let Unopened {
        local,
        remote,
        status,
        ..
    } = unopened;
    let retired = remote
        .as_mut()
        .is_none_or(|remote| write_retirements(Some(id), remote, writer));
    retired && write_connection_ids(Some(id), local, writer) && write_status(id, status, writer)
}

/// Connection IDs of other paths that were opened before the peer was told of the first: it can answer
/// there only once another path has brought it.
pub(super) fn write_introductions(
    this: PathId,
    paths: &mut PathSet,
    writer: &mut PacketWriter<'_>,
) {
    if paths.len() == 1 {
        return;
    }
    for other in paths.iter_mut().filter(|other| other.id != this) {
        if other.needs_introduction() {
            write_connection_ids(Some(other.id), &mut other.local_cids, writer);
        }
    }
}

/// Acknowledgements of other paths that this one carries (`ack_route.rs`), and echoes of those that these carry
/// themselves: of how many bytes, for no packet leaves for echoes alone.
pub(super) fn write_other_acks(
    now: Instant,
    this: PathId,
    paths: &mut PathSet,
    acks: &AckWriting,
    writer: &mut PacketWriter<'_>,
) -> usize {
    let mut echoed = 0;
    if paths.len() == 1 {
        return echoed;
    }
    for other in paths.iter_mut().filter(|other| other.id != this) {
        let path = acks.multipath.then_some(other.id);
        if acks.way.takes(now, this, other) {
            other
                .space
                .received
                .write_ack(now, path, acks.exponent, acks.timestamps, writer);
        } else if acks.echoes && acks.way.is_own(other.id) {
            let rtt = other.recovery.rtt().smoothed();
            if other.space.received.echo_due(now, rtt) {
                let before = writer.len();
                other.space.received.write_echo(other.id, writer);
                echoed += writer.len() - before;
            }
        }
    }
    echoed
}
