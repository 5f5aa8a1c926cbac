//! Sealing and opening one packet, and the AEAD keys of a version that TLS does not know about.

use aws_lc_rs::aead;
use rustls::{Error, quic::Tag};

use super::{HeaderProtectionKey, PacketKey};
use crate::{
    error::TransportError,
    units::{PacketNumber, PathId},
};

/// Length of every QUIC AEAD's authentication tag, in bytes. RFC 9001 s5.3.
pub const TAG_LEN: usize = 16;

/// Seals a packet in place.
///
/// `payload_and_tag` is the plaintext followed by [`TAG_LEN`] bytes of room, which receive the
/// tag. The nonce contains `path` (RFC 10069 s2.4); path 0 gives exactly RFC 9001 s5.3.
///
/// # Errors
/// INTERNAL_ERROR when the room is missing or the payload is too long for the AEAD.
pub fn seal_in_place(
    key: &dyn PacketKey,
    path: PathId,
    pn: PacketNumber,
    header: &[u8],
    payload_and_tag: &mut [u8],
) -> Result<(), TransportError> {
    let failed = || TransportError::internal("packet could not be sealed");
    let payload_len = payload_and_tag
        .len()
        .checked_sub(TAG_LEN)
        .ok_or_else(failed)?;
    let (payload, tag_room) = payload_and_tag.split_at_mut(payload_len);
    let tag = match path {
        PathId::ZERO => key.encrypt_in_place(pn, header, payload),
        PathId(id) => key.encrypt_in_place_for_path(id, pn, header, payload),
    }
    .map_err(|_| failed())?;
    tag_room.copy_from_slice(tag.as_ref());
    Ok(())
}

/// Opens a packet in place; `payload` is ciphertext and tag. Returns the plaintext's length, or
/// `None` if the packet is not authentic (its bytes are then garbage).
pub fn open_in_place(
    key: &dyn PacketKey,
    path: PathId,
    pn: PacketNumber,
    header: &[u8],
    payload: &mut [u8],
) -> Option<usize> {
    match path {
        PathId::ZERO => key.decrypt_in_place(pn, header, payload),
        PathId(id) => key.decrypt_in_place_for_path(id, pn, header, payload),
    }
    .ok()
    .map(<[u8]>::len)
}

/// The AEAD nonce of a packet: `iv` xor (path ID in 32 bits, packet number in 64). RFC 10069 s2.4.
pub(super) fn nonce(iv: &[u8; 12], path: u32, pn: PacketNumber) -> [u8; 12] {
    let mut nonce = *iv;
    let (path_part, pn_part) = nonce.split_at_mut(4);
    for (byte, mask) in path_part.iter_mut().zip(path.to_be_bytes()) {
        *byte ^= mask;
    }
    for (byte, mask) in pn_part.iter_mut().zip(pn.to_be_bytes()) {
        *byte ^= mask;
    }
    nonce
}

/// A packet protection key made from key material that we derived ourselves.
pub(super) struct AeadPacketKey {
    pub(super) key: aead::LessSafeKey,
    pub(super) iv: [u8; 12],
    pub(super) confidentiality_limit: u64,
    pub(super) integrity_limit: u64,
}

impl AeadPacketKey {
    fn nonce(&self, path: u32, pn: PacketNumber) -> aead::Nonce {
        aead::Nonce::assume_unique_for_key(nonce(&self.iv, path, pn))
    }
}

impl PacketKey for AeadPacketKey {
    fn encrypt_in_place(&self, pn: u64, header: &[u8], payload: &mut [u8]) -> Result<Tag, Error> {
        self.encrypt_in_place_for_path(0, pn, header, payload)
    }

    fn encrypt_in_place_for_path(
        &self,
        path: u32,
        pn: u64,
        header: &[u8],
        payload: &mut [u8],
    ) -> Result<Tag, Error> {
        self.key
            .seal_in_place_separate_tag(self.nonce(path, pn), aead::Aad::from(header), payload)
            .map(|tag| Tag::from(tag.as_ref()))
            .map_err(|_| Error::EncryptError)
    }

    fn decrypt_in_place<'a>(
        &self,
        pn: u64,
        header: &[u8],
        payload: &'a mut [u8],
    ) -> Result<&'a [u8], Error> {
        self.decrypt_in_place_for_path(0, pn, header, payload)
    }

    fn decrypt_in_place_for_path<'a>(
        &self,
        path: u32,
        pn: u64,
        header: &[u8],
        payload: &'a mut [u8],
    ) -> Result<&'a [u8], Error> {
        self.key
            .open_in_place(self.nonce(path, pn), aead::Aad::from(header), payload)
            .map(|plain| &*plain)
            .map_err(|_| Error::DecryptError)
    }

    fn tag_len(&self) -> usize {
        TAG_LEN
    }

    fn confidentiality_limit(&self) -> u64 {
        self.confidentiality_limit
    }

    fn integrity_limit(&self) -> u64 {
        self.integrity_limit
    }
}

/// A header protection key made from key material that we derived ourselves.
pub(super) struct AeadHeaderKey(pub(super) aead::quic::HeaderProtectionKey);

impl AeadHeaderKey {
    /// RFC 9001 s5.4.1. `protected` says whether the packet number length in `first` is masked now.
    fn apply(
        &self,
        sample: &[u8],
        first: &mut u8,
        packet_number: &mut [u8],
        protected: bool,
    ) -> Result<(), Error> {
        let mask = self
            .0
            .new_mask(sample)
            .map_err(|_| Error::General("sample length".into()))?;
        let [first_mask, number_mask @ ..] = mask;
        if packet_number.len() > number_mask.len() {
            return Err(Error::General("packet number length".into()));
        }
        let masked_bits = if *first & 0x80 != 0 { 0x0f } else { 0x1f };
        let other = *first ^ (first_mask & masked_bits);
        let plain = if protected { other } else { *first };
        *first = other;
        let number_len = usize::from(plain & 0x03) + 1;
        for (byte, mask) in packet_number.iter_mut().zip(number_mask).take(number_len) {
            *byte ^= mask;
        }
        Ok(())
    }
}

impl HeaderProtectionKey for AeadHeaderKey {
    fn encrypt_in_place(
        &self,
        sample: &[u8],
        first: &mut u8,
        packet_number: &mut [u8],
    ) -> Result<(), Error> {
        self.apply(sample, first, packet_number, false)
    }

    fn decrypt_in_place(
        &self,
        sample: &[u8],
        first: &mut u8,
        packet_number: &mut [u8],
    ) -> Result<(), Error> {
        self.apply(sample, first, packet_number, true)
    }

    fn sample_len(&self) -> usize {
        self.0.algorithm().sample_len()
    }
}
