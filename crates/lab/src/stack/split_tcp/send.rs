//! The sending end: what leaves when, and local recovery of what is lost.
//!
//! Loss is found by time as in RFC 8985 (RACK): a segment is lost when one that left later was
//! delivered and the reordering window has passed, which is nothing once three segments beyond a
//! hole were delivered. A tail that is not acknowledged is probed (RFC 8985 s7); then comes the
//! timeout (RFC 6298), after which what is older than a round trip counts as lost. A repetition
//! that was not needed shows by its time stamp (RFC 3522) and widens the reordering window.
//!
//! Owns: [`Sender`]: sequence numbers, timers of recovery, the congestion controller, pacing. Does
//! not own: the bytes to be sent (`mux.rs`), the bookkeeping of segments (`scoreboard.rs`).

use std::time::Duration;

use bytes::Bytes;
use tautline_transport::{
    congestion::{
        AckEvent, CongestionController, LossEvent, LostPacket, Pacer, RttView, SentEvent,
        SpuriousLossEvent, fallback_rate,
    },
    time::{Instant, earliest},
    units::Rate,
};

use super::{
    rate::DeliveryRate,
    rtt::Rtt,
    scoreboard::{Delivered, Scoreboard, Transmission, wire_bytes},
    segment::{HEADER_BYTES, Segment, expand, stamp},
};

/// Delivered segments beyond a hole that make reordering unlikely (RFC 8985 s6.2).
const DUPLICATES: usize = 3;
/// A quarter of the smallest RTT is one step of the reordering window; no more than these.
const MOST_STEPS: u32 = 16;
/// What a single segment's acknowledgement may be delayed by (RFC 8985 s7.2).
const WORST_ACK_DELAY: Duration = Duration::from_millis(200);

/// Where new data come from.
pub(super) trait Source {
    /// Bytes that are there, up to `most`.
    fn available(&mut self, most: usize) -> usize;
    /// The next bytes, no more than `most`.
    fn take(&mut self, most: usize) -> Bytes;
}

/// What a sender counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counters {
    pub(super) segments: u64,
    pub(super) lost: u64,
    pub(super) spurious: u64,
    pub(super) timeouts: u64,
}

#[derive(Debug)]
pub(super) struct Sender {
    /// Data bytes of a full segment.
    most: usize,
    board: Scoreboard,
    rtt: Rtt,
    rate: DeliveryRate,
    controller: Box<dyn CongestionController>,
    pacer: Option<Pacer>,
    pace_until: Option<Instant>,
    /// So many segments leave unpaced at first: the initial window (RFC 6928).
    burst: u64,
    next_number: u64,
    /// The first byte that the receiver has no room for.
    edge: u64,
    /// The newest transmission delivered and its RTT.
    newest: Option<(Transmission, Duration)>,
    /// Whether a segment was delivered before one that left earlier.
    reordering: bool,
    steps: u32,
    /// When the oldest transmission in flight will count as lost.
    lost_at: Option<Instant>,
    /// Recovery lasts until this is acknowledged.
    recovery: Option<u64>,
    /// Segments declared lost in this recovery, less those that were not.
    missing: u64,
    backoff: u32,
    /// From when on the timeout runs; none when nothing is in flight.
    armed: Option<Instant>,
    last_sent: Instant,
    /// Whether the tail was probed since the last progress.
    probed: bool,
    /// One segment may leave whatever the windows say.
    forced: bool,
    pub(super) counters: Counters,
}

impl Sender {
    pub(super) fn new(
        now: Instant,
        most: usize,
        edge: u64,
        initial_timeout: Duration,
        controller: Box<dyn CongestionController>,
        paced: bool,
    ) -> Self {
        Self {
            most,
            board: Scoreboard::default(),
            rtt: Rtt::new(initial_timeout),
            rate: DeliveryRate::default(),
            burst: controller.window() / (most + HEADER_BYTES) as u64,
            controller,
            pacer: paced.then(|| Pacer::new(now, (most + HEADER_BYTES) as u64)),
            pace_until: None,
            next_number: 0,
            edge,
            newest: None,
            reordering: false,
            steps: 1,
            lost_at: None,
            recovery: None,
            missing: 0,
            backoff: 0,
            armed: None,
            last_sent: now,
            probed: false,
            forced: false,
            counters: Counters::default(),
        }
    }

    pub(super) fn una(&self) -> u64 {
        self.board.una()
    }

    /// Bytes sent that are not acknowledged.
    pub(super) fn outstanding(&self) -> u64 {
        self.board.next() - self.board.una()
    }

    pub(super) fn in_flight(&self) -> u64 {
        self.board.in_flight_bytes()
    }

    pub(super) fn rtt(&self) -> Option<RttView> {
        self.rtt.view()
    }

    /// Bytes that may be in flight; no controller gets below two segments (RFC 5681 s3.1).
    pub(super) fn window(&self) -> u64 {
        self.controller.window().max(2 * self.full())
    }

    fn full(&self) -> u64 {
        (self.most + HEADER_BYTES) as u64
    }

    pub(super) fn pacing_rate(&self) -> Option<Rate> {
        self.controller.pacing_rate()
    }

    /// An acknowledgement came.
    pub(super) fn on_ack(&mut self, now: Instant, segment: &Segment) {
        let Some(ack) = segment.ack else { return };
        let una = self.board.una();
        let ack = expand(una, ack);
        let prior_in_flight = self.board.in_flight_bytes();
        let mut delivered: Vec<Delivered> = Vec::new();
        let blocks = segment.blocks.iter().map(|(start, end)| {
            let (start, end) = (expand(una, start), expand(una, end));
            (start, end)
        });
        if !self.board.on_ack(ack, blocks, |one| delivered.push(one)) {
            return;
        }
        self.edge = self.edge.max(ack.saturating_add(segment.window));
        if delivered.is_empty() && self.board.una() == una {
            return;
        }
        if !delivered.is_empty() {
            self.on_delivered(now, segment.echo, &delivered, prior_in_flight);
        }
        if self.recovery.is_some_and(|until| self.board.una() >= until) {
            self.recovery = None;
            self.missing = 0;
        }
        self.backoff = 0;
        self.probed = false;
        self.armed = (!self.board.is_empty()).then_some(now);
    }

    fn on_delivered(&mut self, now: Instant, echo: u32, all: &[Delivered], prior: u64) {
        let echoed = Duration::from_micros(u64::from(stamp(now).wrapping_sub(echo)));
        // Half a turn of the clock and more is no echo of ours.
        let sampled = echoed < Duration::from_secs(1 << 11);
        if sampled {
            self.rtt.add(echoed);
        }
        let (mut acked_bytes, mut acked_segments) = (0, 0);
        let mut newest: Option<Transmission> = None;
        let mut unneeded = Vec::new();
        for one in all {
            let repeated = one.before.filter(|_| !one.was_lost);
            // What was sent again but arrived with an older stamp is the first transmission.
            let first =
                repeated.filter(|_| (stamp(one.last.at).wrapping_sub(echo) as i32).is_positive());
            let by = first.map_or(one.last, |before| before.transmission);
            if one.was_lost || first.is_some_and(|before| before.lost) {
                unneeded.push((by, one.wire_bytes()));
            } else if repeated.is_none()
                && self.newest.is_some_and(|(seen, _)| by.number < seen.number)
            {
                self.reordering = true;
            }
            if !one.was_lost {
                acked_bytes += one.wire_bytes();
                acked_segments += 1;
            }
            if newest.is_none_or(|newest| by.number > newest.number) {
                newest = Some(by);
            }
            let sample = (!one.was_lost && first.is_none()).then_some(by);
            self.rate.on_delivered(now, one.wire_bytes(), sample);
        }
        if let Some(newest) = newest
            && self
                .newest
                .is_none_or(|(seen, _)| newest.number > seen.number)
        {
            self.newest = Some((newest, now.saturating_since(newest.at)));
        }
        self.detect(now, prior);
        for (transmission, bytes) in unneeded {
            self.on_unneeded(now, transmission, bytes);
        }
        let Some((rtt, newest)) = self.rtt.view().zip(newest) else {
            return;
        };
        let sample = self.rate.sample(rtt.min);
        if acked_segments == 0 {
            return;
        }
        self.controller.on_ack(&AckEvent::new(
            now,
            acked_bytes,
            acked_segments,
            newest.number,
            newest.at,
            self.next_number,
            sampled,
            rtt,
            prior,
            self.board.in_flight_bytes(),
            self.rate.delivered,
            self.rate.lost,
            sample,
            self.rate.is_app_limited(),
        ));
    }

    fn on_unneeded(&mut self, now: Instant, transmission: Transmission, bytes: u64) {
        self.counters.spurious += 1;
        self.missing = self.missing.saturating_sub(1);
        self.steps = (self.steps + 1).min(MOST_STEPS);
        self.reordering = true;
        self.controller.on_spurious_loss(&SpuriousLossEvent::new(
            now,
            transmission.number,
            transmission.at,
            bytes,
            self.missing == 0,
        ));
    }

    /// How long after a later one a segment may still come.
    fn reordering_window(&self, rtt: RttView) -> Duration {
        let sure = self.recovery.is_some() || self.board.delivered_segments() >= DUPLICATES;
        if !self.reordering && sure {
            return Duration::ZERO;
        }
        (rtt.min / 4 * self.steps).min(rtt.smoothed)
    }

    /// Declares lost what should have come by now.
    fn detect(&mut self, now: Instant, prior: u64) {
        self.lost_at = None;
        let Some(((newest, newest_rtt), rtt)) = self.newest.zip(self.rtt.view()) else {
            return;
        };
        let patience = newest_rtt + self.reordering_window(rtt);
        let mut lost = Vec::new();
        while let Some(oldest) = self.board.oldest()
            && oldest.number < newest.number
        {
            if oldest.at + patience > now {
                self.lost_at = Some(oldest.at + patience);
                break;
            }
            lost.extend(self.board.lose_oldest());
        }
        self.on_lost(now, &lost, prior, false);
    }

    fn on_lost(&mut self, now: Instant, lost: &[LostPacket], prior: u64, timeout: bool) {
        if lost.is_empty() {
            return;
        }
        let bytes = lost.iter().map(|lost| lost.bytes).sum();
        self.rate.lost += bytes;
        self.counters.lost += lost.len() as u64;
        self.missing += lost.len() as u64;
        self.recovery.get_or_insert(self.board.next());
        let assumed = RttView {
            latest: self.rtt.timeout(0),
            adjusted: self.rtt.timeout(0),
            smoothed: self.rtt.timeout(0),
            min: self.rtt.timeout(0),
        };
        self.controller.on_loss(&LossEvent::new(
            now,
            lost,
            bytes,
            self.rate.lost,
            self.rate.delivered,
            timeout,
            prior,
            self.board.in_flight_bytes(),
            self.rtt.view().unwrap_or(assumed),
        ));
    }

    /// The next segment that may leave: its first byte and its data.
    pub(super) fn poll(&mut self, now: Instant, source: &mut dyn Source) -> Option<(u64, Bytes)> {
        self.pace_until = None;
        let forced = self.forced;
        if forced {
            self.forced = false;
            let size = source.available(self.most);
            if size > 0 && (self.fits(size) == size || self.board.is_empty()) {
                let data = source.take(self.most);
                return Some((self.send_new(now, data.clone()), data));
            }
            if !self.board.has_lost()
                && let Some((start, data)) = self.board.last_in_flight()
            {
                self.send_again(now, start, &data);
                return Some((start, data));
            }
        }
        let again = self.board.first_lost();
        let size = match &again {
            Some((_, data)) => data.len(),
            None => {
                let size = source.available(self.most);
                if size == 0 {
                    if self.board.is_empty() {
                        // Nothing is waited for; what a shut window kept back may be gone.
                        self.armed = None;
                    }
                    let room = self.board.in_flight_bytes() < self.window();
                    if room && !self.rate.is_app_limited() {
                        self.rate.set_app_limited(self.board.in_flight_bytes());
                    }
                    return None;
                }
                let fits = self.fits(size);
                if fits == 0 {
                    // The window is shut: asks from time to time whether it still is.
                    if self.board.is_empty() {
                        self.armed.get_or_insert(now);
                    }
                    return None;
                }
                fits
            }
        };
        let bytes = (size + HEADER_BYTES) as u64;
        if !forced && self.board.in_flight_bytes() + bytes > self.window() {
            return None;
        }
        let rate = self.speed();
        let paced = self.next_number >= self.burst;
        if let (true, Some(pacer), Some(rate)) = (paced, &mut self.pacer, rate)
            && let Some(at) = pacer.next_send_time(now, bytes, rate)
            && !forced
        {
            self.pace_until = Some(at);
            return None;
        }
        match again {
            Some((start, data)) => {
                self.send_again(now, start, &data);
                Some((start, data))
            }
            None => {
                let data = source.take(size);
                Some((self.send_new(now, data.clone()), data))
            }
        }
    }

    /// How much of so many new bytes the receiver has room for: all or, with nothing under way, as
    /// much as there is room for; small pieces of a small window help nobody (RFC 9293 s3.8.6.2.1).
    fn fits(&self, size: usize) -> usize {
        let room = self.edge.saturating_sub(self.board.next());
        match usize::try_from(room) {
            Ok(room) if room < size && self.board.is_empty() => room,
            Ok(room) if room < size => 0,
            _ => size,
        }
    }

    /// The pacing rate; none before there is anything to derive it from.
    fn speed(&self) -> Option<Rate> {
        let derived = || {
            let rtt = self.rtt.view()?;
            let slow_start = self
                .controller
                .metrics()
                .slow_start_threshold
                .is_none_or(|threshold| self.controller.window() < threshold);
            Some(fallback_rate(
                self.controller.window(),
                rtt.smoothed,
                slow_start,
            ))
        };
        self.controller.pacing_rate().or_else(derived)
    }

    fn send_new(&mut self, now: Instant, data: Bytes) -> u64 {
        if self.board.is_empty() && self.next_number > 0 {
            self.controller.on_restart_from_idle(now);
        }
        let bytes = wire_bytes(&data);
        let transmission = self.transmission(now, bytes);
        let start = self.board.send(data, transmission);
        self.on_sent(now, transmission, bytes);
        start
    }

    fn send_again(&mut self, now: Instant, start: u64, data: &Bytes) {
        let bytes = wire_bytes(data);
        let transmission = self.transmission(now, bytes);
        self.board.send_again(start, transmission);
        self.on_sent(now, transmission, bytes);
    }

    fn transmission(&mut self, now: Instant, bytes: u64) -> Transmission {
        let number = self.next_number;
        self.next_number += 1;
        let in_flight = self.board.in_flight_bytes();
        Transmission {
            number,
            at: now,
            snapshot: self.rate.snapshot(now, in_flight, bytes),
        }
    }

    fn on_sent(&mut self, now: Instant, transmission: Transmission, bytes: u64) {
        self.counters.segments += 1;
        self.last_sent = now;
        self.armed.get_or_insert(now);
        if let (Some(rate), Some(pacer)) = (self.speed(), &mut self.pacer) {
            pacer.on_sent(now, bytes, rate);
        }
        self.controller.on_sent(&SentEvent::new(
            now,
            transmission.number,
            bytes,
            self.board.in_flight_bytes(),
            transmission.snapshot.app_limited,
        ));
    }

    /// When the tail is probed, if it may be.
    fn probe_at(&self) -> Option<Instant> {
        let rtt = self.rtt.view()?;
        let quiet = !self.probed
            && self.backoff == 0
            && self.recovery.is_none()
            && self.board.delivered_segments() == 0
            && self.board.in_flight_segments() > 0;
        let single = if self.board.in_flight_segments() == 1 {
            WORST_ACK_DELAY
        } else {
            Duration::ZERO
        };
        quiet.then(|| self.last_sent + rtt.smoothed * 2 + single)
    }

    fn times_out_at(&self) -> Option<Instant> {
        Some(self.armed? + self.rtt.timeout(self.backoff))
    }

    /// When [`Self::on_timeout`] is wanted.
    pub(super) fn timeout(&self) -> Option<Instant> {
        let recovery = earliest(self.times_out_at(), self.probe_at());
        earliest(earliest(recovery, self.lost_at), self.pace_until)
    }

    pub(super) fn on_timeout(&mut self, now: Instant) {
        let due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if due(self.pace_until) {
            self.pace_until = None;
        }
        if due(self.lost_at) {
            self.detect(now, self.board.in_flight_bytes());
        }
        if due(self.times_out_at()) {
            self.on_retransmission_timeout(now);
        } else if due(self.probe_at()) {
            self.counters.timeouts += 1;
            self.probed = true;
            self.forced = true;
            self.armed = Some(now);
        }
    }

    fn on_retransmission_timeout(&mut self, now: Instant) {
        self.counters.timeouts += 1;
        self.backoff += 1;
        self.armed = Some(now);
        let prior = self.board.in_flight_bytes();
        let old = self.rtt.view().map_or(Duration::ZERO, |rtt| rtt.smoothed);
        let mut lost = Vec::new();
        while let Some(oldest) = self.board.oldest()
            && (lost.is_empty() || oldest.at + old <= now)
        {
            lost.extend(self.board.lose_oldest());
        }
        if lost.is_empty() && !self.board.has_lost() {
            // A shut window.
            self.forced = true;
        }
        self.on_lost(now, &lost, prior, true);
    }
}

#[cfg(test)]
mod tests;
