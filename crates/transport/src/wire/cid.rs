//! Connection IDs and stateless reset tokens.

use std::fmt;

use aws_lc_rs::constant_time;

/// Longest connection ID of QUIC v1 and v2, in bytes. RFC 9000 s17.2.
pub const MAX_CONNECTION_ID_LEN: usize = 20;

/// A connection ID, `0..=20` bytes, held inline.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId {
    len: u8,
    /// Bytes past `len` stay zero, so that comparing whole arrays is right.
    bytes: [u8; MAX_CONNECTION_ID_LEN],
}

impl ConnectionId {
    /// The connection ID of no bytes.
    pub const EMPTY: Self = Self {
        len: 0,
        bytes: [0; MAX_CONNECTION_ID_LEN],
    };

    /// From its bytes; `None` when there are more than 20.
    #[inline]
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut cid = Self::EMPTY;
        cid.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        cid.len = u8::try_from(bytes.len()).ok()?;
        Some(cid)
    }

    /// Its bytes.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        self.bytes.get(..self.len()).unwrap_or_default()
    }

    /// Length in bytes.
    #[inline]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether it has no bytes.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

fn hex(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex(self.as_slice(), f)
    }
}

impl fmt::Debug for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cid:")?;
        hex(self.as_slice(), f)
    }
}

/// A stateless reset token. RFC 9000 s10.3. Compared in constant time; not shown by `Debug`.
#[derive(Clone, Copy)]
pub struct ResetToken(pub [u8; 16]);

impl PartialEq for ResetToken {
    fn eq(&self, other: &Self) -> bool {
        constant_time::verify_slices_are_equal(&self.0, &other.0).is_ok()
    }
}

impl Eq for ResetToken {}

impl fmt::Debug for ResetToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResetToken(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_limits() {
        assert_eq!(ConnectionId::new(&[]), Some(ConnectionId::EMPTY));
        let longest = ConnectionId::new(&[7; 20]).unwrap();
        assert_eq!((longest.len(), longest.as_slice()), (20, &[7; 20][..]));
        assert_eq!(ConnectionId::new(&[7; 21]), None);
    }

    #[test]
    fn trailing_zeros_tell_ids_apart() {
        assert_ne!(ConnectionId::new(&[1]), ConnectionId::new(&[1, 0]));
        assert_eq!(
            format!("{:?}", ConnectionId::new(&[0xab, 1]).unwrap()),
            "cid:ab01"
        );
    }

    #[test]
    fn reset_tokens_compare_by_value() {
        assert_eq!(ResetToken([1; 16]), ResetToken([1; 16]));
        assert_ne!(ResetToken([1; 16]), ResetToken([2; 16]));
    }
}
