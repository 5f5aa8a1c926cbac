//! The inputs that the corpus starts with.

mod errors;
mod other;
mod scripts;
mod wire;

/// Named seed inputs of a target; none for a target that is not known.
pub fn seeds(target: &str) -> Vec<(String, Vec<u8>)> {
    match target {
        "client_hello" => other::client_hello(),
        "codes" => named(super::codes::seeds()),
        "datagram_in" => other::datagram_in(),
        "frames" => named(wire::frames()),
        "headers" => named(wire::headers()),
        "pair" => scripts::pair().into_iter().chain(errors::pair()).collect(),
        "tokens" => other::tokens(),
        "transport_parameters" => named(wire::transport_parameters()),
        "varint" => named(wire::varint()),
        _ => Vec::new(),
    }
}

fn named(seeds: Vec<(&'static str, Vec<u8>)>) -> Vec<(String, Vec<u8>)> {
    seeds
        .into_iter()
        .map(|(name, bytes)| (name.to_owned(), bytes))
        .collect()
}
