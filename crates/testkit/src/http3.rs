//! HTTP/3 by hand: bytes for peers that keep no rules. Knows no connection.

/// A control stream with empty SETTINGS.
pub const CONTROL: &[u8] = &[0x00, 0x04, 0x00];

/// A HEADERS frame with these fields as literals.
pub fn headers(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut section = vec![0, 0];
    for (name, value) in fields {
        // The length of a name has three bits, then a byte more.
        match name.len() {
            short @ ..7 => section.push(0x20 | short as u8),
            long => section.extend([0x27, long as u8 - 7]),
        }
        section.extend(name.as_bytes());
        section.push(value.len() as u8);
        section.extend(value.as_bytes());
    }
    let length = [0x40 | (section.len() >> 8) as u8, section.len() as u8];
    [&[0x01], &length[..], &section].concat()
}
