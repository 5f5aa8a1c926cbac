//! The connection IDs we issue and their stateless reset tokens.
//!
//! Layout of an issued connection ID of `n` bytes (RFC 9000 s5.1 leaves it to the issuer):
//!
//! ```text
//! without shards:  random[n]
//! with shards:     shard[2, big endian] random[n - 2]       n is raised to at least 8
//! ```
//!
//! In a short header the ID starts at byte 1 of the UDP payload, so a kernel program finds the
//! shard in bytes 1 and 2; in a long header whose version is 1 or 2 it stands in bytes 6 and 7.
//! The first Initials of a client carry an ID the client chose; any steering of those that is a
//! function of the ID will do.

use aws_lc_rs::hmac;

use crate::{
    config::EndpointConfig,
    rng::Rng,
    wire::{ConnectionId, ResetToken},
};

/// Bytes that the shard number takes.
const SHARD_BYTES: usize = 2;
/// An ID with a shard keeps at least 6 random bytes.
const MIN_SHARDED_LEN: usize = 8;
/// Least length of an ID that a client answers a Retry with. RFC 9000 s7.2.
const MIN_INITIAL_DCID_LEN: usize = 8;
/// Longest ID in versions 1 and 2.
const MAX_LEN: usize = 20;

/// The shard number inside a connection ID issued by an endpoint with
/// [`EndpointConfig::shard`] set; meaningless for other IDs. `None` if it is too short.
pub fn shard_of(cid: &ConnectionId) -> Option<u16> {
    let bytes = cid.as_slice().first_chunk::<SHARD_BYTES>()?;
    Some(u16::from_be_bytes(*bytes))
}

/// Makes connection IDs and reset tokens.
#[derive(Debug)]
pub(super) struct CidMaker {
    len: usize,
    shard: Option<u16>,
    reset_key: hmac::Key,
}

impl CidMaker {
    pub(super) fn new(config: &EndpointConfig, rng: &mut Rng) -> Self {
        let key = config.stateless_reset_key.unwrap_or_else(|| rng.array());
        let len = config.connection_id_length.min(MAX_LEN);
        let len = if config.shard.is_some() {
            len.max(MIN_SHARDED_LEN)
        } else {
            len
        };
        Self {
            len,
            shard: config.shard,
            reset_key: hmac::Key::new(hmac::HMAC_SHA256, &key),
        }
    }

    /// Length of every ID it issues.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// A random ID of the issued kind.
    pub(super) fn issue(&self, rng: &mut Rng) -> ConnectionId {
        self.random(self.len, rng)
    }

    /// An ID for a Retry packet: long enough to be a client's destination ID.
    pub(super) fn for_retry(&self, rng: &mut Rng) -> ConnectionId {
        self.random(self.len.max(MIN_INITIAL_DCID_LEN), rng)
    }

    fn random(&self, len: usize, rng: &mut Rng) -> ConnectionId {
        let mut bytes: [u8; MAX_LEN] = rng.array();
        if let Some(shard) = self.shard
            && let Some(place) = bytes.first_chunk_mut::<SHARD_BYTES>()
        {
            *place = shard.to_be_bytes();
        }
        let bytes = bytes.get(..len).unwrap_or(&[]);
        ConnectionId::new(bytes).unwrap_or(ConnectionId::EMPTY)
    }

    /// Whether `cid` may have been issued by this endpoint and not by another shard's.
    pub(super) fn is_of_this_shard(&self, cid: &ConnectionId) -> bool {
        self.shard.is_none_or(|shard| shard_of(cid) == Some(shard))
    }

    /// The stateless reset token of an ID; needs no memory. RFC 9000 s10.3.2.
    pub(super) fn reset_token(&self, cid: &ConnectionId) -> ResetToken {
        let tag = hmac::sign(&self.reset_key, cid.as_slice());
        let mut token = [0; 16];
        for (to, from) in token.iter_mut().zip(tag.as_ref()) {
            *to = *from;
        }
        ResetToken(token)
    }
}

/// A client's first destination ID: random, 8 bytes. RFC 9000 s7.2.
pub(super) fn random_initial_dcid(rng: &mut Rng) -> ConnectionId {
    ConnectionId::new(&rng.array::<MIN_INITIAL_DCID_LEN>()).unwrap_or(ConnectionId::EMPTY)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn maker(len: usize, shard: Option<u16>) -> CidMaker {
        let config = EndpointConfig {
            connection_id_length: len,
            shard,
            ..EndpointConfig::default()
        };
        CidMaker::new(&config, &mut Rng::from_u64(1))
    }

    #[test]
    fn shard_stands_in_the_first_two_bytes() {
        let mut rng = Rng::from_u64(2);
        for len in [0, 4, 8, 20] {
            let maker = maker(len, Some(0xbeef));
            let cid = maker.issue(&mut rng);
            assert_eq!(cid.as_slice()[..2], [0xbe, 0xef]);
            assert_eq!(shard_of(&cid), Some(0xbeef));
            assert_eq!(cid.len(), len.max(8));
            assert!(maker.is_of_this_shard(&cid));
            assert!(shard_of(&maker.for_retry(&mut rng)) == Some(0xbeef));
        }
        assert!(!maker(8, Some(1)).is_of_this_shard(&maker(8, Some(2)).issue(&mut rng)));
    }

    #[test]
    fn retry_ids_can_be_initial_destinations() {
        let mut rng = Rng::from_u64(3);
        assert_eq!(maker(0, None).issue(&mut rng).len(), 0);
        assert_eq!(maker(0, None).for_retry(&mut rng).len(), 8);
        assert_eq!(maker(255, None).issue(&mut rng).len(), 20);
    }

    #[test]
    fn reset_tokens_depend_on_key_and_id_only() {
        let mut rng = Rng::from_u64(4);
        let config = EndpointConfig {
            stateless_reset_key: Some([7; 32]),
            ..EndpointConfig::default()
        };
        let a = CidMaker::new(&config, &mut rng);
        let b = CidMaker::new(&config, &mut rng);
        let cid = a.issue(&mut rng);
        assert_eq!(a.reset_token(&cid), b.reset_token(&cid));
        assert_ne!(a.reset_token(&cid), a.reset_token(&b.issue(&mut rng)));
        assert_ne!(a.reset_token(&cid), maker(8, None).reset_token(&cid));
    }
}
