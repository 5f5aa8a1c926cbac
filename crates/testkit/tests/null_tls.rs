//! The null handshake, as the fuzz targets use it.

use tautline_testkit::{
    null_tls::{NullClient, NullServer, NullTag},
    tls::handshake,
};
use tautline_transport::{
    error::Code,
    time::Instant,
    tls::{
        ClientSessionFactory, Level, OneRttKeys, OpenError, ServerSessionFactory, Session,
        client_hello, open_in_place, seal_in_place,
    },
    units::{PathId, Side},
    wire::{ConnectionId, Version},
};

fn start(client: &NullClient, server: &NullServer) -> (Box<dyn Session>, Box<dyn Session>) {
    (
        client
            .start(Version::V1, "name.test", b"from client".to_vec())
            .unwrap(),
        server.start(Version::V1, b"from server".to_vec()).unwrap(),
    )
}

#[test]
fn handshake_and_early_data() {
    let (client, server) = (NullClient::new(b"null"), NullServer::new(b"null"));
    for round in 0..2 {
        let (mut c, mut s) = start(&client, &server);
        assert_eq!(c.zero_rtt_keys().is_some(), round == 1);
        let (from_client, from_server) = handshake(c.as_mut(), s.as_mut()).unwrap();
        assert!(!c.is_handshaking() && !s.is_handshaking());
        assert_eq!(
            (c.alpn(), s.alpn()),
            (Some(&b"null"[..]), Some(&b"null"[..]))
        );
        assert_eq!(c.peer_transport_parameters(), Some(&b"from server"[..]));
        assert_eq!(s.peer_transport_parameters(), Some(&b"from client"[..]));
        assert_eq!(s.server_name(), Some("name.test"));
        assert_eq!(c.early_data_accepted(), (round == 1).then_some(true));
        assert_eq!(s.zero_rtt_keys().is_some(), round == 1);

        let (keys, secrets) = from_client.one_rtt.unwrap();
        let mut c = OneRttKeys::new(keys, secrets);
        let (keys, secrets) = from_server.one_rtt.unwrap();
        let mut s = OneRttKeys::new(keys, secrets);
        let now = Instant::ZERO;
        let mut packet = *b"plain...............";
        c.seal(PathId::ZERO, 0, b"", &mut packet).unwrap();
        assert_eq!(&packet[..4], b"plai", "nothing is encrypted");
        assert_eq!(
            s.open(now, PathId::ZERO, 0, false, b"", &mut packet)
                .unwrap()
                .len,
            4
        );
        let wrong_phase = s.open(now, PathId::ZERO, 1, true, b"", &mut packet);
        assert!(matches!(wrong_phase, Err(OpenError::Drop)));
    }
}

#[test]
fn client_hello_reads_like_a_real_one() {
    let mut client = NullClient::new(b"null");
    client.padding_bytes = 3000;
    let mut session = client
        .start(Version::V1, "Name.test", b"params".to_vec())
        .unwrap();
    let mut hello = Vec::new();
    assert!(session.write(&mut hello).is_none());
    for len in 0..hello.len() {
        assert_eq!(client_hello::parse(&hello[..len]).unwrap(), None);
    }
    let parsed = client_hello::parse(&hello).unwrap().unwrap();
    assert_eq!(parsed.len, hello.len());
    assert_eq!(parsed.server_name.as_deref(), Some("name.test"));
    assert_eq!(parsed.alpn, [b"null".to_vec()]);
    assert_eq!(parsed.transport_parameters, Some(&b"params"[..]));
    assert!(!parsed.early_data);
}

#[test]
fn initial_keys_fit_and_zero_tags_open_with_any_key() {
    let mut client = NullClient::new(b"null");
    let mut server = NullServer::new(b"null");
    let cid = ConnectionId::new(&[1; 8]).unwrap();
    for (tag, any) in [(NullTag::Keyed, false), (NullTag::Zero, true)] {
        (client.tag, server.tag) = (tag, tag);
        let c = client.initial_keys(Version::V1, &cid, Side::Client);
        let s = server.initial_keys(Version::V1, &cid, Side::Server);
        let mut packet = [9; 20];
        seal_in_place(c.local.packet.as_ref(), PathId(2), 5, b"", &mut packet).unwrap();
        let open = |key: &dyn tautline_transport::tls::PacketKey| {
            open_in_place(key, PathId(2), 5, b"", &mut packet.clone())
        };
        assert_eq!(open(s.remote.packet.as_ref()), Some(4));
        assert_eq!(open(c.remote.packet.as_ref()).is_some(), any);
    }
}

#[test]
fn errors_have_tls_codes() {
    let (client, server) = (NullClient::new(b"null"), NullServer::new(b"other"));
    let (mut c, mut s) = start(&client, &server);
    let (side, error) = handshake(c.as_mut(), s.as_mut()).unwrap_err();
    assert_eq!((side, error.code), (Side::Server, Code(0x178)));
    let (mut c, _) = start(&client, &server);
    assert_eq!(
        c.read(Level::Initial, &[4, 0, 0, 0]).unwrap_err().code,
        Code::crypto(10)
    );
    assert_eq!(
        c.read(Level::OneRtt, &[4]).unwrap_err().code,
        Code::PROTOCOL_VIOLATION
    );
}
