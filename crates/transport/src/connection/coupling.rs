//! What the congestion controllers of several paths are told of each other.
//!
//! Owns: when they are told, and of which paths: those that work. Does not own: what they make of it
//! (`congestion/coupled/`).

use super::Connection;
use crate::{
    congestion::{SharedBottlenecks, SiblingView},
    path::Path,
    time::Instant,
    units::PathId,
};

/// Kept between two reviews.
#[derive(Debug, Default)]
pub(super) struct CouplingReview {
    /// Not before this, unless packets were lost.
    next: Option<Instant>,
    /// Loss events of all paths at the last review.
    losses: u64,
    /// Whether any controller was told of siblings.
    coupled: bool,
    bottlenecks: SharedBottlenecks,
    /// For their memory.
    views: Vec<(PathId, SiblingView)>,
    siblings: Vec<SiblingView>,
}

impl Connection {
    /// Tells coupled controllers of their siblings, about once a round trip of the fastest path and after
    /// losses; nothing with one path. `changed`: there may have been losses.
    pub(super) fn review_coupling(&mut self, now: Instant, changed: bool) {
        let Some(multipath) = &mut self.multipath else {
            return;
        };
        let review = &mut multipath.coupling;
        if self.paths.len() == 1 && !review.coupled {
            return;
        }
        let early = review.next.is_some_and(|next| now < next);
        if early && !changed {
            return;
        }
        let losses = self.paths.iter().map(|path| path.recovery.stats());
        let losses = losses.fold(0, |sum: u64, stats| sum.wrapping_add(stats.loss_events));
        if early && losses == review.losses {
            return;
        }
        review.losses = losses;
        review.views.clear();
        let views = self.paths.iter().filter_map(view_of);
        review.views.extend(views);
        let shortest = review.views.iter().map(|(_, view)| view.rtt).min();
        review.next = Some(now + shortest.unwrap_or(self.config.initial_rtt));
        if review.views.len() < 2 && !review.coupled {
            return;
        }
        review.coupled = review.views.len() > 1;
        let records = self.paths.iter().filter_map(|path| {
            let coupling = path.recovery.congestion().coupling()?;
            takes_part(path).then_some((path.id, coupling.delays))
        });
        review.bottlenecks.review(now, records);
        for &(id, own) in &review.views {
            let others = review.views.iter().filter(|(other, _)| *other != id);
            let bottlenecks = &review.bottlenecks;
            review.siblings.clear();
            review.siblings.extend(others.map(|&(other, view)| {
                let shared = bottlenecks.may_share(id, other);
                SiblingView { shared, ..view }
            }));
            if let Some(path) = self.paths.get_mut(id) {
                path.recovery.on_siblings(&own, &review.siblings);
            }
        }
    }
}

/// Whether a path carries anything: one that does not takes nothing from others.
fn takes_part(path: &Path) -> bool {
    path.is_usable() && !path.is_silent() && path.recovery.rtt().has_sample()
}

fn view_of(path: &Path) -> Option<(PathId, SiblingView)> {
    let coupling = path.recovery.congestion().coupling()?;
    if !takes_part(path) {
        return None;
    }
    let datagram = u64::from(path.mtu.current());
    let rtt = path.recovery.rtt().smoothed();
    let mut view = SiblingView::new(path.recovery.window(), rtt, datagram);
    view.in_flight = path.recovery.bytes_in_flight();
    view.app_limited = path.recovery.is_app_limited();
    view.slow_start = path.recovery.is_slow_start();
    view.between_losses = coupling.between_losses;
    Some((path.id, view))
}
