//! Tests of the room: published vectors, key phases, ClientHello reading.
//!
//! Whole handshakes need certificates and run in the testkit crate.

mod client_hello;
mod phases;
mod vectors;

/// Bytes of a hexadecimal string; spaces and line ends do not count.
pub(super) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .chars()
        .filter_map(|c| c.to_digit(16))
        .map(|digit| digit as u8)
        .collect();
    digits
        .chunks(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect()
}
