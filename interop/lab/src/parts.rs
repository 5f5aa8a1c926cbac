//! What nodes of either peer are made of and that names neither.
//!
//! Owns: the clock between virtual and std time, predictable tokens.

use std::{
    sync::OnceLock,
    time::{Duration, Instant as Clock},
};

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
