//! What a peer may do that has not proven anything yet: neither that it is where it says, nor that it
//! means to finish the handshake.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use rustls::pki_types::CertificateDer;
use tautline_testkit::{apps::Manual, null_tls::NullServer};
use tautline_transport::{
    error::{Code, TransportError},
    rng::Rng,
    tls::{
        DirectionalKeys, ExportError, KeyChange, Keys, Level, ServerSessionFactory, Session,
        StartError,
    },
    units::Side,
    wire::{ConnectionId, Frame, Header, TransportParameters, Version, parse_header},
};

use crate::{
    kit::{MS, SECOND},
    raw::{Arena, Peer, encode, parameters},
};

fn cid(byte: u8) -> ConnectionId {
    ConnectionId::new(&[byte; 8]).unwrap()
}

fn peer(number: u8) -> Peer {
    Peer::client(number, &parameters(cid(number)))
}

/// First Initials from addresses that never answer.
fn flood(
    arena: &mut Arena,
    count: u32,
    mut first: impl FnMut(&mut Peer) -> tautline_sim::Datagram,
) {
    let mut rng = Rng::from_u64(1);
    for number in 0..count {
        let mut peer = peer(0x11);
        peer.dcid = ConnectionId::new(&rng.array::<8>()).unwrap();
        peer.from = SocketAddr::from(([10, 77, (number >> 8) as u8, number as u8], 1_000));
        let first = first(&mut peer);
        arena.inject(first);
    }
}

/// A client gets a Retry, answers it and is served.
#[track_caller]
fn served_after_a_retry(arena: &mut Arena) {
    let mut peer = peer(0x33);
    let first = peer.first();
    arena.send(first);
    arena.run(50 * MS);
    arena.collect(&mut peer);
    assert_eq!(peer.closed_with(), None, "turned away");
    let retry = peer.special.pop().expect("a Retry");
    let Ok(Header::Retry { token, scid, .. }) = parse_header(&retry, 8) else {
        panic!("not a Retry");
    };
    peer.token = token.to_vec();
    peer.dcid = scid;
    arena.handshake(&mut peer);
}

/// As many forged clients as the server takes connections.
#[test]
fn forged_initials_do_not_fill_the_server() {
    let mut arena = Arena::server(
        1,
        |_| {},
        |server| {
            server.max_incoming = 100;
            server.max_connections = 100;
        },
        Manual::server(),
    );
    flood(&mut arena, 1_000, Peer::first);
    arena.run(100 * MS);
    assert_eq!(arena.host().connections().count(), 100);
    served_after_a_retry(&mut arena);
}

/// Handshakes that fail at once take up room while their connections close, as many as there may be
/// handshakes and no more.
#[test]
fn failing_handshakes_do_not_fill_the_server() {
    let mut arena = Arena::server(
        1,
        |_| {},
        |server| {
            server.max_incoming = 50;
            server.max_connections = 100;
        },
        Manual::server(),
    );
    flood(&mut arena, 1_000, |peer| {
        peer.initial(&encode(&[Frame::Crypto {
            offset: 0,
            data: b"no ClientHello",
        }]))
    });
    arena.run(100 * MS);
    assert_eq!(arena.host().connections().count(), 50);
    served_after_a_retry(&mut arena);
    arena.run(40 * SECOND);
    assert!(arena.host().connections().count() <= 1, "all forgotten");
}

/// Counts what TLS is given to read.
#[derive(Debug)]
struct Counting {
    inner: NullServer,
    reads: Arc<AtomicUsize>,
}

#[derive(Debug)]
struct CountingSession {
    inner: Box<dyn Session>,
    reads: Arc<AtomicUsize>,
}

impl ServerSessionFactory for Counting {
    fn start(&self, version: Version, params: Vec<u8>) -> Result<Box<dyn Session>, StartError> {
        Ok(Box::new(CountingSession {
            inner: self.inner.start(version, params)?,
            reads: Arc::clone(&self.reads),
        }))
    }

    fn initial_keys(&self, version: Version, dcid: &ConnectionId, side: Side) -> Keys {
        self.inner.initial_keys(version, dcid, side)
    }
}

impl Session for CountingSession {
    fn read(&mut self, level: Level, data: &[u8]) -> Result<(), TransportError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.inner.read(level, data)
    }
    fn write(&mut self, out: &mut Vec<u8>) -> Option<KeyChange> {
        self.inner.write(out)
    }
    fn zero_rtt_keys(&self) -> Option<DirectionalKeys> {
        self.inner.zero_rtt_keys()
    }
    fn early_data_accepted(&self) -> Option<bool> {
        self.inner.early_data_accepted()
    }
    fn is_handshaking(&self) -> bool {
        self.inner.is_handshaking()
    }
    fn alpn(&self) -> Option<&[u8]> {
        self.inner.alpn()
    }
    fn server_name(&self) -> Option<&str> {
        self.inner.server_name()
    }
    fn peer_certificates(&self) -> Option<Vec<CertificateDer<'static>>> {
        self.inner.peer_certificates()
    }
    fn resumed(&self) -> bool {
        self.inner.resumed()
    }
    fn peer_transport_parameters(&self) -> Option<&[u8]> {
        self.inner.peer_transport_parameters()
    }
    fn remembered_parameters(&self) -> Option<Vec<u8>> {
        self.inner.remembered_parameters()
    }
    fn export_keying_material(
        &self,
        out: &mut [u8],
        label: &[u8],
        context: Option<&[u8]>,
    ) -> Result<(), ExportError> {
        self.inner.export_keying_material(out, label, context)
    }
    fn use_version(&mut self, version: Version) {
        self.inner.use_version(version);
    }
}

/// A server that counts, and a client whose ClientHello it has.
fn counted() -> (Arena, Peer, Arc<AtomicUsize>) {
    let reads = Arc::new(AtomicUsize::new(0));
    let tls = Counting {
        inner: NullServer::new(b"null"),
        reads: Arc::clone(&reads),
    };
    let tune = |server: &mut tautline_transport::config::ServerConfig| server.tls = Arc::new(tls);
    let mut arena = Arena::server(1, |_| {}, tune, Manual::server());
    let mut peer = peer(0x11);
    let first = peer.first();
    arena.send(first);
    arena.run(50 * MS);
    arena.collect(&mut peer);
    assert_eq!(reads.load(Ordering::Relaxed), 1, "the ClientHello");
    (arena, peer, reads)
}

/// TLS begins anew with each piece of a message, so it is given whole ones.
#[test]
fn a_message_in_single_bytes_is_read_once() {
    let (mut arena, mut peer, reads) = counted();
    let len = 20_000;
    let mut message = vec![11, 0, (len >> 8) as u8, len as u8];
    message.resize(4 + len, 7);
    let mut offset = 0;
    let mut send = |arena: &mut Arena, to: usize| {
        while offset < to {
            let mut payload = Vec::new();
            while payload.len() < 1_100 && offset < to {
                payload.extend(encode(&[Frame::Crypto {
                    offset: offset as u64,
                    data: &message[offset..=offset],
                }]));
                offset += 1;
            }
            let packet = peer.packet(Level::Handshake, &payload);
            let datagram = peer.datagram(packet);
            arena.send(datagram);
        }
        arena.run(100 * MS);
    };
    send(&mut arena, len + 3);
    assert_eq!(arena.app().ended(), None);
    assert_eq!(reads.load(Ordering::Relaxed), 1);
    // Now it is whole, and the null handshake knows no such message.
    send(&mut arena, len + 4);
    assert_eq!(reads.load(Ordering::Relaxed), 2);
    assert!(
        arena
            .victim_error()
            .is_some_and(|code| code.tls_alert().is_some())
    );
}

/// RFC 9001 s4.1.3: nothing of a level may be left when TLS goes on to the next, whole or not, and
/// nothing may follow.
#[test]
fn crypto_bytes_after_the_last_message_of_a_level() {
    for rest in [&[11][..], &[20, 0, 0, 0], &[1, 0, 0, 9, 1]] {
        // In the same packet, and in a later one.
        for together in [true, false] {
            let mut arena = Arena::server(1, |_| {}, |_| {}, Manual::server());
            let mut peer = peer(0x11);
            let hello = peer.hello();
            let more = Frame::Crypto {
                offset: hello.len() as u64,
                data: rest,
            };
            let datagram = if together {
                let hello = Frame::Crypto {
                    offset: 0,
                    data: &hello,
                };
                peer.initial(&encode(&[more, hello]))
            } else {
                let first = peer.first();
                arena.send(first);
                arena.run(50 * MS);
                arena.collect(&mut peer);
                peer.initial(&encode(&[more]))
            };
            arena.send(datagram);
            arena.run(50 * MS);
            let code = arena.victim_error();
            let fatal = code == Some(Code::PROTOCOL_VIOLATION)
                || code.is_some_and(|code| code.tls_alert().is_some());
            assert!(fatal, "{rest:?} {together}: {code:?}");
        }
    }
}

/// Connections have one path until more of RFC 10069 is there: a peer that offers others hears
/// nothing of them, and the frames are none of its business.
#[test]
fn an_offer_of_more_paths_is_not_taken_up() {
    for frame in [Frame::MaxPathId(5), Frame::PathsBlocked(1)] {
        let mut arena = Arena::server(1, |_| {}, |_| {}, Manual::server());
        let offer = TransportParameters {
            initial_max_path_id: Some(4),
            ..parameters(cid(0x11))
        };
        let mut peer = Peer::client(0x11, &offer);
        arena.handshake(&mut peer);
        arena.assert_alive(&mut peer);
        let datagram = peer.one_rtt(&[frame]);
        arena.expect_close(&mut peer, datagram, Code::PROTOCOL_VIOLATION);
    }
}
