//! Field sections, as far as their rules need reading.
//!
//! `h3` decodes each section and hands on what became of it, where duplicates and order are gone;
//! what an application does not ask for, such as trailers, it does not decode. This reader goes
//! over the same bytes once more, for [`message`](crate::message) to judge.
//!
//! Owns: [`Fields`]; Huffman code (`huffman.rs`) and static table (`static_table.rs`). Does not
//! own: what fields mean, the dynamic table, which we announce to be empty.
//! Spec: RFC 9204 s4.1, s4.5.

mod huffman;
mod static_table;

use std::borrow::Cow;

/// Not a field section, or one that refers to the dynamic table: QPACK_DECOMPRESSION_FAILED.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Undecodable;

/// One field line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Field<'a> {
    pub(crate) name: Cow<'a, [u8]>,
    pub(crate) value: Cow<'a, [u8]>,
}

/// The field lines of an encoded section, one by one.
#[derive(Debug)]
pub(crate) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// Reads the prefix of a section.
    pub(crate) fn new(mut section: &'a [u8]) -> Result<Self, Undecodable> {
        let required_insert_count = integer(&mut section, 8)?;
        let negative = section.first().is_some_and(|byte| byte & 0x80 != 0);
        integer(&mut section, 7)?;
        if required_insert_count != 0 || negative {
            return Err(Undecodable);
        }
        Ok(Self(section))
    }

    fn line(&mut self, first: u8) -> Result<Field<'a>, Undecodable> {
        let rest = &mut self.0;
        if first & 0b1100_0000 == 0b1100_0000 {
            let (name, value) = of_static_table(integer(rest, 6)?)?;
            return Ok(Field {
                name: name.into(),
                value: value.into(),
            });
        }
        let name = if first & 0b1101_0000 == 0b0101_0000 {
            of_static_table(integer(rest, 4)?)?.0.into()
        } else if first & 0b1110_0000 == 0b0010_0000 {
            string(rest, 3)?
        } else {
            // The dynamic table, which is empty.
            return Err(Undecodable);
        };
        let value = string(rest, 7)?;
        Ok(Field { name, value })
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, Undecodable>;

    fn next(&mut self) -> Option<Self::Item> {
        let first = *self.0.first()?;
        let line = self.line(first);
        if line.is_err() {
            self.0 = &[];
        }
        Some(line)
    }
}

fn of_static_table(index: u64) -> Result<(&'static [u8], &'static [u8]), Undecodable> {
    let index = usize::try_from(index).map_err(|_| Undecodable)?;
    static_table::FIELDS.get(index).copied().ok_or(Undecodable)
}

/// An integer in the lower `prefix_bits` of the first byte, and in more bytes if it is long.
/// RFC 7541 s5.1.
fn integer(bytes: &mut &[u8], prefix_bits: u32) -> Result<u64, Undecodable> {
    /// QPACK needs no more than 62 bits, of which nine bytes of seven hold enough.
    const MAX_SHIFT: u32 = 56;
    let (&first, mut rest) = bytes.split_first().ok_or(Undecodable)?;
    let largest = (1_u64 << prefix_bits) - 1;
    let mut value = u64::from(first) & largest;
    if value == largest {
        let mut shift = 0;
        loop {
            let (&byte, behind) = rest.split_first().ok_or(Undecodable)?;
            rest = behind;
            if shift > MAX_SHIFT {
                return Err(Undecodable);
            }
            value += u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
        }
    }
    *bytes = rest;
    Ok(value)
}

/// A string whose length stands in the lower `prefix_bits` of the first byte, with the Huffman
/// flag above it. RFC 9204 s4.1.2.
fn string<'a>(bytes: &mut &'a [u8], prefix_bits: u32) -> Result<Cow<'a, [u8]>, Undecodable> {
    let huffman = bytes
        .first()
        .is_some_and(|byte| byte & 1 << prefix_bits != 0);
    let len = usize::try_from(integer(bytes, prefix_bits)?).map_err(|_| Undecodable)?;
    let (string, rest) = bytes.split_at_checked(len).ok_or(Undecodable)?;
    *bytes = rest;
    Ok(if huffman {
        huffman::decode(string)?.into()
    } else {
        string.into()
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(section: &[u8]) -> Result<Vec<(String, String)>, Undecodable> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Fields::new(section)?
            .map(|line| line.map(|field| (text(&field.name), text(&field.value))))
            .collect()
    }

    fn one(name: &str, value: &str) -> Result<Vec<(String, String)>, Undecodable> {
        Ok(vec![(name.to_owned(), value.to_owned())])
    }

    #[test]
    fn lines_of_all_kinds() {
        assert_eq!(read(&[0, 0]), Ok(vec![]));
        assert_eq!(read(&[0, 0, 0xd1]), one(":method", "GET"));
        // The last entry, whose index takes two bytes. RFC 9204 appendix A.
        assert_eq!(
            read(&[0, 0, 0xff, 98 - 63]),
            one("x-frame-options", "sameorigin")
        );
        // RFC 9204 appendix B.1: :path=/index.html.
        let path = b"\x00\x00\x51\x0b/index.html";
        assert_eq!(read(path), one(":path", "/index.html"));
        assert_eq!(read(b"\x00\x00\x23abc\x01d"), one("abc", "d"));
        // Huffman: `a` is 00011, `c` is 00100.
        assert_eq!(read(&[0, 0, 0x29, 0x1f, 0x81, 0x27]), one("a", "c"));
        // Never to be indexed: one more flag.
        assert_eq!(read(b"\x00\x00\x71\x01x"), one(":path", "x"));
        assert_eq!(read(b"\x00\x00\x33abc\x01d"), one("abc", "d"));
    }

    #[test]
    fn what_is_no_section() {
        for section in [
            &[][..],
            &[0],
            // Insert count, negative base.
            &[2, 0],
            &[0, 0x80],
            // The dynamic table: indexed, name, both behind the base.
            &[0, 0, 0x80],
            &[0, 0, 0x40, 0],
            &[0, 0, 0x10],
            &[0, 0, 0x00, 0],
            // Beyond the static table.
            &[0, 0, 0xff, 99 - 63],
            // Cut off.
            &[0, 0, 0xff],
            &[0, 0, 0x51],
            &[0, 0, 0x51, 2, b'/'],
            &[0, 0, 0x23, b'a'],
            // An integer without end.
            &[
                0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0,
            ],
        ] {
            assert_eq!(read(section), Err(Undecodable), "{section:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_do_no_harm(section in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&section);
        }
    }
}
