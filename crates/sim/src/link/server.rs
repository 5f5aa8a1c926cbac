//! The transmitter's pace: when a packet may start being sent, and when its last byte leaves.
//!
//! Owns: service times. Does not own: which packet is served (`transmitter.rs`, `aqm`), the curves
//! themselves (`rate.rs`, `trace.rs`, `coding.rs`, `grants.rs`).

use std::time::Duration;

use tautline_transport::{time::Instant, units::Rate};

use super::{
    config::DirectionConfig,
    grants::Granted,
    handover::Handover,
    outage::{Outage, OutageMode},
    rate::RateCurve,
    spans::Spans,
    trace::Trace,
};
use crate::draw::Draws;

/// Pieces of a curve that one packet may take; slower rates are not valid.
const MAX_PIECES: u32 = 1 << 20;

#[derive(Debug)]
pub(crate) struct Server {
    pace: Pace,
    /// Bytes x 1e9 that the last whole nanosecond of the busy period still has room for.
    remainder: u64,
    /// Times at which nothing starts.
    holds: Vec<Outage>,
    handover: Option<Handover>,
    silences: Option<Spans>,
    granted: Option<Granted>,
}

#[derive(Debug)]
enum Pace {
    Infinite,
    Constant(u64),
    Curve(RateCurve),
    Trace(Trace),
}

impl Server {
    pub(crate) fn new(config: &DirectionConfig, draws: Draws) -> Self {
        let holds = config.outages.iter();
        let holds = holds.filter(|o| o.mode == OutageMode::Hold).copied();
        let rate = config.rate.map_or(0, Rate::bytes_per_second);
        let pace = if let Some(trace) = config.trace.as_ref().and_then(|t| t.start()) {
            Pace::Trace(trace)
        } else if let Some(steps) = config.rate_steps.clone() {
            let before = rate;
            Pace::Curve(RateCurve::Steps { steps, before })
        } else if let Some(wander) = config.rate_wander {
            Pace::Curve(RateCurve::Wander { wander, draws })
        } else if let Some(coding) = config.coding.clone() {
            Pace::Curve(RateCurve::Coding {
                coding,
                rate,
                draws,
            })
        } else if rate > 0 {
            Pace::Constant(rate)
        } else {
            Pace::Infinite
        };
        let silences = config.silences.clone();
        let silences =
            silences.map(|s| Spans::new(s.interval, s.timing, s.duration, draws.part(0)));
        Self {
            pace,
            remainder: 0,
            holds: holds.collect(),
            handover: config.handover.filter(|h| !h.gap.is_zero()),
            silences,
            granted: config.grants.clone().map(|g| Granted::new(g, draws)),
        }
    }

    /// The first moment from `at` on at which a packet can start. `at` never goes back.
    pub(crate) fn next_start(&mut self, at: Instant) -> Instant {
        let mut start = at;
        if let Some(granted) = &mut self.granted {
            start = granted.next_start(start);
        }
        // Outages that together cover all time would never end: give up after a few rounds.
        for _ in 0..64 {
            let before = start;
            if let Some(end) = self.holds.iter().find_map(|o| o.covering(start)) {
                start = end;
            }
            if let Some(end) = self.handover.and_then(|h| h.gap_end(start)) {
                start = end;
            }
            if let Some(end) = self.silences.as_mut().and_then(|s| s.covering(start)) {
                start = end;
            }
            if let Pace::Trace(trace) = &mut self.pace {
                start = trace.next_start(start);
            }
            if start == before {
                break;
            }
        }
        start
    }

    /// When the last byte of a packet leaves that starts at `start`, which is what
    /// [`Server::next_start`] said. `follows`: at the very moment the last one ended.
    ///
    /// Whole nanoseconds, rounded up over a busy period as a whole, so that the rate is never
    /// exceeded and never lost to rounding.
    pub(crate) fn serve(&mut self, start: Instant, ip_bytes: u32, follows: bool) -> Instant {
        if !follows {
            self.remainder = 0;
        }
        let mut finish = match &mut self.pace {
            Pace::Infinite => start,
            Pace::Constant(rate) => {
                let due = u64::from(ip_bytes) * 1_000_000_000;
                if due <= self.remainder {
                    self.remainder -= due;
                    start
                } else {
                    let due = due - self.remainder;
                    let nanos = due.div_ceil(*rate);
                    self.remainder = nanos * *rate - due;
                    start + Duration::from_nanos(nanos)
                }
            }
            Pace::Curve(curve) => {
                let (finish, remainder) = along(curve, start, ip_bytes, self.remainder);
                self.remainder = remainder;
                finish
            }
            Pace::Trace(trace) => trace.serve(ip_bytes),
        };
        if let Some(silences) = &mut self.silences {
            // What a silence cuts in two is finished afterwards, at the rate from before it: a curve is
            // asked once per packet.
            let mut from = start;
            for _ in 0..MAX_PIECES {
                let (begin, end) = silences.from(from);
                if begin >= finish {
                    break;
                }
                finish += end.saturating_since(begin);
                from = end;
            }
        }
        if let Some(granted) = &mut self.granted {
            granted.served(start, finish, ip_bytes);
        }
        finish
    }
}

/// Sends `ip_bytes` from `start` along a curve: the end, and what its last nanosecond leaves over.
fn along(curve: &RateCurve, start: Instant, ip_bytes: u32, remainder: u64) -> (Instant, u64) {
    let mut due = u64::from(ip_bytes) * 1_000_000_000;
    if due <= remainder {
        return (start, remainder - due);
    }
    due -= remainder;
    let mut at = start;
    for _ in 0..MAX_PIECES {
        let (rate, until) = curve.piece(at);
        let room = u128::from(rate) * u128::from(until.as_nanos() - at.as_nanos());
        if u128::from(due) <= room {
            let nanos = due.div_ceil(rate.max(1));
            // The nanosecond after the end of a piece may be a slower one: nothing is left over.
            let left = if u128::from(due) == room {
                0
            } else {
                nanos * rate - due
            };
            return (at + Duration::from_nanos(nanos), left);
        }
        due -= u64::try_from(room).unwrap_or(due);
        at = until;
    }
    (at, 0)
}
