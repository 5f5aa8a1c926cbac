//! What messages with deadlines ask of acknowledgements.
//!
//! Owns: [`Urgency`]: whether a delayed ACK may cost a message its one retransmission. Does not own: which messages there
//! are (`message/`), the other reasons to ask for something (the policies).
//! Called by: `standard`, about once a round trip. `frequency` and `asymmetric` are for return paths that carry few ACKs.

use std::time::Duration;

use super::SendView;

/// What is asked for at least: a timer that every peer has.
const LEAST: Duration = Duration::from_millis(1);

/// Asks for short delays where messages have time for a retransmission, but not for many.
///
/// A message of less than three packets is acknowledged when max_ack_delay is over, and its loss is told as much later, by
/// a probe timeout or by the next message. With 75 ms one way and 250 ms to come, 25 ms are all that is left beside a
/// retransmission. Where there is time for three such delays they do no harm; where no retransmission fits, nothing is told
/// in time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Urgency {
    asked: bool,
}

impl Urgency {
    /// The longest delay that messages bear; `None` if they bear the usual one.
    pub(super) fn longest(&mut self, view: &SendView) -> Option<Duration> {
        let rtt = view.smoothed_rtt;
        self.asked = view.message_time.is_some_and(|time| {
            // Round trips vary: what was asked for stays while they do so little.
            let slack = if self.asked { rtt / 8 } else { Duration::ZERO };
            let once = rtt.saturating_mul(3) / 2;
            let ample = once + view.peer_max_ack_delay.saturating_mul(3);
            time + slack >= once && time < ample + slack
        });
        let least = view.peer_min_ack_delay.max(LEAST);
        self.asked.then(|| least.min(view.peer_max_ack_delay))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Instant;

    /// Milliseconds: round trip, what messages have; what is asked for.
    fn asks(urgency: &mut Urgency, rtt: u64, time: Option<u64>) -> Option<u64> {
        let ms = Duration::from_millis;
        let (now, peer) = (Instant::ZERO, (ms(1), ms(25)));
        let mut view = SendView::new(now, ms(rtt), ms(rtt), 100_000, 1_200, peer.0, peer.1, 3);
        view.message_time = time.map(ms);
        let longest = urgency.longest(&view)?;
        Some(u64::try_from(longest.as_millis()).unwrap())
    }

    #[test]
    fn short_delays_where_one_retransmission_fits() {
        let fresh = |rtt, time| asks(&mut Urgency::default(), rtt, time);
        assert_eq!(
            fresh(150, None),
            None,
            "no messages, or none with a deadline"
        );
        assert_eq!(fresh(150, Some(250)), Some(1));
        assert_eq!(fresh(120, Some(250)), Some(1));
        assert_eq!(fresh(100, Some(250)), None, "there is time");
        assert_eq!(fresh(10, Some(250)), None);
        assert_eq!(fresh(200, Some(250)), None, "nothing can be sent again");
    }

    #[test]
    fn a_round_trip_that_varies_changes_nothing() {
        let mut urgency = Urgency::default();
        assert_eq!(asks(&mut urgency, 166, Some(250)), Some(1));
        assert_eq!(asks(&mut urgency, 170, Some(250)), Some(1));
        assert_eq!(asks(&mut urgency, 200, Some(250)), None);
        assert_eq!(asks(&mut urgency, 170, Some(250)), None);
    }

    #[test]
    fn no_longer_than_the_peer_delays_anyway() {
        let ms = Duration::from_millis;
        let mut view = SendView::new(
            Instant::ZERO,
            ms(166),
            ms(166),
            100_000,
            1_200,
            Duration::ZERO,
            Duration::from_micros(500),
            3,
        );
        view.message_time = Some(ms(250));
        let longest = Urgency::default().longest(&view);
        assert_eq!(longest, Some(Duration::from_micros(500)));
    }
}
