//! One TCP connection between two neighbours: an end and a proxy, two proxies, or the two ends.
//!
//! Owns: [`Leg`], which brings sender and receiver together: which packet leaves next, timers, how long
//! silence is borne. Does not own: their rules, nor what the bytes mean (`host.rs`, `proxy.rs`).

use std::{collections::VecDeque, net::SocketAddr, time::Duration};

use bytes::Bytes;
use tautline_sim::Datagram;
use tautline_transport::{
    congestion::CongestionController,
    time::{Instant, earliest},
    units::Ecn,
};

use super::{
    receive::{AckRule, Receiver},
    segment::{Kind, Segment, stamp},
    send::{Sender, Source},
};
use crate::stack::WireStats;

/// How one end of a leg behaves.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
    /// When a client connects.
    pub(super) start: Instant,
    /// Data bytes of a full segment.
    pub(super) segment: usize,
    pub(super) receive_buffer: u64,
    pub(super) send_buffer: u64,
    pub(super) ack: AckRule,
    pub(super) initial_timeout: Duration,
    /// How long data may go without any word from the other end.
    pub(super) patience: Duration,
    pub(super) paced: bool,
    pub(super) controller: Box<dyn CongestionController>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    packets: u64,
    bytes: u64,
    acks: u64,
}

#[derive(Debug)]
pub(super) struct Leg {
    local: SocketAddr,
    remote: SocketAddr,
    segment: usize,
    send_buffer: u64,
    patience: Duration,
    pub(super) sender: Sender,
    pub(super) receiver: Receiver,
    /// When the other end was last heard, or data began to wait for it.
    pub(super) heard: Instant,
    /// What the other end has to be told of the end of this; empty where nothing went wrong.
    farewell: Option<Bytes>,
    /// UDP datagrams beside the connection.
    pub(super) datagrams: VecDeque<Bytes>,
    counters: Counters,
}

impl Leg {
    pub(super) fn new(settings: Settings) -> Self {
        Self {
            local: settings.local,
            remote: settings.remote,
            segment: settings.segment,
            send_buffer: settings.send_buffer,
            patience: settings.patience,
            sender: Sender::new(
                settings.start,
                settings.segment,
                // What the other end's buffer is taken to be until it tells: its own.
                settings.receive_buffer,
                settings.initial_timeout,
                settings.controller,
                settings.paced,
            ),
            receiver: Receiver::new(settings.receive_buffer, settings.ack),
            heard: settings.start,
            farewell: None,
            datagrams: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    /// Whether a packet between these addresses is of this leg.
    pub(super) fn is_of(&self, datagram: &Datagram) -> bool {
        datagram.dst == self.local && datagram.src == self.remote
    }

    /// Data bytes of a full segment.
    pub(super) const fn segment(&self) -> usize {
        self.segment
    }

    pub(super) const fn send_buffer(&self) -> u64 {
        self.send_buffer
    }

    /// Bytes that the send buffer still takes where so many wait to be sent for the first time.
    pub(super) fn room(&self, unsent: u64) -> u64 {
        let used = unsent + self.sender.outstanding();
        self.send_buffer.saturating_sub(used)
    }

    pub(super) const fn patience(&self) -> Duration {
        self.patience
    }

    pub(super) fn wire_stats(&self) -> WireStats {
        let sender = &self.sender;
        let rtt = sender.rtt();
        WireStats {
            rtt: rtt.map(|rtt| rtt.smoothed),
            min_rtt: rtt.map(|rtt| rtt.min),
            window: sender.window(),
            pacing_rate: sender.pacing_rate(),
            in_flight: Some(sender.in_flight()),
            datagrams_sent: self.counters.packets,
            bytes_sent: self.counters.bytes,
            packets_sent: sender.counters.segments,
            packets_lost: sender.counters.lost,
            spurious_losses: Some(sender.counters.spurious),
            ptos: Some(sender.counters.timeouts),
            acks_sent: self.counters.acks,
            fec: None,
        }
    }

    /// A segment of the connection came. Returns whether the other end has more of ours.
    pub(super) fn on_segment(&mut self, now: Instant, segment: &Segment) -> bool {
        self.heard = now;
        let una = self.sender.una();
        self.sender.on_ack(now, segment);
        if !segment.data.is_empty() {
            self.receiver.on_data(now, segment);
        }
        self.sender.una() > una
    }

    /// The other end is to be told that this is over, and why, unless an end wanted it so.
    pub(super) fn tell_end(&mut self, mut reason: Bytes) {
        reason.truncate(self.segment);
        self.farewell = Some(reason);
    }

    fn gives_up_at(&self) -> Option<Instant> {
        (self.sender.outstanding() > 0).then(|| self.heard + self.patience)
    }

    pub(super) fn timeout(&self) -> Option<Instant> {
        let recovery = earliest(self.sender.timeout(), self.receiver.due());
        earliest(recovery, self.gives_up_at())
    }

    /// Returns whether silence has lasted too long.
    pub(super) fn on_timeout(&mut self, now: Instant) -> bool {
        if self.gives_up_at().is_some_and(|at| at <= now) {
            return true;
        }
        if self.sender.timeout().is_some_and(|at| at <= now) {
            self.sender.on_timeout(now);
        }
        false
    }

    fn packet(&mut self, now: Instant, mut segment: Segment) -> Datagram {
        segment.stamp = stamp(now);
        let payload = segment.encode();
        self.counters.packets += 1;
        self.counters.bytes += payload.len() as u64;
        Datagram {
            src: self.local,
            dst: self.remote,
            ecn: Ecn::NotEct,
            payload,
        }
    }

    /// What tells the other end that this is over, if it has to be told.
    pub(super) fn poll_farewell(&mut self, now: Instant) -> Option<Datagram> {
        let data = self.farewell.take()?;
        let segment = Segment {
            kind: Kind::Close,
            data,
            ..Segment::default()
        };
        Some(self.packet(now, segment))
    }

    /// The next packet of a connection that is not over.
    pub(super) fn poll_transmit(
        &mut self,
        now: Instant,
        source: &mut dyn Source,
    ) -> Option<Datagram> {
        if let Some(data) = self.datagrams.pop_front() {
            let segment = Segment {
                kind: Kind::Datagram,
                data,
                ..Segment::default()
            };
            return Some(self.packet(now, segment));
        }
        let due = self.receiver.due().is_some_and(|at| at <= now);
        // A full segment has no room for SACK blocks.
        if due && self.receiver.has_holes() {
            return Some(self.acknowledgement(now));
        }
        let idle = self.sender.outstanding() == 0;
        if let Some((start, data)) = self.sender.poll(now, source) {
            if idle {
                self.heard = self.heard.max(now);
            }
            let mut segment = Segment {
                seq: start as u32,
                data,
                ..Segment::default()
            };
            self.counters.acks += u64::from(self.receiver.acknowledge(&mut segment));
            segment.blocks = Default::default();
            return Some(self.packet(now, segment));
        }
        due.then(|| self.acknowledgement(now))
    }

    fn acknowledgement(&mut self, now: Instant) -> Datagram {
        let mut segment = Segment::default();
        self.receiver.acknowledge(&mut segment);
        self.counters.acks += 1;
        self.packet(now, segment)
    }
}
