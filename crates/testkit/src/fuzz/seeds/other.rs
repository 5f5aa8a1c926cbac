//! Seeds of the targets of the `endpoint` and `tls` rooms.

use tautline_transport::{
    tls::ClientSessionFactory,
    units::Side,
    wire::{TransportParameters, Version},
};

use super::wire;
use crate::{
    fuzz::{
        endpoint::{Arrival, TokenScript},
        input::Field,
    },
    null_tls::NullClient,
};

/// A whole ClientHello.
pub(super) fn client_hello_message() -> Vec<u8> {
    hello(
        b"fuzz",
        &TransportParameters::default().encode(Side::Client, None),
    )
}

fn hello(alpn: &[u8], params: &[u8]) -> Vec<u8> {
    let client = NullClient::new(alpn);
    let mut out = Vec::new();
    if let Ok(mut session) = client.start(Version::V1, "host.test", params.to_vec()) {
        session.write(&mut out);
    }
    out
}

pub(super) fn client_hello() -> Vec<(String, Vec<u8>)> {
    let cut = |at: u16, message: &[u8]| [&at.to_be_bytes(), message].concat();
    let whole = client_hello_message();
    let params = wire::transport_parameters();
    let mut seeds = vec![
        ("whole".to_owned(), cut(20, &whole)),
        ("half".to_owned(), cut(3, &whole[..whole.len() / 2])),
        (
            "followed".to_owned(),
            cut(150, &[&whole[..], &whole[..]].concat()),
        ),
        ("other_protocol".to_owned(), cut(9, &hello(b"h3", &[]))),
        ("not_a_hello".to_owned(), cut(1, &[2, 0, 0, 0])),
        ("too_long".to_owned(), cut(1, &[1, 0xff, 0xff, 0xff])),
    ];
    for (name, params) in params {
        seeds.push((format!("params_{name}"), cut(60, &hello(b"fuzz", &params))));
    }
    seeds
}

pub(super) fn datagram_in() -> Vec<(String, Vec<u8>)> {
    let one = |how: u8, bytes: Vec<u8>| {
        let mut out = Vec::new();
        Arrival { how, bytes }.put(&mut out);
        out
    };
    let mut seeds = Vec::new();
    for (name, datagram) in wire::headers() {
        // Without the byte that tells the length of connection IDs.
        let mut datagram = datagram[1..].to_vec();
        seeds.push((format!("header_{name}"), one(1, datagram.clone())));
        datagram.resize(1200, 0);
        let both = [one(0x13, datagram.clone()), one(0, datagram)].concat();
        seeds.push((format!("long_{name}"), both));
    }
    for (name, frames) in wire::frames() {
        // First byte, packet number, frames, tag.
        let packet = [&[0x41, 0x00, 0x40][..], &frames, &[0; 16]].concat();
        let both = [one(0x04, packet.clone()), one(0x15, packet)].concat();
        seeds.push((format!("frames_{name}"), both));
    }
    seeds
}

pub(super) fn tokens() -> Vec<(String, Vec<u8>)> {
    let plain = TokenScript {
        key: 3,
        port: 5000,
        ip: 9,
        ..TokenScript::default()
    };
    let scripts = [
        ("retry", plain.clone()),
        (
            "retry_changed",
            TokenScript {
                offset: 30,
                xor: 1,
                ..plain.clone()
            },
        ),
        (
            "retry_kind_changed",
            TokenScript {
                offset: 0,
                xor: 0x1c,
                ..plain.clone()
            },
        ),
        (
            "retry_late",
            TokenScript {
                seconds: 31,
                ..plain.clone()
            },
        ),
        (
            "retry_elsewhere",
            TokenScript {
                how: 1,
                ..plain.clone()
            },
        ),
        (
            "retry_other_port",
            TokenScript {
                how: 2,
                ..plain.clone()
            },
        ),
        (
            "retry_other_id",
            TokenScript {
                how: 4,
                ..plain.clone()
            },
        ),
        (
            "retry_other_key",
            TokenScript {
                how: 8,
                ..plain.clone()
            },
        ),
        (
            "new_token",
            TokenScript {
                how: 16,
                seconds: 7200,
                ..plain.clone()
            },
        ),
        (
            "new_token_elsewhere",
            TokenScript {
                how: 17,
                ..plain.clone()
            },
        ),
        (
            "forged",
            TokenScript {
                forged: vec![0x52; 70],
                ..plain
            },
        ),
    ];
    scripts
        .into_iter()
        .map(|(name, script)| {
            let mut out = Vec::new();
            script.put(&mut out);
            (name.to_owned(), out)
        })
        .collect()
}
