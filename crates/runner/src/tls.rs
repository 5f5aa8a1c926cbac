//! The few things read of TLS messages. RFC 8446 s4, RFC 9001 s8.2.

use crate::dissect::Message;

const CLIENT_HELLO: u8 = 1;
const SERVER_HELLO: u8 = 2;
const ENCRYPTED_EXTENSIONS: u8 = 8;
/// The random of a HelloRetryRequest. RFC 8446 s4.1.3.
const HELLO_RETRY_START: [u8; 4] = [0xcf, 0x21, 0xad, 0x74];
const QUIC_TRANSPORT_PARAMETERS: u16 = 0x39;
const INITIAL_MAX_STREAMS_BIDI: u64 = 0x08;

/// Takes from the front of a message.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(front)
    }

    fn number(&mut self, bytes: usize) -> Option<usize> {
        let bytes = self.take(bytes)?;
        Some(bytes.iter().fold(0, |n, byte| n << 8 | usize::from(*byte)))
    }

    /// A vector with a length of this many bytes in front.
    fn vector(&mut self, len_bytes: usize) -> Option<&'a [u8]> {
        let len = self.number(len_bytes)?;
        self.take(len)
    }

    fn varint(&mut self) -> Option<u64> {
        let first = *self.0.first()?;
        let bytes = self.take(1 << (first >> 6))?;
        let start = u64::from(first & 0x3f);
        Some(
            bytes
                .iter()
                .skip(1)
                .fold(start, |n, byte| n << 8 | u64::from(*byte)),
        )
    }
}

/// The random of a ServerHello, unless it asks to try again.
pub(crate) fn server_random(message: &Message) -> Option<Vec<u8>> {
    if message.kind != SERVER_HELLO {
        return None;
    }
    let random = message.body.get(2..34)?;
    (!random.starts_with(&HELLO_RETRY_START)).then(|| random.to_vec())
}

/// The cipher suites of a ClientHello, those of GREASE left out.
pub(crate) fn offered_suites(message: &Message) -> Option<Vec<u16>> {
    if message.kind != CLIENT_HELLO {
        return None;
    }
    let mut hello = Cursor(&message.body);
    hello.take(2 + 32)?;
    hello.vector(1)?;
    let suites = hello.vector(2)?.chunks_exact(2);
    let suites = suites.filter_map(|suite| Some(u16::from_be_bytes(suite.try_into().ok()?)));
    Some(suites.filter(|suite| suite & 0x0f0f != 0x0a0a).collect())
}

/// The server's transport parameter initial_max_streams_bidi, 0 when absent.
pub(crate) fn initial_max_streams_bidi(message: &Message) -> Option<u64> {
    if message.kind != ENCRYPTED_EXTENSIONS {
        return None;
    }
    let mut extensions = Cursor(Cursor(&message.body).vector(2)?);
    loop {
        let kind = extensions.number(2)?;
        let mut value = Cursor(extensions.vector(2)?);
        if kind != usize::from(QUIC_TRANSPORT_PARAMETERS) {
            continue;
        }
        while let Some(id) = value.varint() {
            let len = usize::try_from(value.varint()?).ok()?;
            let parameter = value.take(len)?;
            if id == INITIAL_MAX_STREAMS_BIDI {
                return Cursor(parameter).varint();
            }
        }
        return Some(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, body: &[u8]) -> Message {
        Message {
            kind,
            body: body.to_vec(),
        }
    }

    #[test]
    fn hellos_and_extensions() {
        let mut hello = vec![3, 3];
        hello.extend([7; 32]);
        hello.extend([2, 9, 9, 0, 6, 0x1a, 0x1a, 0x13, 3, 0x13, 1, 1, 0]);
        assert_eq!(
            offered_suites(&message(1, &hello)),
            Some(vec![0x1303, 0x1301])
        );
        assert_eq!(server_random(&message(2, &hello)), Some(vec![7; 32]));
        let extensions = [0, 13, 0, 16, 0, 0, 0, 0x39, 0, 5, 1, 1, 0, 8, 1];
        assert_eq!(initial_max_streams_bidi(&message(8, &extensions)), None);
        let extensions = [0, 15, 0, 16, 0, 0, 0, 0x39, 0, 7, 1, 1, 0, 8, 2, 0x43, 0xe8];
        assert_eq!(
            initial_max_streams_bidi(&message(8, &extensions)),
            Some(1000)
        );
        for len in 0..hello.len() {
            let _ = offered_suites(&message(1, &hello[..len]));
        }
    }
}
