//! That both ends know the token, told without telling it.
//!
//! Each end shows a MAC, under the token, of a secret that only the two ends of their TLS connection can
//! derive (RFC 8446 s7.5). So nobody in the middle, to whom the connection would be two, can hand it on,
//! and the token does not leave either machine. Who sits in the middle can still try words against one
//! MAC: a token should be one that nobody guesses, as [`token`] makes it.

use aws_lc_rs::{
    error::Unspecified,
    hmac::{self, HMAC_SHA256},
    rand,
};
use tautline::Connection;

const LABEL: &[u8] = b"EXPORTER-tautline-field-1";

/// Which end shows a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prover {
    /// The one with the plan.
    Near,
    /// The one that waits.
    Far,
}

impl Prover {
    const fn context(self) -> &'static [u8] {
        match self {
            Self::Near => b"near",
            Self::Far => b"far",
        }
    }
}

fn secret(connection: &Connection, prover: Prover) -> Option<[u8; 32]> {
    let mut secret = [0; 32];
    let exported = connection.export_keying_material(&mut secret, LABEL, prover.context());
    exported.ok().map(|()| secret)
}

/// What shows that `prover` has the token on this connection, in hexadecimal.
pub(crate) fn proof(connection: &Connection, token: &str, prover: Prover) -> Option<String> {
    let key = hmac::Key::new(HMAC_SHA256, token.as_bytes());
    let tag = hmac::sign(&key, &secret(connection, prover)?);
    Some(hex(tag.as_ref()))
}

/// Whether `shown` is [`proof`]; takes as long for any that is not.
pub(crate) fn holds(connection: &Connection, token: &str, prover: Prover, shown: &str) -> bool {
    let key = hmac::Key::new(HMAC_SHA256, token.as_bytes());
    let secret = secret(connection, prover);
    let valid = |secret: [u8; 32]| hmac::verify(&key, &secret, &unhex(shown)?).ok();
    secret.and_then(valid).is_some()
}

/// 128 random bits as a word: a token, or a name that nobody guesses.
///
/// # Errors
/// When the system gives no randomness.
pub fn token() -> Result<String, Unspecified> {
    let mut bytes = [0; 16];
    rand::fill(&mut bytes)?;
    Ok(hex(&bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if text.len() > 64 {
        return None;
    }
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let digit = |byte: u8| Some(char::from(byte).to_digit(16)? as u8);
    let byte = |pair: &[u8; 2]| Some(digit(pair[0])? << 4 | digit(pair[1])?);
    rest.is_empty().then(|| pairs.iter().map(byte).collect())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_words_that_differ() {
        let (a, b) = (token().unwrap(), token().unwrap());
        assert_eq!((a.len(), a == b), (32, false));
        assert_eq!(unhex(&a).map(|bytes| hex(&bytes)), Some(a));
        for wrong in ["0", "xy", "0é", &"00".repeat(33)] {
            assert_eq!(unhex(wrong), None, "{wrong}");
        }
    }
}
