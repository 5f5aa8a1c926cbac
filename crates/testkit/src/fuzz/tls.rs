//! Targets of the `tls` room.

use tautline_transport::{
    tls::{Level, ServerSessionFactory, client_hello},
    units::Side,
    wire::{TransportParameters, Version},
};

use crate::null_tls::NullServer;

/// A ClientHello reads the same whatever pieces it comes in. The first two bytes say where the
/// second piece begins.
pub fn client_hello(data: &[u8]) {
    let Some((&[a, b], data)) = data.split_first_chunk::<2>() else {
        return;
    };
    let cut = usize::from(u16::from_be_bytes([a, b])) % (data.len() + 1);
    let (first, _) = data.split_at(cut);
    let whole = client_hello::parse(data);
    match client_hello::parse(first) {
        Ok(None) => {}
        Ok(Some(hello)) => {
            assert!(hello.len <= first.len());
            assert_eq!(whole, Ok(Some(hello)), "more bytes change nothing");
        }
        // Judged by what it saw; more bytes cannot make it right.
        Err(error) => assert_eq!(whole.as_ref().err(), Some(&error)),
    }
    if let Ok(Some(hello)) = &whole {
        assert!((4..=data.len()).contains(&hello.len));
        assert!(hello.alpn.iter().all(|protocol| !protocol.is_empty()));
        if let Some(params) = hello.transport_parameters {
            let _ = TransportParameters::decode(Side::Client, params);
        }
    }
    sessions_agree(data, cut);
}

/// A session takes the bytes in one piece or two alike.
fn sessions_agree(data: &[u8], cut: usize) {
    let server = NullServer::new(b"fuzz");
    let run = |pieces: &[&[u8]]| {
        let Ok(mut session) = server.start(Version::V1, Vec::new()) else {
            panic!("null servers start");
        };
        let mut out = Vec::new();
        for piece in pieces {
            if let Err(error) = session.read(Level::Initial, piece) {
                return Err(error.code);
            }
            while session.write(&mut out).is_some() {}
        }
        Ok((out, session.server_name().map(str::to_owned)))
    };
    let (first, second) = data.split_at(cut);
    let whole = run(&[data]);
    // The null session's handshake goes on after its ClientHello, where levels differ.
    if whole.is_ok() {
        assert_eq!(run(&[first, second]), whole);
    }
}
