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

/// Bounds from before the loss episode.
#[derive(Clone, Copy, Debug)]
pub(super) struct Undo {
    /// CE marks are never spurious: an episode with any stands.
    pub(super) marked: bool,
    pub(super) returns: Returns,
    bw_shortterm: Rate,
    inflight_shortterm: u64,
    inflight_longterm: u64,
}

impl Default for Undo {
    fn default() -> Self {
        Self {
            marked: false,
            returns: Returns::Nowhere,
            bw_shortterm: Rate::ZERO,
            inflight_shortterm: 0,
            inflight_longterm: 0,
        }
    }
}

/// Loss recovery and the loss episodes in it.
///
/// Recovery lasts from a loss until a packet is acknowledged that left after the last loss was
/// seen. An episode is what a spurious-loss report speaks of: the losses of packets that left
/// before its first loss was seen.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Recovery {
    /// When the last loss was seen, while recovery lasts.
    until: Option<Instant>,
    episode: Option<Instant>,
    previous_episode: Option<Instant>,
}

impl Recovery {
    pub(super) const fn is_open(&self) -> bool {
        self.until.is_some()
    }

    /// Whether the loss of a packet that left then begins an episode.
    pub(super) fn begins_episode(&self, sent: Instant) -> bool {
        self.episode.is_none_or(|start| sent > start)
    }

    pub(super) fn on_loss(&mut self, now: Instant, sent: Instant) {
        if self.begins_episode(sent) {
            self.previous_episode = self.episode.replace(now);
        }
        self.until = Some(now);
    }

    /// Returns whether the acknowledgement ended recovery.
    pub(super) fn on_ack(&mut self, sent: Instant) -> bool {
        let over = self.until.is_some_and(|until| sent > until);
        if over {
            self.until = None;
        }
        over
    }

    /// Whether a packet that left then belongs to the newest episode.
    fn covers(&self, sent: Instant) -> bool {
        self.episode.is_some_and(|start| sent <= start)
            && self.previous_episode.is_none_or(|previous| sent > previous)
    }
}

impl Bbr {
    pub(super) fn save_state_upon_loss(&mut self) {
        self.save_window();
        self.undo = Undo {
            marked: false,
            returns: Returns::Nowhere,
            bw_shortterm: self.bw_shortterm,
            inflight_shortterm: self.inflight_shortterm,
            inflight_longterm: self.inflight_longterm,
        };
    }

    pub(super) fn handle_spurious_loss(&mut self, event: &SpuriousLossEvent) {
        let whole = event.episode_spurious && self.recovery.covers(event.sent);
        if !whole || self.undo.marked {
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
