//! A network path: the two addresses, and what was proven about them.

use std::{collections::VecDeque, net::SocketAddr, time::Duration};

use super::{Amplification, Validation, ValidationFailed};
use crate::{rng::Rng, time::Instant, units::FourTuple};

/// One 4-tuple with its validation and amplification state.
#[derive(Debug)]
pub(crate) struct NetworkPath {
    four_tuple: FourTuple,
    /// The local address as it was before anything was learned: where the socket is bound.
    bound: SocketAddr,
    pub(crate) amplification: Amplification,
    validation: Option<Validation>,
    responses: VecDeque<[u8; 8]>,
}

impl NetworkPath {
    pub(crate) fn new(four_tuple: FourTuple) -> Self {
        Self {
            four_tuple,
            bound: four_tuple.local,
            amplification: Amplification::new(),
            validation: None,
            responses: VecDeque::new(),
        }
    }

    pub(crate) fn four_tuple(&self) -> FourTuple {
        self.four_tuple
    }

    /// Whether the socket serves both address families, as far as its address tells: unspecified
    /// IPv6 stands for both. Where the system keeps them apart, IPv4 stays unanswered there.
    pub(crate) fn bound_to_both_families(&self) -> Option<SocketAddr> {
        let both = self.bound.is_ipv6() && self.bound.ip().is_unspecified();
        both.then_some(self.bound)
    }

    /// Learns the local IP address once the socket tells it.
    pub(crate) fn learn_local(&mut self, seen: &FourTuple) {
        if self.four_tuple.local.ip().is_unspecified() && self.four_tuple.matches(seen) {
            self.four_tuple.local = seen.local;
        }
    }

    /// Whether the address is proven.
    pub(crate) fn is_validated(&self) -> bool {
        self.amplification.is_validated()
    }

    /// Whether a challenge is outstanding.
    pub(crate) fn is_validating(&self) -> bool {
        self.validation.is_some()
    }

    /// Whether something is outstanding here: a challenge of ours, or an answer to the peer's.
    pub(crate) fn is_busy(&self) -> bool {
        self.is_validating() || !self.responses.is_empty()
    }

    /// Starts (or starts anew) to prove the address by PATH_CHALLENGE.
    pub(crate) fn start_validation(&mut self, now: Instant, pto: Duration) {
        self.validation = Some(Validation::new(now, pto));
    }

    /// A PATH_CHALLENGE arrived over this network path. At most `limit` wait; more are
    /// ignored, which only costs the flooder its answers.
    pub(crate) fn on_challenge(&mut self, data: [u8; 8], limit: usize) -> bool {
        if self.responses.len() >= limit {
            return false;
        }
        self.responses.push_back(data);
        true
    }

    /// A PATH_RESPONSE arrived (over any network path, RFC 9000 s8.2.3). True if it proves this one.
    pub(crate) fn on_response(&mut self, data: &[u8; 8]) -> bool {
        if !self
            .validation
            .as_ref()
            .is_some_and(|validation| validation.matches(data))
        {
            return false;
        }
        self.validation = None;
        self.amplification.set_validated();
        true
    }

    /// The challenge to send now, if one is due.
    pub(crate) fn challenge_due(&self, now: Instant) -> bool {
        self.validation
            .as_ref()
            .is_some_and(|validation| validation.is_due(now))
    }

    /// Draws the data of the challenge that goes out now.
    pub(crate) fn next_challenge(&mut self, now: Instant, rng: &mut Rng) -> Option<[u8; 8]> {
        self.validation
            .as_mut()
            .map(|validation| validation.next(now, rng))
    }

    pub(crate) fn next_response(&self) -> Option<[u8; 8]> {
        self.responses.front().copied()
    }

    pub(crate) fn response_sent(&mut self) {
        self.responses.pop_front();
    }

    /// Whether this network path needs a packet of its own now.
    pub(crate) fn wants_packet(&self, now: Instant) -> bool {
        !self.responses.is_empty() || self.challenge_due(now)
    }

    /// When the validation wants attention. A challenge that the amplification limit holds back
    /// waits for the peer, not for time.
    pub(crate) fn validation_timer(&self) -> Option<Instant> {
        let may_send = self.amplification.budget() >= super::MIN_DATAGRAM;
        self.validation.as_ref().map(|validation| {
            if may_send {
                validation.timer()
            } else {
                validation.deadline()
            }
        })
    }

    /// Reacts to time: `Err` when the validation was given up just now.
    pub(crate) fn on_timeout(&mut self, now: Instant) -> Result<(), ValidationFailed> {
        if self
            .validation
            .as_ref()
            .is_some_and(|validation| validation.has_failed(now))
        {
            self.validation = None;
            return Err(ValidationFailed);
        }
        Ok(())
    }
}
