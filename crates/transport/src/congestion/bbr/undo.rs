//! Recovery periods, and taking back what a spurious one did. s5.5.11.

use super::{super::SpuriousLossEvent, Bbr, state::State};
use crate::{time::Instant, units::Rate};

/// The state that a loss ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Returns {
    /// None.
    #[default]
    Nowhere,
    ToStartup,
    ToProbeUp,
}

/// Bounds from before the recovery period.
#[derive(Clone, Copy, Debug)]
pub(super) struct Undo {
    pub(super) returns: Returns,
    bw_shortterm: Rate,
    inflight_shortterm: u64,
    inflight_longterm: u64,
}

impl Default for Undo {
    fn default() -> Self {
        Self {
            returns: Returns::Nowhere,
            bw_shortterm: Rate::ZERO,
            inflight_shortterm: 0,
            inflight_longterm: 0,
        }
    }
}

/// From a loss until a packet is acknowledged that left after the last loss was seen.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Recovery {
    /// When the last loss was seen, while recovery lasts.
    until: Option<Instant>,
    /// End of the period before.
    previous: Option<Instant>,
}

impl Recovery {
    pub(super) const fn is_open(&self) -> bool {
        self.until.is_some()
    }

    pub(super) fn on_loss(&mut self, now: Instant) {
        self.until = Some(now);
    }

    /// Returns whether the acknowledgement ended the period.
    pub(super) fn on_ack(&mut self, sent: Instant) -> bool {
        match self.until {
            Some(until) if sent > until => {
                self.previous = self.until.take();
                true
            }
            _ => false,
        }
    }

    /// Whether a packet that left then can belong to the newest period. The one that is over
    /// counts while no other has begun.
    fn covers(&self, sent: Instant) -> bool {
        match (self.until, self.previous) {
            (Some(until), previous) => {
                sent <= until && previous.is_none_or(|previous| sent > previous)
            }
            (None, Some(previous)) => sent <= previous,
            (None, None) => false,
        }
    }
}

impl Bbr {
    pub(super) fn save_state_upon_loss(&mut self) {
        self.save_window();
        self.undo = Undo {
            returns: Returns::Nowhere,
            bw_shortterm: self.bw_shortterm,
            inflight_shortterm: self.inflight_shortterm,
            inflight_longterm: self.inflight_longterm,
        };
    }

    pub(super) fn handle_spurious_loss(&mut self, event: &SpuriousLossEvent) {
        if !event.episode_spurious || !self.recovery.covers(event.sent) {
            return;
        }
        self.restore_window();
        self.signals.loss_in_round = false;
        self.reset_full_bw();
        self.bw_shortterm = self.bw_shortterm.max(self.undo.bw_shortterm);
        self.inflight_shortterm = self.inflight_shortterm.max(self.undo.inflight_shortterm);
        self.inflight_longterm = self.inflight_longterm.max(self.undo.inflight_longterm);
        match std::mem::take(&mut self.undo.returns) {
            Returns::ToStartup if self.state != State::Startup => {
                self.full_pipe.reached = false;
                if self.state != State::ProbeRtt {
                    self.enter_startup();
                }
            }
            Returns::ToProbeUp if !matches!(self.state, State::ProbeUp | State::ProbeRtt) => {
                self.start_probe_refill();
            }
            _ => {}
        }
    }
}
