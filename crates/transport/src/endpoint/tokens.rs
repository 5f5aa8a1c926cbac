//! Address-validation tokens. RFC 9000 s8.1.
//!
//! A token is sealed with AES-256-GCM-SIV (a repeated nonce would do no harm) and looks like
//!
//! ```text
//! kind[1] nonce[12] ciphertext tag[16]        kind is authenticated
//!
//! both plaintexts start with:   issued[8] version[4] ip[16]
//! and a Retry token's goes on:  port[2] odcid_len[1] odcid[20] scid_len[1] scid[20]
//! ```
//!
//! `issued` is nanoseconds of [`Instant`], `ip` is IPv6 or an IPv4-mapped address. A token counts
//! in the QUIC version of the connection it came from alone (RFC 9369 s5). Tokens that shall outlive the process need a fixed key ([`crate::config::EndpointConfig::token_key`]) and
//! an `Instant` whose origin does not move, such as the Unix epoch.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use aws_lc_rs::{
    aead::{AES_256_GCM_SIV, Aad, LessSafeKey, Nonce, UnboundKey},
    hkdf,
};

use crate::{
    config::ServerConfig,
    rng::Rng,
    time::Instant,
    wire::{ConnectionId, Reader, Version, Writer},
};

const KIND_RETRY: u8 = 0x52;
const KIND_VALIDATION: u8 = 0x4e;
const NONCE_LEN: usize = 12;
const TAG_LEN: usize = 16;
const MAX_CID_LEN: usize = 20;
const VALIDATION_PLAIN_LEN: usize = 8 + 4 + 16;
const RETRY_PLAIN_LEN: usize = VALIDATION_PLAIN_LEN + 2 + 2 * (1 + MAX_CID_LEN);
/// Clocks of two shards may disagree by this much.
const CLOCK_SKEW: Duration = Duration::from_secs(5);

/// Seals and opens tokens with one key.
pub struct TokenSealer {
    key: Option<LessSafeKey>,
}

/// The Initial packet that carries a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenUse {
    /// Where it comes from.
    pub remote: SocketAddr,
    /// Its destination connection ID.
    pub dcid: ConnectionId,
    /// Its version.
    pub version: Version,
}

/// What a good token proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ValidToken {
    /// The client answers a Retry of ours.
    Retry {
        /// The client's very first destination connection ID.
        original_dcid: ConnectionId,
        /// The source connection ID of our Retry.
        retry_scid: ConnectionId,
        /// Names the token; it should not open a second connection.
        id: u64,
        /// When it was given out.
        issued: Instant,
    },
    /// The client was at this IP address before.
    Validation {
        /// Names the token; it must not be honoured twice.
        id: u64,
        /// When it was given out.
        issued: Instant,
    },
}

/// A token that proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}token {fault}", if *.was_retry { "Retry " } else { "" })]
pub struct TokenError {
    /// Whether it claims to come from a Retry. Such a client takes no second Retry and gets
    /// INVALID_TOKEN; any other token is as good as none. RFC 9000 s8.1.3.
    pub was_retry: bool,
    /// What is wrong with it.
    pub fault: TokenFault,
}

/// What can be wrong with a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenFault {
    /// Not sealed by our key, or not a token at all.
    #[error("not ours")]
    Forged,
    /// Too old, or from the future.
    #[error("expired")]
    Expired,
    /// Given to somebody else.
    #[error("given to another address")]
    WrongAddress,
    /// Not sent to the connection ID that the Retry told.
    #[error("used with another connection ID")]
    WrongConnectionId,
    /// Given out on a connection of another QUIC version.
    #[error("of another QUIC version")]
    WrongVersion,
    /// Used before.
    #[error("already used")]
    Replayed,
}

impl TokenSealer {
    /// With a key derived from `secret`, so that the same secret may serve other purposes.
    pub fn new(secret: &[u8; 32]) -> Self {
        let mut key = [0; 32];
        let salt = hkdf::Salt::new(hkdf::HKDF_SHA256, b"tautline address validation");
        let derived = salt
            .extract(secret)
            .expand(&[b"token key"], hkdf::HKDF_SHA256)
            .and_then(|okm| okm.fill(&mut key))
            .and_then(|()| UnboundKey::new(&AES_256_GCM_SIV, &key));
        // Cannot fail for these lengths; without a key no token is made and none is good.
        debug_assert!(derived.is_ok(), "token key derivation");
        Self {
            key: derived.ok().map(LessSafeKey::new),
        }
    }

    /// A token for a Retry packet. It counts in `next`, the Initial that answers the Retry, whose
    /// destination is therefore the Retry's source connection ID.
    pub fn seal_retry(
        &self,
        now: Instant,
        next: &TokenUse,
        original_dcid: &ConnectionId,
        rng: &mut Rng,
    ) -> Vec<u8> {
        let mut plain = [0; RETRY_PLAIN_LEN];
        let mut w = Writer::new(&mut plain);
        w.u64(now.as_nanos());
        w.u32(next.version.0);
        w.bytes(&ip_bytes(next.remote.ip()));
        w.u16(next.remote.port());
        write_cid(&mut w, original_dcid);
        write_cid(&mut w, &next.dcid);
        debug_assert!(!w.overflowed());
        self.seal(KIND_RETRY, &plain, rng)
    }

    /// A token for a NEW_TOKEN frame to a client at `remote`, on a connection of `version` (the
    /// negotiated one).
    pub fn seal_validation(
        &self,
        now: Instant,
        remote: IpAddr,
        version: Version,
        rng: &mut Rng,
    ) -> Vec<u8> {
        let mut plain = [0; VALIDATION_PLAIN_LEN];
        let mut w = Writer::new(&mut plain);
        w.u64(now.as_nanos());
        w.u32(version.0);
        w.bytes(&ip_bytes(remote));
        debug_assert!(!w.overflowed());
        self.seal(KIND_VALIDATION, &plain, rng)
    }

    /// What `token` proves in an Initial with the properties of `here`.
    ///
    /// Whether a NEW_TOKEN token was used before is for the caller to find out.
    ///
    /// # Errors
    /// [`TokenError`] if it proves nothing.
    pub fn open(
        &self,
        now: Instant,
        token: &[u8],
        here: &TokenUse,
        config: &ServerConfig,
    ) -> Result<ValidToken, TokenError> {
        let kind = token.first().copied().unwrap_or(0);
        let was_retry = kind == KIND_RETRY;
        let fail = |fault| TokenError { was_retry, fault };
        let (id, plain) = self.unseal(token).ok_or(fail(TokenFault::Forged))?;
        let fields = Fields::read(&plain, was_retry).ok_or(fail(TokenFault::Forged))?;
        let lifetime = if was_retry {
            config.retry_token_lifetime
        } else {
            config.validation_token_lifetime
        };
        if fields.issued > now + CLOCK_SKEW || now.saturating_since(fields.issued) > lifetime {
            return Err(fail(TokenFault::Expired));
        }
        if fields.version != here.version {
            return Err(fail(TokenFault::WrongVersion));
        }
        if fields.ip != ip_bytes(here.remote.ip()) {
            return Err(fail(TokenFault::WrongAddress));
        }
        let Some(retry) = fields.retry else {
            return Ok(ValidToken::Validation {
                id,
                issued: fields.issued,
            });
        };
        if retry.port != here.remote.port() {
            return Err(fail(TokenFault::WrongAddress));
        }
        if retry.scid != here.dcid {
            return Err(fail(TokenFault::WrongConnectionId));
        }
        Ok(ValidToken::Retry {
            original_dcid: retry.original_dcid,
            retry_scid: retry.scid,
            id,
            issued: fields.issued,
        })
    }

    fn seal(&self, kind: u8, plain: &[u8], rng: &mut Rng) -> Vec<u8> {
        let Some(key) = &self.key else {
            return Vec::new();
        };
        let nonce: [u8; NONCE_LEN] = rng.array();
        let mut sealed = plain.to_vec();
        let nonce_value = Nonce::assume_unique_for_key(nonce);
        if key
            .seal_in_place_append_tag(nonce_value, Aad::from([kind]), &mut sealed)
            .is_err()
        {
            debug_assert!(false, "token sealing");
            return Vec::new();
        }
        let mut token = Vec::with_capacity(1 + NONCE_LEN + sealed.len());
        token.push(kind);
        token.extend_from_slice(&nonce);
        token.extend_from_slice(&sealed);
        token
    }

    /// The token's name (half of its nonce) and its plaintext.
    fn unseal(&self, token: &[u8]) -> Option<(u64, Vec<u8>)> {
        let key = self.key.as_ref()?;
        let (&kind, rest) = token.split_first()?;
        let expected = match kind {
            KIND_RETRY => RETRY_PLAIN_LEN,
            KIND_VALIDATION => VALIDATION_PLAIN_LEN,
            _ => return None,
        };
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>()?;
        if sealed.len() != expected + TAG_LEN {
            return None;
        }
        let mut buffer = sealed.to_vec();
        let nonce_value = Nonce::assume_unique_for_key(*nonce);
        key.open_in_place(nonce_value, Aad::from([kind]), &mut buffer)
            .ok()?;
        buffer.truncate(expected);
        Some((u64::from_be_bytes(*nonce.first_chunk()?), buffer))
    }
}

impl fmt::Debug for TokenSealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenSealer")
    }
}

/// A token's plaintext.
struct Fields {
    issued: Instant,
    version: Version,
    ip: [u8; 16],
    retry: Option<RetryFields>,
}

struct RetryFields {
    port: u16,
    original_dcid: ConnectionId,
    scid: ConnectionId,
}

impl Fields {
    fn read(plain: &[u8], retry: bool) -> Option<Self> {
        let mut r = Reader::new(plain);
        let issued = Instant::from_nanos(r.u64().ok()?);
        let version = Version(r.u32().ok()?);
        let ip = r.array().ok()?;
        let retry = if retry {
            let port = r.u16().ok()?;
            let original_dcid = read_cid(&mut r)?;
            let scid = read_cid(&mut r)?;
            Some(RetryFields {
                port,
                original_dcid,
                scid,
            })
        } else {
            None
        };
        Some(Self {
            issued,
            version,
            ip,
            retry,
        })
    }
}

fn write_cid(w: &mut Writer<'_>, cid: &ConnectionId) {
    w.u8(cid.len() as u8);
    w.bytes(cid.as_slice());
    w.zeros(MAX_CID_LEN.saturating_sub(cid.len()));
}

fn read_cid(r: &mut Reader<'_>) -> Option<ConnectionId> {
    let len = usize::from(r.u8().ok()?);
    let bytes: [u8; MAX_CID_LEN] = r.array().ok()?;
    ConnectionId::new(bytes.get(..len)?)
}

/// 16 bytes whatever the family, the same for an IPv4 address and its IPv4-mapped form.
fn ip_bytes(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}
