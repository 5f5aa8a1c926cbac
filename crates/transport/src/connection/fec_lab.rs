//! What erasure correction does in laboratories alone ([`FecLab`](crate::fec::FecLab)).
//!
//! Owns: packets that count as acknowledged since they were recovered, packets that are held.
//! Does not own: when they are let go (`fec/hold.rs`); repair symbols outside of the window (`fec.rs`).

use super::{
    Connection,
    fates::frame_fates,
    rx::{FrameSummary, Received},
};
use crate::{fec::OnLoss, packet::Token, space::SpaceKind, time::Instant, units::PathId};

impl Connection {
    /// A recovered packet counts as acknowledged: for laboratories, see
    /// [`FecLab::mask`](crate::fec::FecLab). Not one with frames before its symbol, which are lost.
    pub(super) fn mask_loss(&mut self, now: Instant, id: PathId, number: u64) {
        let Some(path) = self.paths.get_mut(id) else {
            return;
        };
        let sent = &path.space.sent;
        let mut tokens = sent.live_tokens(number);
        let first = tokens.find(|token| !matches!(token, Token::Ack { .. }));
        let is_whole = matches!(first, Some(Token::Symbol { .. }));
        drop(tokens);
        if !is_whole || sent.get(number).is_none_or(|packet| packet.is_lost()) {
            return;
        }
        let mut fates = frame_fates!(self, path, now, symbol: Some(OnLoss::Nothing));
        path.recovery
            .on_recovered(&mut path.space, SpaceKind::Data, now, number, &mut fates);
        fates.settle_acked();
        self.apply_deferred(SpaceKind::Data, None);
        // The loss monitor is not deceived.
        if let Some(sender) = &mut self.fec.sender {
            sender.on_packet_lost(id, number);
        }
    }

    /// A packet with erasure correction was processed: it is recorded as received, so that it will be
    /// acknowledged, now or when it is not held any more.
    pub(super) fn record_or_hold(
        &mut self,
        received: Received,
        kind: SpaceKind,
        summary: FrameSummary,
        spin: bool,
    ) {
        let now = received.now;
        let source = self.fec.source.take();
        let hold = self.fec.hold.as_mut();
        let Some(hold) = hold.filter(|_| kind == SpaceKind::Data && summary.ack_eliciting) else {
            self.record_received(&received, kind, summary, spin);
            return;
        };
        if let Some(id) = source {
            hold.on_source(id, now);
        }
        if let Some((received, summary, spin)) = hold.push(source, (received, summary, spin)) {
            self.record_received(&received, kind, summary, spin);
        }
        self.release_held(now);
    }

    pub(super) fn release_held(&mut self, now: Instant) {
        while let Some(hold) = &mut self.fec.hold
            && let Some((mut received, summary, spin)) = hold.release(now)
        {
            received.now = now;
            self.record_received(&received, SpaceKind::Data, summary, spin);
        }
    }
}
