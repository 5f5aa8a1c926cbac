//! When something must happen without an ACK. RFC 9002 s6.2, A.8, A.9.

use std::{ops::Range, time::Duration};

use super::{LossHandler, PeerAcks, Recovery, Spaces, TimerAction, TimerContext};
use crate::{
    packet::Token,
    space::{PacketNumberSpace, SentPacket, SpaceKind},
    time::Instant,
    units::{PacketNumber, Rate},
};

/// Probes per timeout. RFC 9002 s6.2.4.
const PROBES: u8 = 2;
/// An acknowledgement is overdue after a round trip and so much of another. RFC 9002 s6.1.2.
const OVERDUE: u32 = 8;
/// Doubling stops here; a connection that has nothing else times out long before.
const MAX_BACKOFF_SHIFT: u32 = 20;

/// When the acknowledgement of a packet is overdue, so that the packet is probably lost, though nothing that left later
/// shows it: after what RFC 9002 s6.1.2 would wait for, or what round trips differ by beyond the queue that was in
/// flight when it left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Overdue {
    usual: Duration,
    rate: Rate,
    deviation: Duration,
    least: Duration,
    acks: PeerAcks,
}

impl Overdue {
    /// When that of `packet` is, if it is not held back.
    pub(crate) fn at(&self, packet: &SentPacket) -> Instant {
        packet.sent() + self.after(packet.snapshot.tx_in_flight)
    }

    /// How long after its packet left with so many bytes in flight.
    fn after(&self, in_flight: u64) -> Duration {
        let usual = self.usual.max(self.rate.time_for(in_flight));
        let late = usual.saturating_add((usual / OVERDUE).max(self.deviation));
        late.max(self.least)
    }

    /// When anything in `space` is: of fewer packets than the peer acknowledges together the acknowledgement may be held back.
    pub(crate) fn begins(&self, space: &PacketNumberSpace) -> Option<Instant> {
        let (oldest, last) = space.sent.oldest_to_repeat(self.acks.together, may_leave)?;
        let first = self.at(oldest);
        let alone = first + self.acks.max_delay;
        Some(last.map_or(alone, |last| self.at(last).max(first).min(alone)))
    }
}

impl Recovery {
    /// When to call [`Self::on_timeout`]: the earliest time a packet counts as lost, else the
    /// probe timeout; `None` when nothing is waited for. RFC 9002 A.8.
    pub fn timer(&self, spaces: &Spaces<'_>, context: &TimerContext) -> Option<Instant> {
        if let Some((at, _)) = earliest_loss(spaces) {
            return Some(at);
        }
        // Nothing could be sent; the next datagram from the client sets the timer again.
        if context.amplification_blocked {
            return None;
        }
        self.probe_timeout(spaces, context).map(|(at, _)| at)
    }

    /// The timer fired.
    pub fn on_timeout(
        &mut self,
        now: Instant,
        spaces: &mut Spaces<'_>,
        context: &TimerContext,
        handler: &mut impl LossHandler,
    ) -> TimerAction {
        if let Some((at, kind)) = earliest_loss(spaces) {
            if at > now {
                return TimerAction::Nothing;
            }
            if let Some(space) = spaces.get_mut(kind) {
                self.report_orphans(space, kind, handler);
                self.detect_losses(space, kind, now, context.max_ack_delay, handler);
                self.prune(space, now, context.max_ack_delay);
            }
            return TimerAction::LossDetected;
        }
        if context.amplification_blocked {
            return TimerAction::Nothing;
        }
        let Some((_, kind)) = self
            .probe_timeout(spaces, context)
            .filter(|&(at, _)| at <= now)
        else {
            return TimerAction::Nothing;
        };
        self.pto_count = self.pto_count.saturating_add(1);
        self.stats.ptos += 1;
        self.last_pto = Some(now);
        self.timer_anchor = now;
        let mut packets = 1;
        if let Some(space) = spaces.get_mut(kind) {
            self.report_orphans(space, kind, handler);
            self.prune(space, now, context.max_ack_delay);
            if space.has_ack_eliciting_in_flight() {
                packets = PROBES;
            }
        }
        TimerAction::Probe { kind, packets }
    }

    /// Reports what the oldest `packets` ack-eliciting packets carried as lost, so that probes
    /// repeat it; the packets stay in flight. RFC 9002 s6.2.4.
    ///
    /// An unreliable datagram is not repeated, nor is an ACK or a repair symbol.
    pub fn resend_oldest(
        &self,
        space: &mut PacketNumberSpace,
        packets: usize,
        handler: &mut impl LossHandler,
    ) {
        let oldest = space
            .sent
            .outstanding()
            .filter(|(_, packet)| packet.ack_eliciting);
        for (_, packet) in oldest.take(packets) {
            report_repeatable(space.sent.tokens_of(packet), handler);
        }
    }

    /// Reports what packets of `run` that are under way carried as lost, so that other paths repeat it, each
    /// packet once; they stay in flight. `bytes` of packets at least, if there are as many. Returns where to go on.
    pub fn hand_over(
        &self,
        space: &mut PacketNumberSpace,
        run: Range<PacketNumber>,
        bytes: u64,
        handler: &mut impl LossHandler,
    ) -> PacketNumber {
        let mut handed: u64 = 0;
        for (number, packet, tokens) in space.sent.outstanding_mut(run.start) {
            if number >= run.end {
                break;
            }
            if !packet.is_repeated() && packet.ack_eliciting {
                packet.set_repeated();
                report_repeatable(tokens, handler);
                handed = handed.saturating_add(packet.bytes.into());
                if handed >= bytes {
                    return (number + 1).min(run.end);
                }
            }
        }
        run.end
    }

    /// When packets are overdue, so that another path may carry them, too; or, `here`, so late that they may be sent again on this
    /// one: not before a probe timeout without what the peer may hold an acknowledgement back.
    pub(crate) fn overdue(&self, here: bool, acks: PeerAcks) -> Overdue {
        let usual = self.rtt.smoothed().max(self.rtt.latest());
        Overdue {
            usual: usual.max(self.longest_without_queue()),
            rate: self.rate_passed(),
            deviation: self.rtt.variance().saturating_mul(2),
            least: if here {
                self.pto_base()
            } else {
                Duration::ZERO
            },
            acks,
        }
    }

    /// When the newest acknowledged packet of a space left.
    pub fn newest_acked_sent(&self, kind: SpaceKind) -> Option<Instant> {
        self.newest_acked_sent.get(kind as usize).copied().flatten()
    }

    /// As [`Self::hand_over`], of up to `bytes` of the oldest packets that are no copies themselves. `early`
    /// is true of those that left too early; `of` picks among the others, and is told of the source symbol
    /// that a packet has. Returns the bytes of the packets picked.
    pub fn repeat(
        &self,
        space: &mut PacketNumberSpace,
        bytes: u64,
        early: impl FnMut(&SentPacket) -> bool,
        mut of: impl FnMut(&SentPacket, Option<u64>) -> bool,
        handler: &mut impl LossHandler,
    ) -> u64 {
        let mut picked: u64 = 0;
        // Asked again and again while nothing new waits, it must not look at the same packets each time.
        let first = space.sent.first_to_repeat(early);
        let (mut done, mut all_done) = (first, true);
        for (number, packet, tokens) in space.sent.outstanding_mut(first) {
            if !packet.is_repeated() && packet.ack_eliciting {
                // No more than fits, but for a packet that does not fit alone.
                let with = picked.saturating_add(packet.bytes.into());
                if picked >= bytes || picked > 0 && with > bytes {
                    break;
                }
                // Frames about a path go there again, not elsewhere: nothing else would end that.
                if !packet.is_copy() && tokens.clone().any(may_leave) {
                    if tokens.clone().any(|token| handler.keeps(token))
                        || !of(packet, symbol_of(tokens.clone()))
                    {
                        all_done = false;
                        continue;
                    }
                    packet.set_repeated();
                    picked = with;
                    report_repeatable(tokens.filter(|token| may_leave(*token)), handler);
                }
            }
            if all_done {
                done = number + 1;
            }
        }
        space.sent.note_repeated(first..done);
        picked
    }

    /// A silent path is asked again before its probe timeout: the last probe counts as one, if it has had its time.
    pub(crate) fn on_early_probe(&mut self, now: Instant, last_probe: Option<Instant>) {
        if last_probe.is_some_and(|last| now >= last + self.pto_base()) {
            self.pto_count = self.pto_count.saturating_add(1);
        }
    }

    /// The probe timeout and its space. RFC 9002 A.8 GetPtoTimeAndSpace.
    ///
    /// Where data may leave for another path, the packet that waits longest counts, not the newest: each
    /// one sent would put the timeout off, and a path that stands still would keep what it has for as long as it is
    /// given more. An acknowledgement of anything puts it off as well: a queue that grows is no standstill.
    fn probe_timeout(
        &self,
        spaces: &Spaces<'_>,
        context: &TimerContext,
    ) -> Option<(Instant, SpaceKind)> {
        let backoff = 1_u32 << self.pto_count.min(MAX_BACKOFF_SHIFT);
        let base = self.pto_base();
        let armed = spaces
            .present()
            // Another path may have acknowledged all that was in flight, which does not show that this one is alive.
            .filter(|(kind, space)| {
                let silent = *kind == SpaceKind::Data && self.pto_count > 0;
                space.has_ack_eliciting_in_flight() || silent
            })
            // Before the handshake is confirmed the peer may lack the keys to acknowledge.
            .filter(|&(kind, _)| kind != SpaceKind::Data || context.handshake_confirmed)
            .filter_map(|(kind, space)| {
                let max_ack_delay = match kind {
                    SpaceKind::Data => context.max_ack_delay,
                    _ => Duration::ZERO,
                };
                let usual = base + max_ack_delay;
                let doubled = usual.saturating_mul(backoff);
                let every = context.probe_every.filter(|_| kind == SpaceKind::Data);
                let timeout = every.map_or(doubled, |every| doubled.min(every.max(usual)));
                let newest = space.last_eliciting_sent?;
                let overdue = kind == SpaceKind::Data && context.may_leave && self.pto_count == 0;
                let oldest = if overdue {
                    space.oldest_eliciting_sent()
                } else {
                    None
                };
                let since = oldest.map_or(newest, |oldest| newest.min(oldest.max(self.acked_at)));
                let mut at = since + timeout;
                // A probe that could not leave is not due again at once: what no longer doubles would never pass `now`.
                if let Some(fired) = self
                    .last_pto
                    .filter(|_| self.pto_count > 0 && every.is_some())
                {
                    at = at.max(fired + timeout);
                }
                // Who is to tell at once holds nothing back; then that covers queues no longer. Probes are as far apart
                // as ever: paths that stand still would be probed more often.
                let due_at_once = kind == SpaceKind::Data
                    && self.pto_count == 0
                    && (space.last_asks || space.sent.has_outstanding(context.together));
                if !due_at_once {
                    return Some((at, kind));
                }
                let rule = self.overdue(true, PeerAcks::AT_ONCE);
                let late = rule.after(space.last_in_flight);
                let late = late.saturating_add(context.min_ack_delay);
                Some((at.min(newest + late), kind))
            })
            .min_by_key(|&(at, _)| at);
        if armed.is_some() || context.peer_completed_address_validation {
            return armed;
        }
        // The server may wait for us to lift its amplification limit. RFC 9002 s6.2.2.1.
        let kind = if context.has_handshake_keys {
            SpaceKind::Handshake
        } else {
            SpaceKind::Initial
        };
        Some((self.timer_anchor + base.saturating_mul(backoff), kind))
    }
}

pub(super) fn report_repeatable(
    tokens: impl Iterator<Item = Token>,
    handler: &mut impl LossHandler,
) {
    for token in tokens.filter(|token| is_repeatable(*token)) {
        handler.token_lost(SpaceKind::Data, token);
    }
}

/// The source symbol that a packet has, by its tokens.
fn symbol_of(mut tokens: impl Iterator<Item = Token>) -> Option<u64> {
    tokens.find_map(|token| match token {
        Token::Symbol { id } => Some(id),
        _ => None,
    })
}

/// Whether probes, and other paths, repeat what a token stands for.
pub(super) fn is_repeatable(token: Token) -> bool {
    !matches!(
        token,
        Token::Datagram { .. } | Token::Ack { .. } | Token::Symbol { .. } | Token::Repair { .. }
    )
}

/// Whether what a token stands for goes on any path, so that a copy elsewhere takes its place.
pub(super) fn may_leave(token: Token) -> bool {
    let of_a_path = matches!(
        token,
        Token::NewConnectionId { .. }
            | Token::RetireConnectionId { .. }
            | Token::AckFrequency { .. }
            | Token::PathStatus { .. }
            | Token::PathCidsBlocked { .. }
    );
    is_repeatable(token) && !of_a_path
}

/// The earliest time a packet of any space counts as lost.
fn earliest_loss(spaces: &Spaces<'_>) -> Option<(Instant, SpaceKind)> {
    spaces
        .present()
        .filter_map(|(kind, space)| Some((space.loss_time?, kind)))
        .min_by_key(|&(at, _)| at)
}
