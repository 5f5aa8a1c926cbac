//! What we asked of the peer's acknowledgements, and what it asked of ours.

use std::time::Duration;

use crate::{ack::AckRequest, recovery::PeerAcks, time::Instant};

/// Requests remembered one by one until an acknowledgement shows which is in force; about one
/// leaves per round trip.
const REMEMBERED: usize = 4;
/// More than so many packets without an acknowledgement are not usual. RFC 9000 s13.2.2.
const USUAL_THRESHOLD: u64 = 1;

/// ACK_FREQUENCY frames of one path. draft-ietf-quic-ack-frequency s4, s7.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AckFrequencyState {
    pub(crate) next_sequence: u64,
    pub(crate) to_send: Option<AckRequest>,
    /// The newest request made.
    pub(crate) last: Option<AckRequest>,
    /// Largest sequence number of the peer's requests.
    pub(crate) largest_received: Option<u64>,
    pub(crate) next_review: Instant,
    /// When the end of a flight, or of all data, asked last.
    pub(crate) asked_at: Option<Instant>,
    /// Whether [`Self::last`] must be said again although nothing else is wished for.
    repeat: bool,
    /// The delay of the newest request that the peer acknowledged.
    in_force: Option<Duration>,
    /// Sequence numbers and delays of requests that may come into force, ascending.
    under_way: [Option<(u64, Duration)>; REMEMBERED],
}

impl AckFrequencyState {
    /// The longest the peer may delay an ACK now: what it acknowledged last, or what it may just
    /// be reading, whichever is longer. `announced` is its transport parameter.
    pub(crate) fn max_ack_delay(&self, announced: Duration) -> Duration {
        let in_force = self.in_force.unwrap_or(announced);
        self.under_way
            .iter()
            .flatten()
            .map(|&(_, delay)| delay)
            .fold(in_force, Duration::max)
    }

    /// How the peer acknowledges by what we asked for last: without that, every second packet. RFC 9000 s13.2.2.
    pub(crate) fn peer_acks(&self, announced: Duration) -> PeerAcks {
        let threshold = self
            .last
            .map_or(1, |request| request.ack_eliciting_threshold);
        let threshold = usize::try_from(threshold).unwrap_or(usize::MAX);
        PeerAcks {
            together: threshold.saturating_add(1),
            max_delay: self.max_ack_delay(announced),
        }
    }

    /// So many packets are acknowledged together, whatever the peer has read of our requests by now.
    pub(crate) fn together(&self) -> usize {
        if self.under_way.iter().any(Option::is_some) {
            return usize::MAX;
        }
        self.peer_acks(Duration::ZERO).together
    }

    /// Whether no more than each second packet was asked not to be acknowledged by itself.
    pub(crate) fn asks_as_usual(&self) -> bool {
        self.last
            .is_none_or(|request| request.ack_eliciting_threshold <= USUAL_THRESHOLD)
    }

    /// A request was written into a packet, with [`Self::next_sequence`].
    pub(crate) fn on_written(&mut self, request: AckRequest) {
        let mut delay = request.max_ack_delay;
        if self.under_way.iter().all(Option::is_some) {
            // More requests than remembered: the oldest lives on in the newest.
            self.under_way.rotate_left(1);
            if let Some(slot) = self.under_way.last_mut()
                && let Some((_, oldest)) = slot.take()
            {
                delay = delay.max(oldest);
            }
        }
        if let Some(slot) = self.under_way.iter_mut().find(|slot| slot.is_none()) {
            *slot = Some((self.next_sequence, delay));
        }
        self.next_sequence += 1;
        self.to_send = None;
    }

    /// The peer has read this request, and will heed no older one.
    pub(crate) fn on_acked(&mut self, sequence: u64) {
        for slot in &mut self.under_way {
            if let Some((read, delay)) = *slot
                && read <= sequence
            {
                if read == sequence {
                    self.in_force = Some(delay);
                }
                *slot = None;
            }
        }
        // The order stays ascending, the free slots behind.
        self.under_way
            .sort_by_key(|slot| slot.map_or(u64::MAX, |(sequence, _)| sequence));
    }

    /// Round-trip time and window start over: what was asked may no longer fit, and is to be said
    /// again once they are known. draft-ietf-quic-ack-frequency s8.3.
    pub(crate) fn on_new_network_path(&mut self, now: Instant) {
        self.to_send = None;
        self.repeat = self.last.is_some();
        self.next_review = now;
    }

    /// The policy's answer at a review: what to send now.
    pub(crate) fn on_review(&mut self, wish: Option<AckRequest>) -> Option<AckRequest> {
        let repeat = std::mem::take(&mut self.repeat);
        let request = wish.or_else(|| self.last.filter(|_| repeat))?;
        self.to_send = Some(request);
        self.last = Some(request);
        Some(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANNOUNCED: Duration = Duration::from_millis(25);

    fn ms(value: u64) -> Duration {
        Duration::from_millis(value)
    }

    fn request(delay: u64) -> AckRequest {
        AckRequest {
            ack_eliciting_threshold: 10,
            max_ack_delay: ms(delay),
            reordering_threshold: 3,
        }
    }

    #[test]
    fn delay_in_force_is_that_of_the_newest_acknowledged_request() {
        let mut state = AckFrequencyState::default();
        assert_eq!(state.max_ack_delay(ANNOUNCED), ANNOUNCED);
        // Shorter than announced: the peer may not have read it yet.
        state.on_written(request(5));
        assert_eq!(state.max_ack_delay(ANNOUNCED), ANNOUNCED);
        state.on_acked(0);
        assert_eq!(state.max_ack_delay(ANNOUNCED), ms(5));
        // Longer: from the moment it leaves.
        state.on_written(request(100));
        assert_eq!(state.max_ack_delay(ANNOUNCED), ms(100));
        state.on_acked(1);
        state.on_written(request(10));
        assert_eq!(state.max_ack_delay(ANNOUNCED), ms(100));
        state.on_acked(2);
        assert_eq!(state.max_ack_delay(ANNOUNCED), ms(10));
        // A late acknowledgement of an older one changes nothing.
        state.on_acked(1);
        assert_eq!(state.max_ack_delay(ANNOUNCED), ms(10));
    }

    #[test]
    fn the_peer_acknowledges_pairs_until_asked_otherwise() {
        let mut state = AckFrequencyState::default();
        assert_eq!(state.peer_acks(ANNOUNCED).together, 2);
        state.last = Some(request(5));
        let acks = state.peer_acks(ANNOUNCED);
        assert_eq!((acks.together, acks.max_delay), (11, ANNOUNCED));
        state.last = Some(AckRequest {
            ack_eliciting_threshold: u64::MAX,
            ..request(5)
        });
        assert_eq!(state.peer_acks(ANNOUNCED).together, usize::MAX);
    }

    #[test]
    fn many_requests_under_way_count_with_the_longest() {
        let mut state = AckFrequencyState::default();
        state.on_written(request(100));
        for _ in 0..20 {
            state.on_written(request(5));
        }
        assert_eq!(state.max_ack_delay(ANNOUNCED), ms(100));
        state.on_written(request(7));
        state.on_acked(state.next_sequence - 1);
        assert!(state.max_ack_delay(ANNOUNCED) <= ms(100));
        state.on_written(request(8));
        state.on_acked(state.next_sequence - 1);
        assert_eq!(state.max_ack_delay(ANNOUNCED), ms(8));
    }

    #[test]
    fn asks_again_on_a_new_network_path() {
        let mut state = AckFrequencyState::default();
        assert_eq!(state.on_review(Some(request(20))), Some(request(20)));
        state.on_written(request(20));
        assert_eq!(state.on_review(None), None);
        state.on_new_network_path(Instant::ZERO);
        assert_eq!(state.on_review(None), Some(request(20)));
        assert_eq!(state.to_send, Some(request(20)));
        state.on_written(request(20));
        assert_eq!(state.on_review(None), None);
    }
}
