//! The ClientHello reader: real bytes, broken bytes, any bytes.

use proptest::prelude::*;

use super::{super::client_hello::*, hex};
use crate::error::Code;

/// The ClientHello of RFC 9001 A.2.
fn sample() -> Vec<u8> {
    hex("010000ed0303ebf8fa56f12939b9584a3896472ec40bb863cfd3e868
         04fe3a47f06a2b69484c00000413011302010000c000000010000e00000b6578
         616d706c652e636f6dff01000100000a00080006001d00170018001000070005
         04616c706e000500050100000000003300260024001d00209370b2c9caa47fba
         baf4559fedba753de171fa71f50f1ce15d43e994ec74d748002b000302030400
         0d0010000e0403050306030203080408050806002d00020101001c0002400100
         3900320408ffffffffffffffff05048000ffff07048000ffff08011001048000
         75300901100f088394c8f03e51570806048000ffff")
}

fn code(data: &[u8]) -> Code {
    parse(data).unwrap_err().code
}

/// A ClientHello with these extensions.
fn hello(session_id: &[u8], extensions: &[(u16, &[u8])]) -> Vec<u8> {
    let mut list = Vec::new();
    for (id, content) in extensions {
        list.extend_from_slice(&id.to_be_bytes());
        list.extend_from_slice(&u16::try_from(content.len()).unwrap().to_be_bytes());
        list.extend_from_slice(content);
    }
    let mut body = vec![3, 3];
    body.extend_from_slice(&[9; 32]);
    body.push(u8::try_from(session_id.len()).unwrap());
    body.extend_from_slice(session_id);
    body.extend_from_slice(&[0, 2, 0x13, 1, 1, 0]);
    body.extend_from_slice(&u16::try_from(list.len()).unwrap().to_be_bytes());
    body.extend_from_slice(&list);
    let len = u32::try_from(body.len()).unwrap().to_be_bytes();
    [&[1], &len[1..], &body].concat()
}

#[test]
fn reads_the_sample() {
    let data = sample();
    for len in 0..data.len() {
        assert_eq!(parse(&data[..len]), Ok(None), "{len} bytes");
    }
    let hello = parse(&data).unwrap().unwrap();
    assert_eq!(hello.server_name.as_deref(), Some("example.com"));
    assert_eq!(hello.alpn, [b"alpn".to_vec()]);
    assert_eq!(hello.len, data.len());
    assert!(!hello.early_data);
    let params = hello.require_transport_parameters().unwrap();
    assert_eq!(params.len(), 50);
    // Bytes after the message belong to the next one.
    let more = [data.as_slice(), &[1, 2, 3]].concat();
    assert_eq!(parse(&more).unwrap().unwrap().len, data.len());
}

#[test]
fn names_what_is_missing_or_wrong() {
    let none = hello(&[], &[]);
    let parsed = parse(&none).unwrap().unwrap();
    assert_eq!(
        parsed.require_transport_parameters().unwrap_err().code,
        Code(0x16d)
    );

    assert_eq!(code(&[2]), Code::crypto(10));
    assert_eq!(code(&hello(&[5; 32], &[])), Code::PROTOCOL_VIOLATION);
    for id in [0x39, 42] {
        assert_eq!(code(&hello(&[], &[(id, b""), (id, b"")])), Code::crypto(47));
    }
    let alpn: (u16, &[u8]) = (16, &[0, 3, 2, b'h', b'3']);
    assert_eq!(code(&hello(&[], &[alpn, alpn])), Code::crypto(47));
    // Empty names and lists, lengths that do not add up.
    for content in [
        &[0, 0][..],
        &[0, 1, 0],
        &[0, 3, 2, b'h'],
        &[],
        &[0, 3, 2, b'h', b'3', 0],
    ] {
        assert_eq!(
            code(&hello(&[], &[(16, content)])),
            Code::crypto(50),
            "{content:?}"
        );
    }
    for content in [
        &[0, 0][..],
        &[0, 3, 0, 0, 9],
        &[],
        &[0, 4, 0, 0, 1, b'a', 7],
    ] {
        assert_eq!(
            code(&hello(&[], &[(0, content)])),
            Code::crypto(50),
            "{content:?}"
        );
    }
    // Too long: said at once, not after 16 MiB.
    assert_eq!(code(&[1, 0xff, 0xff, 0xff]), Code::CRYPTO_BUFFER_EXCEEDED);
}

#[test]
fn keeps_few_protocols() {
    let list: Vec<u8> = (0..200u8).flat_map(|n| [1, n]).collect();
    let content = [
        &u16::try_from(list.len()).unwrap().to_be_bytes(),
        list.as_slice(),
    ]
    .concat();
    let data = hello(&[], &[(16, &content)]);
    assert_eq!(parse(&data).unwrap().unwrap().alpn.len(), 64);
}

proptest! {
    #[test]
    fn any_bytes(data in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = parse(&data);
    }

    #[test]
    fn any_body(body in prop::collection::vec(any::<u8>(), 0..300)) {
        let len = u32::try_from(body.len()).unwrap().to_be_bytes();
        let data = [&[1], &len[1..], &body].concat();
        prop_assert_ne!(parse(&data), Ok(None));
    }

    #[test]
    fn one_byte_changed(at in 0usize..241, value: u8) {
        let mut data = sample();
        data[at] = value;
        if let Ok(Some(hello)) = parse(&data) {
            prop_assert!(hello.len <= data.len());
        }
    }
}
