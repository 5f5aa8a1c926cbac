//! A player's clock and buffer: what was shown when, and where it stood still.
//!
//! Owns: [`Playback`]. Does not own: what is loaded next (`rule.rs`), by whom (`mod.rs`).

use std::time::Duration;

use tautline_transport::time::Instant;

/// A time at which the buffer was empty.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Stall {
    /// Media time at which the player stood.
    pub(super) position: Duration,
    /// How long.
    pub(super) length: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before the first picture.
    Starting,
    Playing,
    Stalled,
    Ended,
}

/// A player.
#[derive(Clone, Debug)]
pub(super) struct Playback {
    state: State,
    /// Media time in all.
    total: Duration,
    /// Media time that must be loaded before pictures move.
    threshold: Duration,
    /// Up to when everything below is accounted for.
    at: Instant,
    /// Media time that was loaded, from the beginning without a gap.
    loaded: Duration,
    /// Media time that was shown.
    position: Duration,
    started: Option<Instant>,
    stalls: Vec<Stall>,
}

impl Playback {
    pub(super) fn new(total: Duration, threshold: Duration, now: Instant) -> Self {
        Self {
            state: State::Starting,
            total,
            threshold,
            at: now,
            loaded: Duration::ZERO,
            position: Duration::ZERO,
            started: None,
            stalls: Vec::new(),
        }
    }

    /// Lets time pass.
    pub(super) fn advance(&mut self, now: Instant) {
        let elapsed = now.saturating_since(self.at);
        match self.state {
            State::Starting | State::Ended => {}
            State::Playing if elapsed <= self.buffered() => self.position += elapsed,
            State::Playing => {
                let length = elapsed - self.buffered();
                self.position = self.loaded;
                if self.position < self.total {
                    self.state = State::Stalled;
                    self.stalls.push(Stall {
                        position: self.position,
                        length,
                    });
                }
            }
            State::Stalled => {
                if let Some(stall) = self.stalls.last_mut() {
                    stall.length += elapsed;
                }
            }
        }
        if self.position >= self.total {
            self.state = State::Ended;
        }
        self.at = self.at.max(now);
    }

    /// More media is there.
    pub(super) fn load(&mut self, now: Instant, media: Duration) {
        self.advance(now);
        self.loaded += media;
        let waits = matches!(self.state, State::Starting | State::Stalled);
        if waits && (self.buffered() >= self.threshold || self.loaded >= self.total) {
            self.state = State::Playing;
            self.started.get_or_insert(now);
        }
    }

    /// Media time that was loaded and not shown.
    pub(super) fn buffered(&self) -> Duration {
        self.loaded.saturating_sub(self.position)
    }

    /// Media time that was shown.
    pub(super) fn position(&self) -> Duration {
        self.position
    }

    /// Up to when time has passed.
    pub(super) fn at(&self) -> Instant {
        self.at
    }

    pub(super) fn is_over(&self) -> bool {
        self.state == State::Ended
    }

    /// When the first picture moved.
    pub(super) fn started(&self) -> Option<Instant> {
        self.started
    }

    pub(super) fn stalls(&self) -> &[Stall] {
        &self.stalls
    }

    /// When the buffer will have come down to `level`, if the pictures move and it is above.
    pub(super) fn falls_to(&self, level: Duration) -> Option<Instant> {
        let above = self.buffered().checked_sub(level)?;
        (self.state == State::Playing).then(|| self.at + above)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + s(seconds)
    }

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn pictures_move_stall_and_end_at_exact_times() {
        let mut player = Playback::new(s(12), s(4), at(0));
        player.load(at(2), s(4));
        assert_eq!(player.started(), Some(at(2)));
        player.advance(at(5));
        assert_eq!((player.position(), player.buffered()), (s(3), s(1)));
        assert_eq!(player.falls_to(s(0)), Some(at(6)));
        // Empty at 6 s; the next segment comes at 9 s.
        player.load(at(9), s(4));
        let stall = |position, length| Stall { position, length };
        assert_eq!(player.stalls(), [stall(s(4), s(3))]);
        // Empty at 13 s, and it comes that very moment: no stall.
        player.load(at(13), s(2));
        // Two seconds are less than the threshold, but no picture stands still for that.
        player.advance(at(16));
        assert_eq!(player.stalls(), [stall(s(4), s(3)), stall(s(10), s(1))]);
        assert_eq!(player.falls_to(s(0)), None);
        // The last segment is all there is.
        player.load(at(20), s(2));
        assert_eq!(player.stalls()[1], stall(s(10), s(5)));
        player.advance(at(22));
        assert!(player.is_over());
        player.advance(at(30));
        assert_eq!(player.position(), s(12));
        assert_eq!(player.stalls().len(), 2);
    }
}
