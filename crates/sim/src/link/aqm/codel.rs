//! CoDel's control law (RFC 8289).
//!
//! Owns: when the head of a queue is dropped or marked. Does not own: the queue.

use std::time::Duration;

use tautline_transport::time::Instant;

use super::{Fifo, Parameters, Reason, Victims, Waiting};

/// Dropping that ended this many intervals ago no longer speeds up the next.
const MEMORY_INTERVALS: u32 = 16;

/// The state of one CoDel queue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Codel {
    /// When the waiting time will have been above target for an interval.
    first_above: Option<Instant>,
    /// When to drop next, in the dropping state.
    drop_next: Instant,
    /// Drops since the dropping state was entered.
    count: u32,
    /// `count` when it was entered last.
    last_count: u32,
    dropping: bool,
}

impl Codel {
    /// The packet to send, after the drops that are due.
    pub(super) fn pop(
        &mut self,
        parameters: &Parameters,
        now: Instant,
        queue: &mut Fifo,
        victims: &mut Victims,
    ) -> Option<Waiting> {
        let (mut packet, mut may_drop) = self.head(parameters, now, queue);
        if self.dropping {
            if !may_drop {
                self.dropping = false;
            }
            while self.dropping && now >= self.drop_next {
                let Some(head) = packet.take() else { break };
                self.count = self.count.saturating_add(1);
                let marked = give_up(parameters, head, victims);
                if let Some(marked) = marked {
                    self.drop_next = control_law(self.drop_next, parameters.interval, self.count);
                    return Some(marked);
                }
                (packet, may_drop) = self.head(parameters, now, queue);
                if may_drop {
                    self.drop_next = control_law(self.drop_next, parameters.interval, self.count);
                } else {
                    self.dropping = false;
                }
            }
        } else if may_drop {
            let marked = packet.and_then(|head| give_up(parameters, head, victims));
            packet = match marked {
                Some(marked) => Some(marked),
                None => self.head(parameters, now, queue).0,
            };
            self.enter(parameters, now);
        }
        packet
    }

    /// Enters the dropping state, at the former speed when it was left a short time ago.
    fn enter(&mut self, parameters: &Parameters, now: Instant) {
        self.dropping = true;
        let since = now.saturating_since(self.drop_next);
        let delta = self.count.saturating_sub(self.last_count);
        let recent = since < parameters.interval * MEMORY_INTERVALS;
        self.count = if delta > 1 && recent { delta } else { 1 };
        self.drop_next = control_law(now, parameters.interval, self.count);
        self.last_count = self.count;
    }

    /// Takes the head and tells whether it may be dropped.
    fn head(
        &mut self,
        parameters: &Parameters,
        now: Instant,
        queue: &mut Fifo,
    ) -> (Option<Waiting>, bool) {
        let Some(packet) = queue.pop() else {
            self.first_above = None;
            return (None, false);
        };
        let waited = now.saturating_since(packet.since);
        if waited < parameters.target || queue.bytes <= u64::from(parameters.mtu) {
            self.first_above = None;
            return (Some(packet), false);
        }
        match self.first_above {
            Some(at) => (Some(packet), now >= at),
            None => {
                self.first_above = Some(now + parameters.interval);
                (Some(packet), false)
            }
        }
    }
}

/// Marks the packet and returns it, or drops it.
fn give_up(parameters: &Parameters, mut packet: Waiting, victims: &mut Victims) -> Option<Waiting> {
    if parameters.ecn && packet.mark() {
        return Some(packet);
    }
    victims.push((packet, Reason::Managed));
    None
}

/// The interval shrinks with the square root of the number of drops.
fn control_law(from: Instant, interval: Duration, count: u32) -> Instant {
    // Square roots and divisions of doubles are exact to the last bit everywhere.
    let nanos = interval.as_nanos() as f64 / f64::from(count.max(1)).sqrt();
    from + Duration::from_nanos(nanos as u64)
}

#[cfg(test)]
mod tests {
    use super::{super::Ticket, *};
    use crate::Datagram;

    const MS: u64 = 1_000_000;

    fn packet(index: u64, since: Instant) -> Waiting {
        Waiting {
            datagram: Datagram {
                src: "10.0.0.1:1".parse().unwrap(),
                dst: "10.0.0.2:2".parse().unwrap(),
                ecn: tautline_transport::units::Ecn::NotEct,
                payload: Vec::new(),
            },
            ticket: Ticket::plain(index),
            ip_bytes: 1000,
            since,
            marked: false,
        }
    }

    fn parameters(ecn: bool) -> Parameters {
        Parameters {
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
            ecn,
            mtu: 1500,
        }
    }

    /// A queue that always has waited for 20 ms, served every millisecond: by hand, the first
    /// look above target is at 0, dropping starts at 100 ms, and the drops follow after 100,
    /// 100 / sqrt 2, 100 / sqrt 3, ... ms.
    #[test]
    fn drops_follow_the_control_law() {
        let mut control = Codel::default();
        let mut queue = Fifo::default();
        let mut dropped_at = Vec::new();
        let mut index = 0;
        for tick in 0..500u64 {
            let now = Instant::from_nanos((tick + 20) * MS);
            while queue.packets.len() < 10 {
                queue.push(packet(index, now - Duration::from_millis(20)));
                index += 1;
            }
            for waiting in &mut queue.packets {
                waiting.since = now - Duration::from_millis(20);
            }
            let mut victims = Vec::new();
            assert!(
                control
                    .pop(&parameters(false), now, &mut queue, &mut victims)
                    .is_some()
            );
            dropped_at.extend(victims.iter().map(|_| tick));
        }
        // 100, + 100, + 70.71, + 57.74, + 50, + 44.72, + 40.82: rounded up to the next tick.
        assert_eq!(dropped_at, [100, 200, 271, 329, 379, 424, 464]);
    }

    #[test]
    fn a_short_queue_or_a_short_wait_is_left_alone() {
        let mut control = Codel::default();
        let mut victims = Vec::new();
        for tick in 0..1000u64 {
            let now = Instant::from_nanos((tick + 20) * MS);
            let mut queue = Fifo::default();
            // Long waits, but never more than one packet behind.
            queue.push(packet(tick, Instant::ZERO));
            queue.push(packet(tick, Instant::ZERO));
            control.pop(&parameters(false), now, &mut queue, &mut victims);
            // Many packets, but short waits.
            for _ in 0..20 {
                queue.push(packet(tick, now - Duration::from_millis(4)));
            }
            queue.pop();
            control.pop(&parameters(false), now, &mut queue, &mut victims);
        }
        assert!(victims.is_empty());
    }

    #[test]
    fn marks_take_the_place_of_drops() {
        let mut control = Codel::default();
        let mut queue = Fifo::default();
        let (mut victims, mut marked) = (Vec::new(), Vec::new());
        for tick in 0..300u64 {
            let now = Instant::from_nanos((tick + 20) * MS);
            while queue.packets.len() < 10 {
                let mut packet = packet(tick, now);
                packet.datagram.ecn = tautline_transport::units::Ecn::Ect0;
                queue.push(packet);
            }
            for waiting in &mut queue.packets {
                waiting.since = now - Duration::from_millis(20);
            }
            let sent = control.pop(&parameters(true), now, &mut queue, &mut victims);
            if sent.is_some_and(|packet| packet.marked) {
                marked.push(tick);
            }
        }
        assert!(victims.is_empty());
        assert_eq!(marked, [100, 200, 271]);
    }

    #[test]
    fn dropping_resumes_at_the_former_speed() {
        let mut control = Codel {
            dropping: false,
            count: 10,
            last_count: 1,
            drop_next: Instant::from_nanos(500 * MS),
            first_above: None,
        };
        control.enter(&parameters(false), Instant::from_nanos(600 * MS));
        assert_eq!(control.count, 9);
        // 100 / sqrt 9 later.
        assert_eq!(control.drop_next.as_nanos() / 1000, 633_333);
        control.count = 10;
        control.last_count = 1;
        control.enter(&parameters(false), Instant::from_nanos(5_000 * MS));
        assert_eq!(control.count, 1);
    }
}
