//! A network path: the two addresses, and what was proven about them.

use std::{collections::VecDeque, net::SocketAddr, time::Duration};

use super::{Amplification, Proof, Validation, ValidationFailed};
use crate::{rng::Rng, time::Instant, units::FourTuple};

/// One 4-tuple with its validation and amplification state.
#[derive(Debug)]
pub(crate) struct NetworkPath {
    four_tuple: FourTuple,
    /// The local address as it was before anything was learned: where the socket is bound.
    bound: SocketAddr,
    pub(crate) amplification: Amplification,
    validation: Option<Validation>,
    /// When the last challenge left.
    challenged_at: Option<Instant>,
    /// Whether the last validation ended without an answer.
    silent: bool,
    responses: VecDeque<[u8; 8]>,
}

impl NetworkPath {
    pub(crate) fn new(four_tuple: FourTuple) -> Self {
        Self {
            four_tuple,
            bound: four_tuple.local,
            amplification: Amplification::new(),
            validation: None,
            challenged_at: None,
            silent: false,
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

    /// Whether the last attempt to prove the address ended without an answer.
    pub(crate) fn is_silent(&self) -> bool {
        self.silent
    }

    /// Starts to prove the address by PATH_CHALLENGE; an attempt under way goes on.
    ///
    /// Addresses may change hands as fast as packets arrive. Challenges must not: they leave no
    /// more often than Initials would, one per PTO. RFC 9000 s8.2.1.
    pub(crate) fn start_validation(&mut self, now: Instant, pto: Duration) {
        if self.is_validating() {
            return;
        }
        let start = self.challenged_at.map_or(now, |at| now.max(at + pto));
        self.validation = Some(Validation::new(start, pto));
        self.silent = false;
    }

    /// The challenge that is outstanding is repeated at `at`, if it would be later.
    pub(crate) fn repeat_challenge_by(&mut self, at: Instant) {
        if let Some(validation) = &mut self.validation {
            validation.repeat_by(at);
        }
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

    /// A PATH_RESPONSE arrived (over any network path, RFC 9000 s8.2.3). What it proves of this one,
    /// if anything.
    ///
    /// Where the amplification limit kept the challenge small, the address is proven and may get
    /// full datagrams from now on; whether they arrive, a second attempt must find out.
    pub(crate) fn on_response(
        &mut self,
        now: Instant,
        pto: Duration,
        data: &[u8; 8],
    ) -> Option<Proof> {
        let proof = self.validation.as_ref()?.proof(data)?;
        self.validation = match proof {
            Proof::Path => None,
            // At once: the answer shows that the way is not congested by challenges.
            Proof::Address => Some(Validation::new(now, pto)),
        };
        self.amplification.set_validated();
        Some(proof)
    }

    /// How long the answer `data` took, if it answers a challenge that has not been answered.
    pub(crate) fn answered_in(&self, now: Instant, data: &[u8; 8]) -> Option<Duration> {
        let sent = self.validation.as_ref()?.sent_at(data)?;
        Some(now.saturating_since(sent))
    }

    /// The challenge to send now, if one is due.
    pub(crate) fn challenge_due(&self, now: Instant) -> bool {
        self.validation
            .as_ref()
            .is_some_and(|validation| validation.is_due(now))
    }

    /// Draws the data of the challenge that goes out now, in a datagram of `size` bytes.
    pub(crate) fn next_challenge(
        &mut self,
        now: Instant,
        size: usize,
        rng: &mut Rng,
    ) -> Option<[u8; 8]> {
        let proves = if size >= super::FULL_DATAGRAM {
            Proof::Path
        } else {
            Proof::Address
        };
        let validation = self.validation.as_mut()?;
        self.challenged_at = Some(now);
        Some(validation.next(now, proves, rng))
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

    /// When the validation wants attention. A challenge that the amplification limit or the lack of
    /// a connection ID (`named` false) holds back waits for the peer, not for time.
    pub(crate) fn validation_timer(&self, named: bool) -> Option<Instant> {
        let may_send = named && self.amplification.budget() >= super::MIN_DATAGRAM;
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
            self.silent = true;
            return Err(ValidationFailed);
        }
        Ok(())
    }
}
