//! The transmitter's pace: when a packet may start being sent, and when its last byte leaves.
//!
//! Owns: service times. Does not own: which packet is served (`transmitter.rs`, `aqm`).

use std::time::Duration;

use tautline_transport::{time::Instant, units::Rate};

use super::{
    config::DirectionConfig,
    outage::{Outage, OutageMode},
};

#[derive(Debug)]
pub(crate) struct Server {
    pace: Pace,
    /// Times at which nothing starts.
    holds: Vec<Outage>,
}

#[derive(Debug)]
enum Pace {
    Infinite,
    Constant {
        rate: u64,
        /// Bytes x 1e9 that the last whole nanosecond of the busy period still has room for.
        remainder: u64,
    },
}

impl Server {
    pub(crate) fn new(config: &DirectionConfig) -> Self {
        let holds = config.outages.iter();
        let holds = holds.filter(|o| o.mode == OutageMode::Hold).copied();
        let pace = match config.rate.map(Rate::bytes_per_second) {
            None | Some(0) => Pace::Infinite,
            Some(rate) => Pace::Constant { rate, remainder: 0 },
        };
        Self {
            pace,
            holds: holds.collect(),
        }
    }

    /// The first moment from `at` on at which a packet can start. `at` never goes back.
    pub(crate) fn next_start(&mut self, at: Instant) -> Instant {
        let mut start = at;
        // Outages that together cover all time would never end: give up after a few rounds.
        for _ in 0..64 {
            match self.holds.iter().find_map(|o| o.covering(start)) {
                Some(end) => start = end,
                None => break,
            }
        }
        start
    }

    /// When the last byte of a packet that starts at `start` leaves. `follows`: it starts at the
    /// very moment the last one ended.
    ///
    /// Whole nanoseconds, rounded up over a busy period as a whole, so that the rate is never
    /// exceeded and never lost to rounding.
    pub(crate) fn serve(&mut self, start: Instant, ip_bytes: u32, follows: bool) -> Instant {
        match &mut self.pace {
            Pace::Infinite => start,
            Pace::Constant { rate, remainder } => {
                if !follows {
                    *remainder = 0;
                }
                let due = u64::from(ip_bytes) * 1_000_000_000;
                if due <= *remainder {
                    *remainder -= due;
                    return start;
                }
                let due = due - *remainder;
                let nanos = due.div_ceil(*rate);
                *remainder = nanos * *rate - due;
                start + Duration::from_nanos(nanos)
            }
        }
    }
}
