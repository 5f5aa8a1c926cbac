//! What the peer says on another path of what arrived on this one. docs/spec/path-echo.md s5.
//!
//! Owns: what an echo means to packets under way: which need no repeating any more, and which are repeated at once.
//! Does not own: when the peer echoes (`space/echo.rs`); all else that an acknowledgement brings (`acked.rs`). An
//! echo measures nothing, frees no window, ends no silence and puts off no timeout: the path's own way
//! back is as it was, and what it tells comes by itself. Nor are there source symbols among the packets: echoes and erasure
//! correction are not agreed on together (`connection/echoes.rs`).

use super::{
    LossHandler, Recovery,
    timer::{may_leave, report_repeatable},
};
use crate::{
    error::TransportError,
    observe::Abuse,
    space::{PacketNumberSpace, SpaceKind},
    wire::NumberRanges,
};

/// Ranges that are looked at; what is below them is not said to be missing.
const RANGES: usize = 64;

impl Recovery {
    /// A PATH_ECHO about this path arrived on another one. What it tells arrived counts as delivered with those who
    /// sent it; what must have been lost by the packet threshold is reported as lost, to be sent again on any
    /// path. The packets stay in flight, until they are acknowledged or declared lost.
    ///
    /// # Errors
    /// PROTOCOL_VIOLATION when it tells of a packet that was never sent. Nothing is changed then.
    pub(crate) fn on_echo(
        &mut self,
        space: &mut PacketNumberSpace,
        numbers: &NumberRanges<'_>,
        handler: &mut impl LossHandler,
    ) -> Result<(), TransportError> {
        let largest = numbers.largest;
        if largest >= space.numbers().end() {
            let error = TransportError::protocol_violation("echo of a packet not sent");
            return Err(error.counted_as(Abuse::AckOfUnsent));
        }
        if space.numbers().covers_skipped(numbers.iter()) {
            let error = TransportError::protocol_violation("echo of a skipped packet number");
            return Err(error.counted_as(Abuse::OptimisticAck));
        }
        // Each packet is looked at a few times in all, however many echoes come.
        let Some(from) = space.take_echo(largest, u64::from(self.tolerance.packets())) else {
            return Ok(());
        };
        let missing_below = largest.saturating_sub(u64::from(self.tolerance.packets()));
        let mut above = largest.saturating_add(1);
        for range in numbers.iter().take(RANGES) {
            let (start, end) = (*range.start(), *range.end());
            for (number, packet, tokens) in space.sent.outstanding_in(start.max(from)..above) {
                if !packet.ack_eliciting {
                    continue;
                }
                if number <= end {
                    // Also of what is about to be repeated, which then need not be.
                    packet.set_told();
                    for token in tokens.filter(|token| may_leave(*token)) {
                        handler.token_acked(SpaceKind::Data, token);
                    }
                } else if number <= missing_below
                    && !packet.is_repeated()
                    && !tokens.clone().any(|token| handler.keeps(token))
                {
                    packet.set_told();
                    report_repeatable(tokens.filter(|token| may_leave(*token)), handler);
                }
            }
            if start <= from {
                break;
            }
            above = start;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::ops::RangeInclusive;

    use super::{
        super::test_path::{MTU, TestPath, at},
        *,
    };
    use crate::{
        error::Code,
        packet::Token,
        units::{PacketNumber, PathId},
        wire::{Frame, Reader, Writer, write_path_echo},
    };

    fn echo(
        path: &mut TestPath,
        ranges: &[RangeInclusive<PacketNumber>],
    ) -> Result<(), TransportError> {
        let mut buf = [0; 200];
        let mut w = Writer::new(&mut buf);
        write_path_echo(&mut w, PathId(1), ranges.iter().cloned());
        let Ok(Frame::PathEcho { numbers, .. }) = Frame::decode(&mut Reader::new(w.written()))
        else {
            panic!("it was just written");
        };
        path.recovery
            .on_echo(&mut path.spaces[2], &numbers, &mut path.fates)
    }

    fn numbers(tokens: &[Token]) -> Vec<u64> {
        tokens
            .iter()
            .map(|token| match token {
                Token::Crypto { offset, .. } => *offset,
                _ => panic!("{token:?}"),
            })
            .collect()
    }

    #[test]
    fn what_arrived_is_delivered_and_what_is_missing_repeated() {
        let mut path = TestPath::new();
        path.send_many(at(0), 10);
        let timer = path.timer();
        let in_flight = path.recovery.bytes_in_flight();
        echo(&mut path, &[7..=8, 3..=4]).unwrap();
        assert_eq!(numbers(&path.fates.acked), [7, 8, 3, 4]);
        // Neither 6, which two packets overtook, nor what is below all that is told.
        assert_eq!(numbers(&path.fates.lost), [5]);
        // All else is as it was.
        assert_eq!(path.timer(), timer);
        assert_eq!(path.recovery.bytes_in_flight(), in_flight);
        assert!(!path.recovery.rtt().has_sample());
        assert!(path.notes.take().is_empty() && path.fates.packets_acked.is_empty());
        // The path's own acknowledgement does what it always does, but for the data.
        let summary = path.ack(at(40), &[7..=8, 3..=4]);
        assert!(summary.newly_acked && summary.rtt_sample.is_some());
        assert_eq!(path.lost_numbers(), [0, 1, 2, 5]);
        assert_eq!(numbers(&path.fates.lost), [5, 0, 1, 2]);
        assert_eq!(
            path.recovery.bytes_in_flight(),
            in_flight - 8 * u64::from(MTU)
        );
    }

    #[test]
    fn each_packet_is_told_of_once() {
        let mut path = TestPath::new();
        path.send_many(at(0), 40);
        echo(&mut path, &[0..=9]).unwrap();
        // No news.
        echo(&mut path, &[0..=9]).unwrap();
        echo(&mut path, &[2..=3]).unwrap();
        assert_eq!(path.fates.acked.len(), 10);
        // The gap begins where the echo before ended.
        echo(&mut path, &[30..=39, 0..=9]).unwrap();
        // Of the packets before, those are told again that may have been late.
        assert_eq!(path.fates.acked.len(), 20 + 4);
        let missing: Vec<u64> = (10..30).collect();
        assert_eq!(numbers(&path.fates.lost), missing);
        // Lost for good, they are not repeated again; what arrived never was.
        path.ack(at(40), &[39..=39]);
        assert_eq!(path.fates.lost.len(), 20);
    }

    #[test]
    fn what_was_repeated_for_an_echo_is_not_repeated_for_the_acknowledgement() {
        let mut path = TestPath::new();
        path.fates.repeats_copied = true;
        path.send_many(at(0), 10);
        echo(&mut path, &[5..=9]).unwrap();
        assert!(path.fates.lost.is_empty(), "nothing is said of 0 to 4");
        path.send_many(at(1), 10);
        echo(&mut path, &[15..=19, 5..=9]).unwrap();
        assert_eq!(numbers(&path.fates.lost), [10, 11, 12, 13, 14]);
        path.ack(at(40), &[15..=19, 5..=9]);
        assert_eq!(path.lost_numbers(), [0, 1, 2, 3, 4, 10, 11, 12, 13, 14]);
        assert_eq!(
            numbers(&path.fates.lost),
            [10, 11, 12, 13, 14, 0, 1, 2, 3, 4]
        );
    }

    /// A peer that holds back what the ring begins with cannot have it walked over with every echo.
    #[test]
    fn echoes_look_at_few_packets() {
        let mut path = TestPath::new();
        path.send_many(at(0), 2_000);
        path.ack(at(40), &[1..=1_990]);
        path.fates.acked.clear();
        let outstanding = path.data().sent.outstanding_in(1_000..1_995);
        assert_eq!(outstanding.count(), 4);
        echo(&mut path, &[0..=1_991]).unwrap();
        echo(&mut path, &[0..=1_992]).unwrap();
        // Those near the end until they are acknowledged; the first is lost already.
        assert_eq!(numbers(&path.fates.acked), [1_991, 1_991, 1_992]);
    }

    #[test]
    fn what_was_not_sent_is_an_error() {
        let mut path = TestPath::new();
        path.send_many(at(0), 3);
        let error = echo(&mut path, &[0..=3]).unwrap_err();
        assert_eq!(error.code, Code::PROTOCOL_VIOLATION);
        assert!(path.fates.acked.is_empty());
    }
}
