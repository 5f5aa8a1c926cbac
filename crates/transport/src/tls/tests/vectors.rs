//! RFC 9001 appendix A, RFC 9369 appendix A, and the multipath nonce.

use aws_lc_rs::aead;
use rustls::{Tls13CipherSuite, crypto::tls13::OkmBlock};

use super::{
    super::{
        DirectionalKeys, TAG_LEN,
        aead::{AeadPacketKey, nonce},
        derive::Deriver,
        initial_keys, open_in_place, retry_integrity_tag, seal_in_place,
    },
    hex,
};
use crate::{
    tls::PacketKey,
    units::{PathId, Side},
    wire::{ConnectionId, Version},
};

const DCID: [u8; 8] = [0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08];

/// The CRYPTO frame of RFC 9001 A.2 and RFC 9369 A.2.
const CLIENT_FRAME: &str = "
    060040f1010000ed0303ebf8fa56f12939b9584a3896472ec40bb863cfd3e868
    04fe3a47f06a2b69484c00000413011302010000c000000010000e00000b6578
    616d706c652e636f6dff01000100000a00080006001d00170018001000070005
    04616c706e000500050100000000003300260024001d00209370b2c9caa47fba
    baf4559fedba753de171fa71f50f1ce15d43e994ec74d748002b000302030400
    0d0010000e0403050306030203080408050806002d00020101001c0002400100
    3900320408ffffffffffffffff05048000ffff07048000ffff08011001048000
    75300901100f088394c8f03e51570806048000ffff";

/// The frames of RFC 9001 A.3 and RFC 9369 A.3.
const SERVER_FRAMES: &str = "
    02000000000600405a020000560303eefce7f7b37ba1d1632e96677825ddf739
    88cfc79825df566dc5430b9a045a1200130100002e00330024001d00209d3c94
    0d89690b84d08a60993c144eca684d1081287c834d5311bcf32bb9da1a002b00
    020304";

/// Seals and masks a packet; `header` ends with the packet number, `number_len` bytes long.
fn protect(
    keys: &DirectionalKeys,
    header: &[u8],
    number_len: usize,
    pn: u64,
    payload: &[u8],
) -> Vec<u8> {
    let mut packet = [header, payload, &[0; TAG_LEN]].concat();
    let (head, body) = packet.split_at_mut(header.len());
    seal_in_place(keys.packet.as_ref(), PathId::ZERO, pn, head, body).unwrap();
    let number_at = header.len() - number_len;
    let (head, sample) = packet.split_at_mut(number_at + 4);
    let (first, rest) = head.split_first_mut().unwrap();
    let number = &mut rest[number_at - 1..][..number_len];
    keys.header
        .encrypt_in_place(&sample[..16], first, number)
        .unwrap();
    packet
}

/// Unmasks and opens a packet; returns header and payload.
fn unprotect(
    keys: &DirectionalKeys,
    packet: &[u8],
    number_at: usize,
    pn: u64,
) -> (Vec<u8>, Vec<u8>) {
    let mut packet = packet.to_vec();
    let (head, sample) = packet.split_at_mut(number_at + 4);
    let (first, rest) = head.split_first_mut().unwrap();
    keys.header
        .decrypt_in_place(&sample[..16], first, &mut rest[number_at - 1..])
        .unwrap();
    let header_len = number_at + usize::from(packet[0] & 3) + 1;
    let (header, body) = packet.split_at_mut(header_len);
    let len = open_in_place(keys.packet.as_ref(), PathId::ZERO, pn, header, body).unwrap();
    (header.to_vec(), body[..len].to_vec())
}

fn check_initials(version: Version, client: [&str; 2], server: [&str; 2]) {
    let cid = ConnectionId::new(&DCID).unwrap();
    let client_keys = initial_keys(version, &cid, Side::Client);
    let server_keys = initial_keys(version, &cid, Side::Server);

    let [header, protected_start] = client.map(hex);
    let mut payload = hex(CLIENT_FRAME);
    payload.resize(1162, 0);
    let packet = protect(&client_keys.local, &header, 4, 2, &payload);
    assert_eq!(packet.len(), 1200);
    assert_eq!(packet[..protected_start.len()], protected_start);
    assert_eq!(
        unprotect(&server_keys.remote, &packet, 18, 2),
        (header, payload)
    );

    let [header, protected] = server.map(hex);
    let packet = protect(&server_keys.local, &header, 2, 1, &hex(SERVER_FRAMES));
    assert_eq!(packet, protected);
    assert_eq!(
        unprotect(&client_keys.remote, &packet, 18, 1),
        (header, hex(SERVER_FRAMES))
    );
}

#[test]
fn initial_packets_v1() {
    check_initials(
        Version::V1,
        [
            "c300000001088394c8f03e5157080000449e00000002",
            "c000000001088394c8f03e5157080000449e7b9aec34
             d1b1c98dd7689fb8ec11d242b123dc9bd8bab936b47d92ec356c0bab7df5976d
             27cd449f63300099f3991c260ec4c60d17b31f8429157bb35a1282a643a8d226",
        ],
        [
            "c1000000010008f067a5502a4262b50040750001",
            "cf000000010008f067a5502a4262b5004075c0d95a482cd0991cd25b0aac406a
             5816b6394100f37a1c69797554780bb38cc5a99f5ede4cf73c3ec2493a1839b3
             dbcba3f6ea46c5b7684df3548e7ddeb9c3bf9c73cc3f3bded74b562bfb19fb84
             022f8ef4cdd93795d77d06edbb7aaf2f58891850abbdca3d20398c276456cbc4
             2158407dd074ee",
        ],
    );
}

#[test]
fn initial_packets_v2() {
    check_initials(
        Version::V2,
        [
            "d36b3343cf088394c8f03e5157080000449e00000002",
            "d76b3343cf088394c8f03e5157080000449ea0c95e82
             ffe67b6abcdb4298b485dd04de806071bf03dceebfa162e75d6c96058bdbfb12
             7cdfcbf903388e99ad049f9a3dd4425ae4d0992cfff18ecf0fdb5a842d097470",
        ],
        [
            "d16b3343cf0008f067a5502a4262b50040750001",
            "dc6b3343cf0008f067a5502a4262b5004075d92faaf16f05d8a4398c47089698
             baeea26b91eb761d9b89237bbf87263017915358230035f7fd3945d88965cf17
             f9af6e16886c61bfc703106fbaf3cb4cfa52382dd16a393e42757507698075b2
             c984c707f0a0812d8cd5a6881eaf21ceda98f4bd23f6fe1a3e2c43edd9ce7ca8
             4bed8521e2e140",
        ],
    );
}

#[test]
fn retry_tags() {
    let cid = ConnectionId::new(&DCID).unwrap();
    // RFC 9001 A.4, RFC 9369 A.4.
    for (version, packet) in [
        (
            Version::V1,
            "ff000000010008f067a5502a4262b5746f6b656e04a265ba2eff4d829058fb3f0f2496ba",
        ),
        (
            Version::V2,
            "cf6b3343cf0008f067a5502a4262b5746f6b656ec8646ce8bfe33952d955543665dcc7b6",
        ),
    ] {
        let packet = hex(packet);
        let (without_tag, tag) = packet.split_last_chunk::<16>().unwrap();
        assert_eq!(
            retry_integrity_tag(version, &cid, without_tag),
            *tag,
            "{version:?}"
        );
        let other = ConnectionId::new(&DCID[1..]).unwrap();
        assert_ne!(retry_integrity_tag(version, &other, without_tag), *tag);
    }
}

fn chacha20() -> &'static Tls13CipherSuite {
    rustls::crypto::aws_lc_rs::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256
        .tls13()
        .unwrap()
}

/// RFC 9001 A.5, RFC 9369 A.5: a short header packet, from keys that we derive ourselves.
#[test]
fn short_packets_from_derived_keys() {
    let secret = OkmBlock::new(&hex(
        "9ac312a7f877468ebe69422748ad00a15443f18203a07d6060f688f30f21632b",
    ));
    for (version, expected, next) in [
        (
            Version::V1,
            "4cfe4189655e5cd55c41f69080575d7999c25a5bfb",
            "1223504755036d556342ee9361d253421a826c9ecdf3c7148684b36b714881f9",
        ),
        (
            Version::V2,
            "5558b1c60ae7b6b932bc27d786f4bc2bb20f2162ba",
            "c69374c49e3d2a9466fa689e49d476db5d0dfbc87d32ceeaa6343fd0ae4c7d88",
        ),
    ] {
        let deriver = Deriver::new(chacha20(), version).unwrap();
        let keys = deriver.keys(&secret, &secret).unwrap();
        let packet = protect(&keys.local, &hex("4200bff4"), 3, 654_360_564, &[0x01]);
        assert_eq!(packet, hex(expected), "{version:?}");
        let opened = unprotect(&keys.remote, &packet, 1, 654_360_564);
        assert_eq!(opened, (hex("4200bff4"), vec![0x01]));
        assert_eq!(
            deriver.next_secret(&secret).unwrap().as_ref(),
            hex(next),
            "{version:?}"
        );
    }
}

/// The example of RFC 10069 s2.4.
#[test]
fn multipath_nonce() {
    let iv = hex("6b26114b9cba2b63a9e8dd4f").try_into().unwrap();
    assert_eq!(
        nonce(&iv, 3, 0xd431).to_vec(),
        hex("6b2611489cba2b63a9e8097e")
    );
    // Path 0 is RFC 9001's nonce.
    assert_eq!(nonce(&iv, 0, 2).to_vec(), hex("6b26114b9cba2b63a9e8dd4d"));
}

/// The library's path-aware calls use that nonce: what one seals under (path, number), a plain
/// AEAD opens under the vector's nonce, and nobody under another path.
#[test]
fn multipath_nonce_is_the_one_in_use() {
    let iv: [u8; 12] = hex("6b26114b9cba2b63a9e8dd4f").try_into().unwrap();
    let plain = || {
        let key = aead::UnboundKey::new(&aead::AES_128_GCM, &[7; 16]).unwrap();
        aead::LessSafeKey::new(key)
    };
    let ours = AeadPacketKey {
        key: plain(),
        iv,
        confidentiality_limit: 1,
        integrity_limit: 1,
    };
    let mut sealed = *b"text................";
    seal_in_place(&ours, PathId(3), 0xd431, b"header", &mut sealed).unwrap();
    let expected: [u8; 12] = hex("6b2611489cba2b63a9e8097e").try_into().unwrap();
    let opened = plain()
        .open_in_place(
            aead::Nonce::assume_unique_for_key(expected),
            aead::Aad::from(b"header"),
            &mut sealed.clone(),
        )
        .map(|plain| plain.to_vec());
    assert_eq!(opened.unwrap(), b"text");
    for (path, pn) in [(2, 0xd431), (3, 0xd430), (0, 0xd431)] {
        let mut copy = sealed;
        assert_eq!(
            open_in_place(&ours, PathId(path), pn, b"header", &mut copy),
            None
        );
    }

    // rustls' keys and ours agree on every path: AES-128 keys of the same secret.
    let suite = rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256
        .tls13()
        .unwrap();
    let cid = ConnectionId::new(&DCID).unwrap();
    let theirs = initial_keys(Version::V2, &cid, Side::Client).local.packet;
    let secret = OkmBlock::new(&hex(
        "14ec9d6eb9fd7af83bf5a668bc17a7e283766aade7ecd0891f70f9ff7f4bf47b",
    ));
    let ours = Deriver::new(suite, Version::V2)
        .unwrap()
        .packet_key(&secret)
        .unwrap();
    for path in [0, 1, 3, u32::MAX] {
        for pn in [0, 0xd431, (1 << 62) - 1] {
            let mut sealed = [5; 20];
            seal_in_place(theirs.as_ref(), PathId(path), pn, b"header", &mut sealed).unwrap();
            let len = open_in_place(ours.as_ref(), PathId(path), pn, b"header", &mut sealed);
            assert_eq!((len, &sealed[..4]), (Some(4), &[5; 4][..]));
        }
    }
}

#[test]
fn too_little_room_is_an_error() {
    let cid = ConnectionId::new(&DCID).unwrap();
    let keys = initial_keys(Version::V1, &cid, Side::Client);
    for len in 0..TAG_LEN {
        let mut room = vec![0; len];
        let key: &dyn PacketKey = keys.local.packet.as_ref();
        assert!(seal_in_place(key, PathId::ZERO, 0, b"", &mut room).is_err());
        assert_eq!(open_in_place(key, PathId::ZERO, 0, b"", &mut room), None);
    }
}
