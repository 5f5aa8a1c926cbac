//! One bottleneck in a box: drives a controller and the pacer packet by packet.
//!
//! Packets queue in a drop-tail buffer in front of a link of fixed rate and return as
//! acknowledgements after the propagation delay. Loss detection is the packet threshold of
//! RFC 9002 plus a plain probe timeout; lost data counts as sent again.

use std::{collections::VecDeque, time::Duration};

use super::*;
use crate::{ack::AckRequest, time::earliest};

pub(super) const MTU: u64 = 1_250;

pub(super) fn ms(value: u64) -> Duration {
    Duration::from_millis(value)
}

pub(super) fn mbps(value: f64) -> Rate {
    Rate::from_bits_per_second((value * 1e6) as u64)
}

pub(super) fn context() -> ControllerContext {
    let initial_window = 10 * MTU;
    ControllerContext::new(
        Instant::ZERO,
        MTU,
        initial_window,
        ms(333),
        Rng::from_u64(7),
    )
}

/// An acknowledgement of one packet `rtt` after it left, as if everything happened at once.
pub(super) fn ack(number: u64, next: u64, bytes: u64, rtt: Duration) -> AckEvent {
    let rtt = RttView {
        latest: rtt,
        adjusted: rtt,
        smoothed: rtt,
        min: rtt,
    };
    AckEvent {
        now: Instant::ZERO + rtt.latest,
        acked_bytes: bytes,
        acked_packets: 1,
        largest_acked: number,
        largest_acked_sent: Instant::ZERO,
        next_packet_number: next,
        has_rtt_sample: true,
        rtt,
        prior_in_flight: bytes,
        bytes_in_flight: 0,
        delivered: bytes,
        lost: 0,
        rate: None,
        app_limited: false,
    }
}

/// The path; every field may change while a run is under way.
#[derive(Clone, Debug)]
pub(super) struct Path {
    pub(super) rate: Rate,
    /// Two-way propagation delay.
    pub(super) delay: Duration,
    /// Bytes that fit into the queue.
    pub(super) queue: u64,
    /// Probability that a packet vanishes.
    pub(super) loss: f64,
    /// Acknowledgements arrive only at multiples of this.
    pub(super) aggregate: Duration,
    /// Token bucket that drops what exceeds it: rate and depth in bytes.
    pub(super) policer: Option<(Rate, u64)>,
    /// Packets `from..to` take this much longer.
    pub(super) late: Option<(u64, u64, Duration)>,
    /// Queue length in bytes from which packets are CE-marked.
    pub(super) mark_from: Option<u64>,
}

impl Path {
    /// With a queue of `bdps` bandwidth-delay products.
    pub(super) fn new(mbit: f64, delay_ms: u64, bdps: f64) -> Self {
        let rate = mbps(mbit);
        let delay = ms(delay_ms);
        Self {
            rate,
            delay,
            queue: ((rate.bytes_in(delay) as f64 * bdps) as u64).max(4 * MTU),
            loss: 0.0,
            aggregate: Duration::ZERO,
            policer: None,
            late: None,
            mark_from: None,
        }
    }

    pub(super) fn with_loss(mut self, loss: f64) -> Self {
        self.loss = loss;
        self
    }
}

/// What the application has to send.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source {
    /// Always more.
    Endless,
    /// Bytes at this rate from that time on.
    AtRate(Rate, Instant),
    /// Nothing for now.
    Silent,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    InFlight,
    Acked,
    Lost,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    sent: Instant,
    delivered: u64,
    delivered_time: Instant,
    first_sent: Instant,
    lost: u64,
    tx_in_flight: u64,
    app_limited: bool,
    fate: Fate,
}

/// A transfer over a [`Path`].
pub(super) struct Run<C> {
    pub(super) controller: C,
    pub(super) path: Path,
    pub(super) source: Source,
    pub(super) now: Instant,
    pub(super) delivered: u64,
    pub(super) lost: u64,
    pub(super) in_flight: u64,
    pub(super) rtt: RttView,
    pub(super) spurious: u64,
    /// Largest queue seen since [`Run::mark`], in bytes.
    pub(super) peak_queue: u64,
    pacer: Pacer,
    rng: Rng,
    packets: VecDeque<Sent>,
    /// Number of the first in `packets`.
    base: u64,
    /// (arrival of the ACK, packet, CE), ascending in time.
    acks: VecDeque<(Instant, u64, bool)>,
    link_free: Instant,
    tokens: (f64, Instant),
    delivered_time: Instant,
    first_sent: Instant,
    app_limited_until: u64,
    app_sent: u64,
    oldest_unresolved: u64,
    has_rtt: bool,
    probe_at: Option<Instant>,
    /// Lost packets of the loss episode that have not turned up, and how many there were.
    missing: u64,
    mark: (Instant, u64, u64),
}

impl<C: CongestionController> Run<C> {
    pub(super) fn new(controller: C, path: Path) -> Self {
        let nominal = ms(333);
        Self {
            controller,
            path,
            source: Source::Endless,
            now: Instant::ZERO,
            delivered: 0,
            lost: 0,
            in_flight: 0,
            rtt: RttView {
                latest: nominal,
                adjusted: nominal,
                smoothed: nominal,
                min: nominal,
            },
            spurious: 0,
            peak_queue: 0,
            pacer: Pacer::new(Instant::ZERO, MTU),
            rng: Rng::from_u64(42),
            packets: VecDeque::new(),
            base: 0,
            acks: VecDeque::new(),
            link_free: Instant::ZERO,
            tokens: (f64::MAX, Instant::ZERO),
            delivered_time: Instant::ZERO,
            first_sent: Instant::ZERO,
            app_limited_until: 0,
            app_sent: 0,
            oldest_unresolved: 0,
            has_rtt: false,
            probe_at: None,
            missing: 0,
            mark: (Instant::ZERO, 0, 0),
        }
    }

    pub(super) fn seed(mut self, seed: u64) -> Self {
        self.rng = Rng::from_u64(seed);
        self
    }

    /// From here on the application sends at this rate only.
    pub(super) fn limit_to(&mut self, rate: Rate) {
        self.app_sent = 0;
        self.source = Source::AtRate(rate, self.now);
    }

    /// Measures from here on.
    pub(super) fn mark(&mut self) {
        self.mark = (self.now, self.delivered, self.lost);
        self.peak_queue = 0;
    }

    /// Share of the link used since [`Run::mark`].
    pub(super) fn utilisation(&self) -> f64 {
        let elapsed = self.now.saturating_since(self.mark.0);
        (self.delivered - self.mark.1) as f64 / self.path.rate.bytes_in(elapsed) as f64
    }

    /// Share of bytes lost since [`Run::mark`].
    pub(super) fn loss_share(&self) -> f64 {
        let lost = (self.lost - self.mark.2) as f64;
        lost / (lost + (self.delivered - self.mark.1) as f64).max(1.0)
    }

    pub(super) fn run_for(&mut self, duration: Duration) -> &mut Self {
        let end = self.now + duration;
        self.run_until(end, |_| false);
        self
    }

    /// Runs until `stop` or `end`; returns whether it stopped.
    pub(super) fn run_until(&mut self, end: Instant, mut stop: impl FnMut(&Self) -> bool) -> bool {
        loop {
            if stop(self) {
                return true;
            }
            let send = self.next_send();
            let ack = self.acks.front().map(|ack| ack.0);
            let Some(next) = earliest(earliest(send, ack), self.probe_at).filter(|at| *at <= end)
            else {
                self.now = end;
                return false;
            };
            self.now = self.now.max(next);
            if ack == Some(next) {
                self.receive_ack();
            } else if send == Some(next) {
                self.send_packet();
            } else {
                self.probe_timeout();
            }
        }
    }

    fn rate(&self) -> Rate {
        let slow_start = self.controller.metrics().state.contains("slow_start");
        match self.controller.pacing_rate() {
            Some(rate) => rate,
            None if !self.has_rtt => Rate::MAX,
            None => fallback_rate(self.controller.window(), self.rtt.smoothed, slow_start),
        }
    }

    /// When the next packet may leave; also notices when the application has run dry.
    fn next_send(&mut self) -> Option<Instant> {
        if self.in_flight + MTU > self.controller.window() {
            return None;
        }
        let rate = self.rate();
        let paced = self
            .pacer
            .next_send_time(self.now, MTU, rate)
            .unwrap_or(self.now);
        let data = match self.source {
            Source::Endless => Some(self.now),
            Source::Silent => None,
            Source::AtRate(rate, from) => {
                Some((from + rate.time_for(self.app_sent + MTU)).max(self.now))
            }
        };
        if paced <= self.now && data.is_none_or(|at| at > self.now) {
            self.app_limited_until = (self.delivered + self.in_flight).max(1);
        }
        data.map(|at| at.max(paced))
    }

    fn send_packet(&mut self) {
        let number = self.next_number();
        let app_limited = self.app_limited_until != 0;
        if self.in_flight == 0 {
            if number > 0 && app_limited {
                self.controller.on_restart_from_idle(self.now);
            }
            self.first_sent = self.now;
            self.delivered_time = self.now;
        }
        self.app_sent += MTU;
        self.in_flight += MTU;
        self.packets.push_back(Sent {
            sent: self.now,
            delivered: self.delivered,
            delivered_time: self.delivered_time,
            first_sent: self.first_sent,
            lost: self.lost,
            tx_in_flight: self.in_flight,
            app_limited,
            fate: Fate::InFlight,
        });
        self.pacer.on_sent(self.now, MTU, self.rate());
        self.controller.on_sent(&SentEvent::new(
            self.now,
            number,
            MTU,
            self.in_flight,
            app_limited,
        ));
        self.arm_probe();
        self.transit(number);
    }

    /// Carries the packet over the path and its acknowledgement back.
    fn transit(&mut self, number: u64) {
        let lost = self.rng.chance(self.path.loss) || !self.take_tokens();
        let backlog = self
            .path
            .rate
            .bytes_in(self.link_free.saturating_since(self.now));
        if lost || backlog + MTU > self.path.queue + MTU {
            return;
        }
        self.peak_queue = self.peak_queue.max(backlog);
        let marked = self.path.mark_from.is_some_and(|from| backlog >= from);
        self.link_free = self.link_free.max(self.now) + self.path.rate.time_for(MTU);
        let mut arrival = self.link_free + self.path.delay;
        if let Some((from, to, extra)) = self.path.late
            && (from..to).contains(&number)
        {
            arrival += extra;
        }
        let step = self.path.aggregate.as_nanos() as u64;
        if step > 0 {
            arrival = Instant::from_nanos(arrival.as_nanos().div_ceil(step) * step);
        }
        let at = self.acks.partition_point(|ack| ack.0 <= arrival);
        self.acks.insert(at, (arrival, number, marked));
    }

    fn take_tokens(&mut self) -> bool {
        let Some((rate, depth)) = self.path.policer else {
            return true;
        };
        let (tokens, at) = self.tokens;
        let earned = rate.bytes_in(self.now.saturating_since(at)) as f64;
        let tokens = (tokens + earned).min(depth as f64);
        let pass = tokens >= MTU as f64;
        self.tokens = (if pass { tokens - MTU as f64 } else { tokens }, self.now);
        pass
    }

    /// The number the next packet will bear.
    pub(super) fn next_number(&self) -> u64 {
        self.base + self.packets.len() as u64
    }

    fn get(&self, number: u64) -> Option<&Sent> {
        self.packets.get(number.checked_sub(self.base)? as usize)
    }

    fn set_fate(&mut self, number: u64, fate: Fate) {
        if let Some(index) = number.checked_sub(self.base)
            && let Some(packet) = self.packets.get_mut(index as usize)
        {
            packet.fate = fate;
        }
    }

    /// Takes all acknowledgements that arrive at this instant as one ACK frame.
    fn receive_ack(&mut self) {
        let prior_in_flight = self.in_flight;
        let (mut acked, mut newest, mut marks) = (0u64, None::<u64>, 0);
        while let Some((_, number, marked)) = self.acks.pop_front_if(|ack| ack.0 <= self.now) {
            let Some(packet) = self.get(number).copied() else {
                continue;
            };
            match packet.fate {
                Fate::InFlight => {
                    self.in_flight -= MTU;
                    acked += 1;
                    newest = newest.max(Some(number));
                    marks += u64::from(marked);
                }
                Fate::Lost => self.late_ack(number, &packet),
                Fate::Acked => {}
            }
            self.set_fate(number, Fate::Acked);
        }
        let Some(newest) = newest else { return };
        let Some(packet) = self.get(newest).copied() else {
            return;
        };
        self.delivered += acked * MTU;
        self.delivered_time = self.now;
        self.first_sent = packet.sent;
        self.sample_rtt(self.now.saturating_since(packet.sent));
        self.arm_probe();
        self.detect_losses(newest, prior_in_flight, false);
        if marks > 0 {
            let event = EcnEvent::new(self.now, marks, newest, packet.sent, self.in_flight);
            self.controller.on_ecn(&event);
        }
        self.report_ack(&packet, newest, acked, prior_in_flight);
        self.forget();
    }

    fn report_ack(&mut self, packet: &Sent, newest: u64, acked: u64, prior_in_flight: u64) {
        if self.delivered > self.app_limited_until {
            self.app_limited_until = 0;
        }
        let sending = packet.sent.saturating_since(packet.first_sent);
        let interval = sending.max(self.now.saturating_since(packet.delivered_time));
        let delivered = self.delivered - packet.delivered;
        let rate = (interval >= self.rtt.min).then_some(RateSample {
            delivered,
            interval,
            delivery_rate: Rate::from_bytes_over(delivered, interval),
            send_rate: Rate::from_bytes_over(delivered, sending),
            app_limited: packet.app_limited,
            prior_delivered: packet.delivered,
            lost: self.lost - packet.lost,
            tx_in_flight: packet.tx_in_flight,
        });
        let event = AckEvent {
            now: self.now,
            acked_bytes: acked * MTU,
            acked_packets: acked,
            largest_acked: newest,
            largest_acked_sent: packet.sent,
            next_packet_number: self.next_number(),
            has_rtt_sample: true,
            rtt: self.rtt,
            prior_in_flight,
            bytes_in_flight: self.in_flight,
            delivered: self.delivered,
            lost: self.lost,
            rate,
            app_limited: self.app_limited_until != 0,
        };
        self.controller.on_ack(&event);
    }

    fn sample_rtt(&mut self, latest: Duration) {
        self.rtt.latest = latest;
        self.rtt.adjusted = latest;
        self.rtt.min = if self.has_rtt {
            self.rtt.min.min(latest)
        } else {
            latest
        };
        self.rtt.smoothed = if self.has_rtt {
            (self.rtt.smoothed * 7 + latest) / 8
        } else {
            latest
        };
        self.has_rtt = true;
    }

    /// Declares packets lost that were overtaken by three others.
    fn detect_losses(&mut self, newest: u64, prior_in_flight: u64, persistent: bool) {
        let end = if persistent {
            newest
        } else {
            newest.saturating_sub(2)
        };
        let mut lost = Vec::new();
        for number in self.oldest_unresolved.max(self.base)..end {
            let Some(packet) = self.get(number).copied() else {
                continue;
            };
            if packet.fate != Fate::InFlight {
                continue;
            }
            self.set_fate(number, Fate::Lost);
            self.in_flight -= MTU;
            lost.push(LostPacket::new(
                number,
                MTU,
                packet.sent,
                packet.tx_in_flight,
                packet.delivered,
                packet.lost,
                packet.app_limited,
            ));
        }
        self.oldest_unresolved = self.oldest_unresolved.max(end);
        if lost.is_empty() {
            return;
        }
        let bytes = lost.len() as u64 * MTU;
        self.missing += lost.len() as u64;
        self.lost += bytes;
        self.controller.on_loss(&LossEvent::new(
            self.now,
            &lost,
            bytes,
            self.lost,
            self.delivered,
            persistent,
            prior_in_flight,
            self.in_flight,
            self.rtt,
        ));
    }

    fn late_ack(&mut self, number: u64, packet: &Sent) {
        self.spurious += 1;
        self.missing -= 1;
        let whole = self.missing == 0;
        let event = SpuriousLossEvent::new(self.now, number, packet.sent, MTU, whole);
        self.controller.on_spurious_loss(&event);
    }

    fn arm_probe(&mut self) {
        let pto = (self.rtt.smoothed * 3).max(ms(10)) + self.path.aggregate;
        self.probe_at = (self.in_flight > 0).then(|| self.now + pto);
    }

    /// Nothing came back for long: everything outstanding is lost for good.
    fn probe_timeout(&mut self) {
        let prior = self.in_flight;
        self.detect_losses(self.next_number(), prior, true);
        self.arm_probe();
        if self.in_flight + MTU > self.controller.window() {
            self.send_packet();
        }
    }

    /// Drops packets that nothing refers to any more.
    fn forget(&mut self) {
        while self.packets.len() > 200_000 {
            self.packets.pop_front();
            self.base += 1;
        }
        while self.path.late.is_none()
            && self.base + 1_000 < self.oldest_unresolved
            && self.packets.pop_front().is_some()
        {
            self.base += 1;
        }
    }
}

#[cfg(test)]
impl CongestionController for Box<dyn CongestionController> {
    fn name(&self) -> &'static str {
        (**self).name()
    }
    fn on_sent(&mut self, event: &SentEvent) {
        (**self).on_sent(event);
    }
    fn on_ack(&mut self, event: &AckEvent) {
        (**self).on_ack(event);
    }
    fn on_loss(&mut self, event: &LossEvent<'_>) {
        (**self).on_loss(event);
    }
    fn coupling(&self) -> Option<Coupling<'_>> {
        (**self).coupling()
    }
    fn on_siblings(&mut self, own: &SiblingView, siblings: &[SiblingView]) {
        (**self).on_siblings(own, siblings);
    }
    fn on_ecn(&mut self, event: &EcnEvent) {
        (**self).on_ecn(event);
    }
    fn on_spurious_loss(&mut self, event: &SpuriousLossEvent) {
        (**self).on_spurious_loss(event);
    }
    fn on_mtu(&mut self, mtu: u64) {
        (**self).on_mtu(mtu);
    }
    fn on_initial_window(&mut self, bytes: u64) {
        (**self).on_initial_window(bytes);
    }
    fn on_path_full(&mut self, bytes_in_flight: u64) {
        (**self).on_path_full(bytes_in_flight);
    }
    fn on_ack_request(&mut self, request: &AckRequest) {
        (**self).on_ack_request(request);
    }
    fn on_return_path(&mut self, now: Instant, before: Duration, after: Duration) {
        (**self).on_return_path(now, before, after);
    }
    fn on_restart_from_idle(&mut self, now: Instant) {
        (**self).on_restart_from_idle(now);
    }
    fn window(&self) -> u64 {
        (**self).window()
    }
    fn pacing_rate(&self) -> Option<Rate> {
        (**self).pacing_rate()
    }
    fn send_quantum(&self) -> Option<u64> {
        (**self).send_quantum()
    }
    fn metrics(&self) -> ControllerMetrics {
        (**self).metrics()
    }
}

/// A lost packet that left then.
pub(super) fn lost(number: u64, sent: Instant) -> LostPacket {
    LostPacket::new(number, MTU, sent, 10 * MTU, 0, 0, false)
}

/// The loss of these packets.
pub(super) fn loss(now: Instant, packets: &[LostPacket], persistent: bool) -> LossEvent<'_> {
    let bytes = packets.len() as u64 * MTU;
    let rtt = RttView {
        latest: ms(100),
        adjusted: ms(100),
        smoothed: ms(100),
        min: ms(100),
    };
    LossEvent::new(
        now,
        packets,
        bytes,
        bytes,
        0,
        persistent,
        10 * MTU,
        10 * MTU - bytes,
        rtt,
    )
}
