//! The Retry packet's integrity tag.

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

use super::TAG_LEN;
use crate::wire::{ConnectionId, Version};

/// Key and nonce of v1. RFC 9001 s5.8.
const V1: ([u8; 16], [u8; 12]) = (
    0xbe0c_690b_9f66_575a_1d76_6b54_e368_c84e_u128.to_be_bytes(),
    [
        0x46, 0x15, 0x99, 0xd3, 0x5d, 0x63, 0x2b, 0xf2, 0x23, 0x98, 0x25, 0xbb,
    ],
);
/// Key and nonce of v2. RFC 9369 s3.3.3.
const V2: ([u8; 16], [u8; 12]) = (
    0x8fb4_b01b_56ac_48e2_60fb_cbce_ad7c_cc92_u128.to_be_bytes(),
    [
        0xd8, 0x69, 0x69, 0xbc, 0x2d, 0x7c, 0x6d, 0x99, 0x90, 0xef, 0xb0, 0x4a,
    ],
);

/// The integrity tag that ends a Retry packet. RFC 9001 s5.8.
///
/// `odcid` is the Destination Connection ID of the Initial that the Retry answers;
/// `retry_without_tag` the whole packet but its last 16 bytes. Anyone can compute it: it detects
/// corruption and off-path guesses, nothing more.
pub fn retry_integrity_tag(
    version: Version,
    odcid: &ConnectionId,
    retry_without_tag: &[u8],
) -> [u8; 16] {
    let (key, nonce) = if version == Version::V2 { V2 } else { V1 };
    let mut pseudo_packet = Vec::with_capacity(1 + odcid.len() + retry_without_tag.len());
    pseudo_packet.push(u8::try_from(odcid.len()).unwrap_or(u8::MAX));
    pseudo_packet.extend_from_slice(odcid.as_slice());
    pseudo_packet.extend_from_slice(retry_without_tag);

    let sealed = UnboundKey::new(&AES_128_GCM, &key).and_then(|key| {
        LessSafeKey::new(key).seal_in_place_separate_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(&pseudo_packet),
            &mut [],
        )
    });
    debug_assert!(sealed.is_ok(), "sealing nothing under a constant key");
    let mut tag = [0; TAG_LEN];
    if let Ok(sealed) = sealed {
        tag.copy_from_slice(sealed.as_ref());
    }
    tag
}
