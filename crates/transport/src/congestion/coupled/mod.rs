//! Controllers of several paths that together take no more than one connection may.
//!
//! Purpose: `lia`, `olia` and `balia`, which grow each path's window by what all paths carry.
//! Owns: the increase in congestion avoidance and, for `balia`, the reduction; what a controller shows
//! to its siblings; the evidence that two paths share no bottleneck.
//! Does not own: slow start, recovery periods, spurious losses (`newreno.rs`, whose rules they keep);
//! who is whose sibling (`connection/coupling.rs`).
//! Spec: RFC 6356 (LIA); Khalili et al., "MPTCP is not Pareto-optimal", CoNEXT 2012 (OLIA); Peng et
//! al., "Multipath TCP: Analysis, Design, and Implementation", 2016 (BALIA); RFC 8382.
//!
//! All three rules are one number: how many times as fast as NewReno's a window grows. It is 1 for a
//! path by itself, and stays what it is between two looks at the siblings. A path that shares its
//! bottleneck with none of the others counts as by itself; until there is evidence, all of them share.

mod rules;
mod shared_bottleneck;

use super::{
    AckEvent, CongestionController, ControllerContext, ControllerFactory, ControllerMetrics,
    EcnEvent, LossEvent, SentEvent, SpuriousLossEvent, newreno::NewReno,
};
use std::time::Duration;

use crate::time::Instant;

pub use shared_bottleneck::{DelayRecord, Kinship, SharedBottlenecks};

use rules::{Response, Rule};

/// What controllers are told of a path of the connection.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct SiblingView {
    /// Congestion window in bytes. In a recovery period it is the slow-start threshold.
    pub window: u64,
    /// Smoothed round-trip time.
    pub rtt: Duration,
    /// Bytes in flight.
    pub in_flight: u64,
    /// Whether the application leaves the window unused.
    pub app_limited: bool,
    /// Bytes of a full datagram.
    pub datagram: u64,
    /// Whether the path is in slow start.
    pub slow_start: bool,
    /// Bytes acknowledged since the last loss or between the last two, whichever are more.
    pub between_losses: u64,
    /// Whether it may share a bottleneck with the path of the controller that is told.
    pub shared: bool,
}

impl SiblingView {
    /// A path whose window is full and whose bottleneck may be shared.
    pub fn new(window: u64, rtt: Duration, datagram: u64) -> Self {
        Self {
            window,
            rtt,
            in_flight: window,
            app_limited: false,
            datagram,
            slow_start: false,
            between_losses: 0,
            shared: true,
        }
    }
}

/// What a coupled controller shows of itself.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Coupling<'a> {
    /// Bytes acknowledged since the last loss or between the last two, whichever are more.
    pub between_losses: u64,
    /// Delays and losses of late.
    pub delays: &'a DelayRecord,
}

macro_rules! factories {
    ($($(#[$doc:meta])* $factory:ident => $rule:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $factory {
            _private: (),
        }

        impl ControllerFactory for $factory {
            fn name(&self) -> &'static str {
                $rule.name()
            }

            fn build(&self, context: ControllerContext) -> Box<dyn CongestionController> {
                Box::new(Coupled::new($rule, &context))
            }
        }
    )*};
}

factories! {
    /// Builds controllers with linked increases, RFC 6356.
    LiaFactory => Rule::Lia;
    /// Builds controllers with opportunistic linked increases.
    OliaFactory => Rule::Olia;
    /// Builds controllers with balanced linked adaptation.
    BaliaFactory => Rule::Balia;
}

/// NewReno whose increase, and for `balia` reduction, depends on the siblings.
#[derive(Debug)]
struct Coupled {
    rule: Rule,
    reno: NewReno,
    response: Response,
    /// Bytes acknowledged since the last loss, and between the last two.
    since_loss: u64,
    between_losses: u64,
    /// Empty while there are no siblings to compare it with.
    delays: Box<DelayRecord>,
    /// What the shortest round trips were before and after all changes of the way back, summed up.
    level: (Duration, Duration),
    has_siblings: bool,
}

impl Coupled {
    fn new(rule: Rule, context: &ControllerContext) -> Self {
        Self {
            rule,
            reno: NewReno::new(context),
            response: Response::ALONE,
            since_loss: 0,
            between_losses: 0,
            delays: Box::default(),
            level: Default::default(),
            has_siblings: false,
        }
    }

    fn on_congestion(&mut self) {
        self.between_losses = std::mem::take(&mut self.since_loss);
    }
}

impl CongestionController for Coupled {
    fn name(&self) -> &'static str {
        self.rule.name()
    }

    fn on_sent(&mut self, event: &SentEvent) {
        self.reno.on_sent(event);
    }

    fn on_ack(&mut self, event: &AckEvent) {
        self.since_loss = self.since_loss.saturating_add(event.acked_bytes);
        if self.has_siblings {
            if event.has_rtt_sample {
                let rtt = (event.rtt.latest + self.level.0).saturating_sub(self.level.1);
                self.delays.on_sample(event.now, rtt);
            }
            self.delays.on_packets(event.now, event.acked_packets, 0);
        }
        self.reno.on_ack_with_gain(event, self.response.gain);
    }

    fn on_loss(&mut self, event: &LossEvent<'_>) {
        if self.has_siblings {
            let lost = event.packets.len() as u64;
            self.delays.on_packets(event.now, 0, lost);
        }
        if self.reno.on_loss_keeping(event, self.response.kept) {
            self.on_congestion();
        }
    }

    fn on_ecn(&mut self, event: &EcnEvent) {
        if self.reno.on_ecn_keeping(event, self.response.kept) {
            self.on_congestion();
        }
    }

    fn on_spurious_loss(&mut self, event: &SpuriousLossEvent) {
        self.reno.on_spurious_loss(event);
    }

    fn on_mtu(&mut self, mtu: u64) {
        self.reno.on_mtu(mtu);
    }

    fn on_initial_window(&mut self, bytes: u64) {
        self.reno.on_initial_window(bytes);
    }

    fn on_path_full(&mut self, bytes_in_flight: u64) {
        self.reno.on_path_full(bytes_in_flight);
    }

    fn on_return_path(&mut self, _now: Instant, before: Duration, after: Duration) {
        // Only how delays vary is of interest: the level stays what it was.
        self.level = (self.level.0 + before, self.level.1 + after);
    }

    fn on_restart_from_idle(&mut self, now: Instant) {
        self.reno.on_restart_from_idle(now);
    }

    fn coupling(&self) -> Option<Coupling<'_>> {
        Some(Coupling {
            between_losses: self.since_loss.max(self.between_losses),
            delays: &self.delays,
        })
    }

    fn on_siblings(&mut self, own: &SiblingView, siblings: &[SiblingView]) {
        self.response = self.rule.response(own, siblings);
        self.has_siblings = !siblings.is_empty();
        if !self.has_siblings {
            *self.delays = DelayRecord::default();
        }
    }

    fn window(&self) -> u64 {
        self.reno.window()
    }

    fn metrics(&self) -> ControllerMetrics {
        self.reno.metrics()
    }
}

#[cfg(test)]
mod tests;
