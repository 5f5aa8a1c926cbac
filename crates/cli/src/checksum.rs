//! SHA-256 of what passes by.

use std::{fmt, io::Read, str::FromStr};

use aws_lc_rs::digest::{Context, SHA256};

/// SHA-256 under way.
#[derive(Clone)]
pub(crate) struct Hasher(Context);

/// A SHA-256 digest; prints and parses as 64 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Digest([u8; 32]);

impl Hasher {
    pub(crate) fn new() -> Self {
        Self(Context::new(&SHA256))
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Reads up to the end.
    pub(crate) fn update_from(&mut self, mut from: impl Read) -> std::io::Result<u64> {
        let mut buffer = vec![0; 256 * 1024];
        let mut total = 0;
        loop {
            let read = from.read(&mut buffer)?;
            let Some(filled) = buffer.get(..read).filter(|filled| !filled.is_empty()) else {
                return Ok(total);
            };
            self.update(filled);
            total += read as u64;
        }
    }

    pub(crate) fn finish(self) -> Digest {
        let mut bytes = [0; 32];
        for (to, from) in bytes.iter_mut().zip(self.0.finish().as_ref()) {
            *to = *from;
        }
        Digest(bytes)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for Digest {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // The same form as a certificate's fingerprint.
        text.parse::<tautline::tls::Fingerprint>()
            .map(|fingerprint| Self(fingerprint.0))
            .map_err(|_| "a SHA-256 checksum has 64 hexadecimal digits".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_fips_180() {
        let mut hasher = Hasher::new();
        assert_eq!(hasher.update_from(&b"abc"[..]).unwrap(), 3);
        let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hasher.finish().to_string(), text);
        assert_eq!(text.parse::<Digest>().unwrap().to_string(), text);
        assert!("ab".parse::<Digest>().is_err());
    }
}
