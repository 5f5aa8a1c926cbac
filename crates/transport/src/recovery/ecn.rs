//! Whether the path carries ECN marks. RFC 9000 s13.4.2 and A.4.

use std::time::Duration;

use crate::{observe::EcnPhase, space::PeerEcn, time::Instant, units::Ecn, wire::EcnCounts};

/// Marked packets sent before waiting for proof. RFC 9000 A.4.
const TEST_PACKETS: u32 = 10;
/// The test ends after this many probe timeouts, too. RFC 9000 A.4.
const TEST_PTOS: u32 = 3;

/// The validation state of one network path.
#[derive(Clone, Debug)]
pub(super) struct EcnValidation {
    enabled: bool,
    phase: EcnPhase,
    /// Marked packets sent and lost while nothing is proven.
    sent: u32,
    lost: u32,
    test_ends: Option<Instant>,
}

/// Newly acknowledged packets of the present network path, by the mark they left with.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NewlyAckedMarks {
    pub(super) ect0: u64,
    pub(super) ect1: u64,
}

impl EcnValidation {
    pub(super) fn new(enabled: bool) -> Self {
        let phase = if enabled {
            EcnPhase::Testing
        } else {
            EcnPhase::Failed
        };
        Self {
            enabled,
            phase,
            sent: 0,
            lost: 0,
            test_ends: None,
        }
    }

    /// A new network path is tested anew. RFC 9000 s13.4.2.
    pub(super) fn restart(&mut self) {
        *self = Self::new(self.enabled);
    }

    pub(super) fn phase(&self) -> EcnPhase {
        self.phase
    }

    /// The mark for the next packet.
    pub(super) fn mark(&self) -> Ecn {
        match self.phase {
            EcnPhase::Testing | EcnPhase::Capable => Ecn::Ect0,
            _ => Ecn::NotEct,
        }
    }

    /// A packet left; `pto` is asked for the probe timeout when the test begins.
    pub(super) fn on_sent(
        &mut self,
        counts: &mut PeerEcn,
        ecn: Ecn,
        now: Instant,
        pto: impl FnOnce() -> Duration,
    ) {
        match ecn {
            Ecn::NotEct | Ecn::Ce => return,
            Ecn::Ect0 => counts.sent_ect0 += 1,
            Ecn::Ect1 => counts.sent_ect1 += 1,
        }
        if self.phase != EcnPhase::Testing {
            return;
        }
        self.sent += 1;
        let ends = self
            .test_ends
            .get_or_insert_with(|| now + pto() * TEST_PTOS);
        if self.sent >= TEST_PACKETS || now >= *ends {
            self.phase = EcnPhase::Unknown;
        }
    }

    /// A marked packet was declared lost. A network that drops marked packets shows by losing all
    /// of them.
    pub(super) fn on_lost(&mut self, ecn: Ecn) {
        if ecn == Ecn::NotEct || !matches!(self.phase, EcnPhase::Testing | EcnPhase::Unknown) {
            return;
        }
        self.lost += 1;
        if self.phase == EcnPhase::Unknown && self.lost >= self.sent {
            self.phase = EcnPhase::Failed;
        }
    }

    /// An ACK that raised the largest acknowledged number. Returns how many new CE marks count as
    /// congestion on this path.
    pub(super) fn on_ack(
        &mut self,
        counts: &mut PeerEcn,
        newly: NewlyAckedMarks,
        report: Option<EcnCounts>,
    ) -> u64 {
        let newly_marked = newly.ect0 + newly.ect1;
        let Some(report) = report else {
            // Marked packets arrived and the marks are not reported: cleared, or not counted.
            if newly_marked > 0 {
                self.fail();
            }
            return 0;
        };
        let before = *counts;
        counts.ect0 = counts.ect0.max(report.ect0);
        counts.ect1 = counts.ect1.max(report.ect1);
        counts.ce = counts.ce.max(report.ce);
        let increase = |new: u64, old: u64| new.checked_sub(old);
        let (Some(ect0), Some(ect1), Some(ce)) = (
            increase(report.ect0, before.ect0),
            increase(report.ect1, before.ect1),
            increase(report.ce, before.ce),
        ) else {
            self.fail();
            return 0;
        };
        let too_few = ect0.saturating_add(ce) < newly.ect0
            || ect1.saturating_add(ce) < newly.ect1
            || ect0.saturating_add(ect1).saturating_add(ce) < newly_marked;
        let too_many = report.ect0 > before.sent_ect0
            || report.ect1 > before.sent_ect1
            || report.ce > before.sent_ect0.saturating_add(before.sent_ect1);
        if too_few || too_many {
            self.fail();
            return 0;
        }
        if newly_marked > 0 && matches!(self.phase, EcnPhase::Testing | EcnPhase::Unknown) {
            self.phase = EcnPhase::Capable;
        }
        // Marks of packets that took an old network path say nothing about this one.
        if newly_marked > 0 && self.phase == EcnPhase::Capable {
            ce
        } else {
            0
        }
    }

    fn fail(&mut self) {
        self.phase = EcnPhase::Failed;
    }
}
