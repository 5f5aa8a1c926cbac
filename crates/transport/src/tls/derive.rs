//! From secrets to keys. RFC 9001 s5.1, s5.2, s6.1; RFC 9369 s3.3.

use aws_lc_rs::aead;
use rustls::{
    CipherSuite, Tls13CipherSuite,
    crypto::tls13::{Hkdf, HkdfExpander, OkmBlock},
    quic,
};

use super::{
    DirectionalKeys, Keys, NextKeys, PacketKey,
    aead::{AeadHeaderKey, AeadPacketKey},
};
use crate::{
    units::Side,
    wire::{ConnectionId, Version},
};

/// Keys of the Initial level: AES-128-GCM from the version's salt and the client's first
/// Destination Connection ID. RFC 9001 s5.2, RFC 9369 s3.3.1.
///
/// Only v1 and v2 exist; any other version gets v1's keys (callers check the version first).
#[allow(clippy::expect_used, reason = "a constant that no peer chooses")]
pub fn initial_keys(version: Version, dcid: &ConnectionId, side: Side) -> Keys {
    let side = match side {
        Side::Client => rustls::Side::Client,
        Side::Server => rustls::Side::Server,
    };
    let suite = rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256.tls13();
    let suite = suite.and_then(Tls13CipherSuite::quic_suite);
    let version = rustls_version(version).unwrap_or(quic::Version::V1);
    // A constant, which no peer chooses.
    suite
        .expect("TLS_AES_128_GCM_SHA256 works with QUIC")
        .keys(dcid.as_slice(), side, version)
        .into()
}

/// What rustls calls `version`.
pub(super) fn rustls_version(version: Version) -> Option<quic::Version> {
    match version {
        Version::V1 => Some(quic::Version::V1),
        Version::V2 => Some(quic::Version::V2),
        _ => None,
    }
}

/// The HKDF labels in which versions differ.
struct Labels {
    key: &'static [u8],
    iv: &'static [u8],
    header: &'static [u8],
    update: &'static [u8],
}

const LABELS_V1: Labels = Labels {
    key: b"quic key",
    iv: b"quic iv",
    header: b"quic hp",
    update: b"quic ku",
};
const LABELS_V2: Labels = Labels {
    key: b"quicv2 key",
    iv: b"quicv2 iv",
    header: b"quicv2 hp",
    update: b"quicv2 ku",
};

/// HKDF-Expand-Label with an empty context. RFC 8446 s7.1. `None` if `out` is too long.
fn expand_label(expander: &dyn HkdfExpander, label: &[u8], out: &mut [u8]) -> Option<()> {
    const PREFIX: &[u8] = b"tls13 ";
    let out_len = u16::try_from(out.len()).ok()?.to_be_bytes();
    let label_len = [u8::try_from(PREFIX.len() + label.len()).ok()?];
    expander
        .expand_slice(&[&out_len, &label_len, PREFIX, label, &[0]], out)
        .ok()
}

/// What a cipher suite and a version need to make packet keys.
#[derive(Clone, Copy)]
pub(super) struct Deriver {
    hkdf: &'static dyn Hkdf,
    packet: &'static aead::Algorithm,
    header: &'static aead::quic::Algorithm,
    confidentiality_limit: u64,
    integrity_limit: u64,
    labels: &'static Labels,
}

impl Deriver {
    /// `None` for a suite or version that we cannot derive keys for.
    pub(super) fn new(suite: &'static Tls13CipherSuite, version: Version) -> Option<Self> {
        // Limits: RFC 9001 s6.6 and appendix B.
        let (packet, header, confidentiality_limit, integrity_limit) = match suite.common.suite {
            CipherSuite::TLS13_AES_128_GCM_SHA256 => {
                (&aead::AES_128_GCM, &aead::quic::AES_128, 1 << 23, 1 << 52)
            }
            CipherSuite::TLS13_AES_256_GCM_SHA384 => {
                (&aead::AES_256_GCM, &aead::quic::AES_256, 1 << 23, 1 << 52)
            }
            CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => (
                &aead::CHACHA20_POLY1305,
                &aead::quic::CHACHA20,
                u64::MAX,
                1 << 36,
            ),
            _ => return None,
        };
        let labels = match version {
            Version::V1 => &LABELS_V1,
            Version::V2 => &LABELS_V2,
            _ => return None,
        };
        let hkdf = suite.hkdf_provider;
        Some(Self {
            hkdf,
            packet,
            header,
            confidentiality_limit,
            integrity_limit,
            labels,
        })
    }

    pub(super) fn packet_key(&self, secret: &OkmBlock) -> Option<Box<dyn PacketKey>> {
        let expander = self.hkdf.expander_for_okm(secret);
        let mut key = [0; 32];
        let key = key.get_mut(..self.packet.key_len())?;
        expand_label(expander.as_ref(), self.labels.key, key)?;
        let mut iv = [0; 12];
        expand_label(expander.as_ref(), self.labels.iv, &mut iv)?;
        let key = aead::LessSafeKey::new(aead::UnboundKey::new(self.packet, key).ok()?);
        Some(Box::new(AeadPacketKey {
            key,
            iv,
            confidentiality_limit: self.confidentiality_limit,
            integrity_limit: self.integrity_limit,
        }))
    }

    fn directional(&self, secret: &OkmBlock) -> Option<DirectionalKeys> {
        let expander = self.hkdf.expander_for_okm(secret);
        let mut key = [0; 32];
        let key = key.get_mut(..self.header.key_len())?;
        expand_label(expander.as_ref(), self.labels.header, key)?;
        let header = aead::quic::HeaderProtectionKey::new(self.header, key).ok()?;
        Some(DirectionalKeys {
            header: Box::new(AeadHeaderKey(header)),
            packet: self.packet_key(secret)?,
        })
    }

    pub(super) fn keys(&self, local: &OkmBlock, remote: &OkmBlock) -> Option<Keys> {
        Some(Keys {
            local: self.directional(local)?,
            remote: self.directional(remote)?,
        })
    }

    /// The secret of the next key phase. RFC 9001 s6.1.
    pub(super) fn next_secret(&self, secret: &OkmBlock) -> Option<OkmBlock> {
        let expander = self.hkdf.expander_for_okm(secret);
        let mut next = [0; 64];
        let next = next.get_mut(..secret.as_ref().len())?;
        expand_label(expander.as_ref(), self.labels.update, next)?;
        Some(OkmBlock::new(next))
    }
}

/// Keys of later phases from application traffic secrets that we hold ourselves.
pub(super) struct DerivedNextKeys {
    deriver: Deriver,
    local: OkmBlock,
    remote: OkmBlock,
}

impl DerivedNextKeys {
    /// From the secrets of key phase 0.
    pub(super) fn new(deriver: Deriver, local: OkmBlock, remote: OkmBlock) -> Self {
        Self {
            deriver,
            local,
            remote,
        }
    }
}

impl NextKeys for DerivedNextKeys {
    fn next(&mut self) -> Option<(Box<dyn PacketKey>, Box<dyn PacketKey>)> {
        self.local = self.deriver.next_secret(&self.local)?;
        self.remote = self.deriver.next_secret(&self.remote)?;
        Some((
            self.deriver.packet_key(&self.local)?,
            self.deriver.packet_key(&self.remote)?,
        ))
    }
}

/// Keys of later phases as rustls derives them.
pub(super) struct RustlsNextKeys(pub(super) quic::Secrets);

impl NextKeys for RustlsNextKeys {
    fn next(&mut self) -> Option<(Box<dyn PacketKey>, Box<dyn PacketKey>)> {
        let keys = self.0.next_packet_keys();
        Some((keys.local, keys.remote))
    }
}
