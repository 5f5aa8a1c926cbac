//! What nodes of either peer are made of and that names neither.
//!
//! Owns: the clock between virtual and std time, a session that is not there, predictable tokens.

use std::{
    sync::OnceLock,
    time::{Duration, Instant as Clock},
};

use bytes::Bytes;
use tautline_lab::session::{Read, Session, StreamKey, Way};
use tautline_transport::{rng::Rng, time::Instant};

/// Datagrams that leave in one go, as the peers' socket layers have it.
pub(crate) const SEGMENTS: usize = 10;
/// Bytes of a connection ID, as many as by the peers' defaults.
pub(crate) const CID_BYTES: usize = 8;
/// Bytes of a client's first destination connection ID, likewise.
pub(crate) const FIRST_CID_BYTES: usize = 20;
/// UDP payload that the peers accept and look for unless told otherwise.
pub(crate) const DEFAULT_MTU: u16 = 1472;

#[expect(
    clippy::disallowed_methods,
    reason = "the peers take std's clock, which has no other origin; only differences count"
)]
fn base() -> Clock {
    static BASE: OnceLock<Clock> = OnceLock::new();
    // An hour on, so that peers may look back from time zero.
    *BASE.get_or_init(|| Clock::now() + Duration::from_secs(3600))
}

/// Virtual time as the peers take it.
pub(crate) fn clock(now: Instant) -> Clock {
    base() + now.since_origin()
}

/// And back.
pub(crate) fn instant(clock: Clock) -> Instant {
    Instant::ZERO + clock.saturating_duration_since(base())
}

/// Fills `out` from a key and a text: the same for the same, and no secret at all.
pub(crate) fn tag(key: &[u8; 32], data: &[u8], out: &mut [u8]) {
    let mut seed = *key;
    for (index, byte) in data.iter().enumerate() {
        if let Some(place) = seed.get_mut(index % 32) {
            *place = place.rotate_left(3) ^ byte;
        }
    }
    Rng::from_seed(seed).fill(out);
}

/// A session that is not there (yet, or any more).
pub(crate) struct Nobody(pub(crate) Instant);

impl Session for Nobody {
    fn now(&self) -> Instant {
        self.0
    }
    fn open(&mut self, _way: Way) -> Option<StreamKey> {
        None
    }
    fn write(&mut self, _stream: StreamKey, _data: &mut Bytes) -> usize {
        0
    }
    fn finish(&mut self, _stream: StreamKey) {}
    fn reset(&mut self, _stream: StreamKey) {}
    fn read(&mut self, _stream: StreamKey) -> Read {
        Read::Gone
    }
    fn stop(&mut self, _stream: StreamKey) {}
    fn prioritise(&mut self, _stream: StreamKey, _urgency: u8, _incremental: bool) {}
    fn send_datagram(&mut self, _data: Bytes) -> bool {
        false
    }
    fn receive_datagram(&mut self) -> Option<Bytes> {
        None
    }
    fn close(&mut self) {}
}
