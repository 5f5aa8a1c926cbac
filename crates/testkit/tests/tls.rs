//! The TLS room against rustls on both sides, without a network.

use std::{
    process::Command,
    sync::{Arc, Mutex},
};

use aws_lc_rs::digest;
use rustls::KeyLog;
use tautline_testkit::tls::{
    ALPN, Identity, Outcome, SERVER_NAME, client, client_config, client_config_with_certificate,
    handshake, server, server_config, server_config_demanding_certificate, server_config_of,
};
use tautline_transport::{
    error::Code,
    rng::Rng,
    time::Instant,
    tls::{
        ClientSessionFactory, ClientTicketStore, DirectionalKeys, Level, OneRttKeys, RustlsClient,
        RustlsServer, ServerSessionFactory, ServerTicketStore, Session, StartError, open_in_place,
        seal_in_place,
    },
    units::{PathId, Side},
    wire::Version,
};

/// initial_max_data (4) = 16384 and initial_max_streams_bidi (8) = 100.
const PARAMS: &[u8] = &[0x04, 0x04, 0x80, 0x00, 0x40, 0x00, 0x08, 0x02, 0x40, 0x64];
/// The same with initial_max_data = 1.
const SMALLER_PARAMS: &[u8] = &[0x04, 0x01, 0x01, 0x08, 0x02, 0x40, 0x64];

struct Ends {
    client: Box<dyn Session>,
    server: Box<dyn Session>,
    from_client: Outcome,
    from_server: Outcome,
}

fn start(client: &RustlsClient, server: &RustlsServer) -> (Box<dyn Session>, Box<dyn Session>) {
    (
        client
            .start(Version::V1, SERVER_NAME, PARAMS.to_vec())
            .unwrap(),
        server.start(Version::V1, PARAMS.to_vec()).unwrap(),
    )
}

fn connect(client: &RustlsClient, server: &RustlsServer) -> Ends {
    let (mut client, mut server) = start(client, server);
    let (from_client, from_server) = handshake(client.as_mut(), server.as_mut()).unwrap();
    Ends {
        client,
        server,
        from_client,
        from_server,
    }
}

/// Whether what `sender` seals `receiver` opens, header protection included.
fn fits(sender: &DirectionalKeys, receiver: &DirectionalKeys) -> bool {
    let mut header = [0x43, 1, 2, 3, 4];
    let mut payload = *b"twenty-four bytes of datXXXXXXXXXXXXXXXX";
    for path in [0, 3] {
        let mut sealed = payload;
        seal_in_place(
            sender.packet.as_ref(),
            PathId(path),
            7,
            &header,
            &mut sealed,
        )
        .unwrap();
        let opened = open_in_place(
            receiver.packet.as_ref(),
            PathId(path),
            7,
            &header,
            &mut sealed,
        );
        if opened != Some(24) {
            return false;
        }
        assert_eq!(sealed[..24], payload[..24]);
    }
    let before = header;
    let (first, number) = header.split_first_mut().unwrap();
    let sample = &mut payload[..16];
    sender
        .header
        .encrypt_in_place(sample, first, number)
        .unwrap();
    receiver
        .header
        .decrypt_in_place(sample, first, number)
        .unwrap();
    header == before
}

fn check_keys(ends: &Ends) {
    let (client, server) = (&ends.from_client, &ends.from_server);
    let (c, s) = (
        client.handshake.as_ref().unwrap(),
        server.handshake.as_ref().unwrap(),
    );
    assert!(fits(&c.local, &s.remote) && fits(&s.local, &c.remote));
    let (c, s) = (
        &client.one_rtt.as_ref().unwrap().0,
        &server.one_rtt.as_ref().unwrap().0,
    );
    assert!(fits(&c.local, &s.remote) && fits(&s.local, &c.remote));
    assert!(!fits(&c.local, &c.remote));
}

#[test]
fn full_handshake() {
    let mut ends = connect(&client(1), &server(2));
    check_keys(&ends);
    for session in [&ends.client, &ends.server] {
        assert!(!session.is_handshaking() && !session.resumed());
        assert_eq!(session.alpn(), Some(ALPN));
        assert_eq!(session.server_name(), Some(SERVER_NAME));
        assert_eq!(session.peer_transport_parameters(), Some(PARAMS));
        assert_eq!(session.early_data_accepted(), None);
        assert!(session.zero_rtt_keys().is_none());
    }
    let certificates = ends.client.peer_certificates().unwrap();
    assert_eq!(certificates, [Identity::server().certificate]);
    assert_eq!(ends.server.peer_certificates(), None);

    let (mut a, mut b) = ([0; 32], [0; 32]);
    ends.client
        .export_keying_material(&mut a, b"label", Some(b"context"))
        .unwrap();
    ends.server
        .export_keying_material(&mut b, b"label", Some(b"context"))
        .unwrap();
    assert_eq!(a, b);
    ends.server
        .export_keying_material(&mut b, b"label", None)
        .unwrap();
    assert_ne!(a, b);

    // TLS KeyUpdate has no place in QUIC (RFC 9001 s6), nor have bytes at an old level.
    let error = ends
        .server
        .read(Level::OneRtt, &[24, 0, 0, 1, 0])
        .unwrap_err();
    assert_eq!(error.code, Code::crypto(10));
    let error = ends
        .client
        .read(Level::Handshake, &[4, 0, 0, 0])
        .unwrap_err();
    assert_eq!(error.code, Code::PROTOCOL_VIOLATION);
}

#[test]
fn key_updates_follow_each_other() {
    for version in [Version::V1, Version::V2] {
        let mut c = client(1)
            .start(version, SERVER_NAME, PARAMS.to_vec())
            .unwrap();
        let mut s = server(2).start(version, PARAMS.to_vec()).unwrap();
        let (from_client, from_server) = handshake(c.as_mut(), s.as_mut()).unwrap();
        let (keys, secrets) = from_client.one_rtt.unwrap();
        let mut c = OneRttKeys::new(keys, secrets);
        let (keys, secrets) = from_server.one_rtt.unwrap();
        let mut s = OneRttKeys::new(keys, secrets);
        c.on_handshake_confirmed();
        for round in 0..4u64 {
            let now = Instant::from_nanos(round * 10_000_000_000);
            exchange(&mut c, &mut s, now, 2 * round, round > 0);
            exchange(&mut s, &mut c, now, 2 * round, false);
            assert_eq!((c.phase(), s.phase()), (round, round));
            c.on_acked(now, PathId::ZERO, 2 * round, round).unwrap();
            let later = Instant::from_nanos((round + 1) * 10_000_000_000);
            c.initiate_update(later).unwrap();
        }
    }
}

fn exchange(from: &mut OneRttKeys, to: &mut OneRttKeys, now: Instant, pn: u64, updates: bool) {
    let mut packet = *b"data................";
    let bit = from.key_phase();
    from.seal(PathId::ZERO, pn, b"header", &mut packet).unwrap();
    let opened = to
        .open(now, PathId::ZERO, pn, bit, b"header", &mut packet)
        .unwrap();
    assert_eq!((opened.len, opened.peer_updated), (4, updates));
    assert_eq!(&packet[..4], b"data");
}

#[test]
fn second_connection_sends_early_data_once() {
    let tickets = Arc::new(ServerTicketStore::default());
    let (client, server) = (client(1), server(2).with_ticket_store(Arc::clone(&tickets)));
    connect(&client, &server);
    assert_eq!(tickets.len(), 2);

    let ends = connect(&client, &server);
    check_keys(&ends);
    assert!(ends.client.resumed() && ends.server.resumed());
    assert_eq!(ends.client.remembered_parameters().as_deref(), Some(PARAMS));
    assert_eq!(ends.client.early_data_accepted(), Some(true));
    assert_eq!(ends.server.early_data_accepted(), Some(true));
    let keys = ends.client.zero_rtt_keys().unwrap();
    assert!(fits(&keys, &ends.server.zero_rtt_keys().unwrap()));
    // One ticket used, two new ones issued.
    assert_eq!(tickets.len(), 3);
}

#[test]
fn replayed_client_hello_gets_no_early_data() {
    let (client, server) = (client(1), server(2));
    connect(&client, &server);
    let (mut first, mut second) = {
        let mut session = client
            .start(Version::V1, SERVER_NAME, PARAMS.to_vec())
            .unwrap();
        let mut hello = Vec::new();
        session.write(&mut hello);
        let read = || {
            let mut session = server.start(Version::V1, PARAMS.to_vec()).unwrap();
            session.read(Level::Initial, &hello).unwrap();
            session
        };
        (read(), read())
    };
    assert!(first.zero_rtt_keys().is_some());
    assert!(second.zero_rtt_keys().is_none());
    let mut out = Vec::new();
    assert!(first.write(&mut out).is_some() && second.write(&mut out).is_some());
}

#[test]
fn lowered_limits_and_other_versions_reject_early_data() {
    let (client, server) = (client(1), server(2));
    let again = |version, used: Version, params: &[u8]| {
        let mut c = client.start(version, SERVER_NAME, PARAMS.to_vec()).unwrap();
        let mut s = server.start(version, params.to_vec()).unwrap();
        if used != version {
            s.use_version(used);
            c.use_version(used);
        }
        handshake(c.as_mut(), s.as_mut()).unwrap();
        (c.remembered_parameters().is_some(), c.early_data_accepted())
    };
    assert_eq!(again(Version::V1, Version::V1, PARAMS), (false, None));
    assert_eq!(
        again(Version::V1, Version::V1, SMALLER_PARAMS),
        (true, Some(false))
    );
    assert_eq!(again(Version::V1, Version::V1, PARAMS), (true, Some(true)));
    // Tickets of v1 are not offered in v2.
    assert_eq!(again(Version::V2, Version::V2, PARAMS), (false, None));
    // Moved from v1 to v2: the v1 ticket counts, early data stays v1; the new tickets are v2's.
    assert_eq!(again(Version::V1, Version::V2, PARAMS), (true, Some(true)));
    assert_eq!(again(Version::V2, Version::V2, PARAMS), (true, Some(true)));
}

#[test]
fn client_moved_to_v2_derives_its_own_keys() {
    // The server either is moved too, or starts in v2 and never needs to derive itself.
    for server_started in [Version::V1, Version::V2] {
        for suite in 0..3 {
            let mut config = client_config(1);
            let mut provider = (**config.crypto_provider()).clone();
            provider.cipher_suites = vec![provider.cipher_suites[suite]];
            config = rustls::ClientConfig::builder_with_provider(Arc::new(provider))
                .with_protocol_versions(&[&rustls::version::TLS13])
                .unwrap()
                .with_root_certificates(Identity::server().roots())
                .with_no_client_auth();
            config.alpn_protocols = vec![ALPN.to_vec()];
            let factory = RustlsClient::new(config).unwrap();
            let mut c = factory
                .start(Version::V1, SERVER_NAME, PARAMS.to_vec())
                .unwrap();
            let mut s = server(2).start(server_started, PARAMS.to_vec()).unwrap();
            c.use_version(Version::V2);
            if server_started != Version::V2 {
                s.use_version(Version::V2);
            }
            let (from_client, from_server) = handshake(c.as_mut(), s.as_mut()).unwrap();
            let mut ends = Ends {
                client: c,
                server: s,
                from_client,
                from_server,
            };
            check_keys(&ends);
            for _ in 0..3 {
                let next = |outcome: &mut Outcome| outcome.one_rtt.as_mut().unwrap().1.next();
                let (client_local, client_remote) = next(&mut ends.from_client).unwrap();
                let (server_local, server_remote) = next(&mut ends.from_server).unwrap();
                for (seal, open) in [(client_local, server_remote), (server_local, client_remote)] {
                    let mut packet = [7; 40];
                    seal_in_place(seal.as_ref(), PathId(5), 1 << 40, b"h", &mut packet).unwrap();
                    let opened =
                        open_in_place(open.as_ref(), PathId(5), 1 << 40, b"h", &mut packet);
                    assert_eq!(opened, Some(24));
                }
            }
        }
    }
}

#[test]
fn client_certificates() {
    let client = RustlsClient::new(client_config_with_certificate(1)).unwrap();
    let demanding = RustlsServer::new(server_config_demanding_certificate(2)).unwrap();
    let ends = connect(&client, &demanding);
    assert_eq!(
        ends.server.peer_certificates().unwrap(),
        [Identity::client().certificate]
    );

    let (mut c, mut s) = start(&tautline_testkit::tls::client(3), &demanding);
    let (side, error) = handshake(c.as_mut(), s.as_mut()).unwrap_err();
    assert_eq!(
        (side, error.code),
        (Side::Server, Code::crypto(116)),
        "certificate_required"
    );
}

#[test]
fn untrusted_server_is_refused_with_a_reason() {
    let stranger = RustlsServer::new(server_config_of(2, &Identity::stranger())).unwrap();
    let (mut c, mut s) = start(&client(1), &stranger);
    let (side, error) = handshake(c.as_mut(), s.as_mut()).unwrap_err();
    assert_eq!(side, Side::Client);
    assert!(error.code.tls_alert().is_some(), "{error}");
    assert!(error.reason.contains("certificate"), "{error}");
}

#[test]
fn no_common_protocol_is_0x178() {
    let mut config = server_config(2);
    config.alpn_protocols = vec![b"other".to_vec()];
    let (mut c, mut s) = start(&client(1), &RustlsServer::new(config).unwrap());
    let (side, error) = handshake(c.as_mut(), s.as_mut()).unwrap_err();
    assert_eq!((side, error.code), (Side::Server, Code(0x178)));
}

#[test]
fn garbage_is_a_decode_error() {
    let mut session = server(1).start(Version::V1, PARAMS.to_vec()).unwrap();
    let error = session
        .read(Level::Initial, &[1, 0, 0, 2, 3, 3])
        .unwrap_err();
    assert_eq!(error.code, Code::crypto(50));
    let mut session = server(1).start(Version::V1, PARAMS.to_vec()).unwrap();
    let error = session.read(Level::Initial, &[20, 0, 0, 0]).unwrap_err();
    assert_eq!(error.code, Code::crypto(10));
    let mut session = server(1).start(Version::V1, PARAMS.to_vec()).unwrap();
    let error = session.read(Level::Handshake, &[1]).unwrap_err();
    assert_eq!(error.code, Code::PROTOCOL_VIOLATION);
}

#[test]
fn configurations_are_checked_at_once() {
    let mut config = client_config(1);
    config.alpn_protocols.clear();
    assert!(matches!(
        RustlsClient::new(config),
        Err(StartError::Config(_))
    ));
    let mut config = server_config(1);
    config.alpn_protocols.clear();
    assert!(matches!(
        RustlsServer::new(config),
        Err(StartError::Config(_))
    ));
    let bad_name = client(1).start(Version::V1, "not a name", Vec::new());
    assert!(matches!(bad_name, Err(StartError::InvalidServerName(_))));
    let bad_version = client(1).start(Version(0x1a2a_3a4a), SERVER_NAME, Vec::new());
    assert!(matches!(
        bad_version,
        Err(StartError::UnsupportedVersion(_))
    ));
    assert!(
        client(1)
            .start(Version::V1, "127.0.0.1", Vec::new())
            .is_ok()
    );
}

/// Bytes flipped anywhere in either flight end in an error or in silence, never in a panic, and
/// never in a completed handshake that differs.
#[test]
fn mutated_flights_are_survived() {
    let (client, server) = (client(1), server(2));
    connect(&client, &server);
    let mut rng = Rng::from_u64(9);
    for round in 0..400 {
        let (mut c, mut s) = start(&client, &server);
        let mutate_server = round % 2 == 1;
        let mut level = Level::Initial;
        let mut hello = Vec::new();
        c.write(&mut hello);
        if !mutate_server {
            mutate(&mut rng, &mut hello);
        }
        if s.read(Level::Initial, &hello).is_err() {
            // A session that failed keeps failing, quietly.
            assert!(s.read(Level::Initial, &hello).is_err());
            continue;
        }
        loop {
            let mut data = Vec::new();
            let change = s.write(&mut data);
            if change.is_none() && data.is_empty() {
                break;
            }
            if mutate_server && !data.is_empty() {
                mutate(&mut rng, &mut data);
            }
            let failed = c.read(level, &data).is_err();
            while c.write(&mut Vec::new()).is_some() {}
            if failed {
                break;
            }
            if change.is_some() {
                level = if level == Level::Initial {
                    Level::Handshake
                } else {
                    Level::OneRtt
                };
            }
        }
        assert!(c.is_handshaking(), "round {round}: the transcript differs");
    }
}

fn mutate(rng: &mut Rng, data: &mut Vec<u8>) {
    let at = usize::try_from(rng.below(data.len() as u64)).unwrap();
    match rng.below(3) {
        0 => data[at] ^= 1 << rng.below(8),
        1 => data.insert(at, rng.below(256) as u8),
        _ => drop(data.remove(at)),
    }
}

#[derive(Debug, Default)]
struct Labels(Mutex<Vec<String>>);

impl KeyLog for Labels {
    fn log(&self, label: &str, _: &[u8], secret: &[u8]) {
        assert!(!secret.is_empty());
        self.0.lock().unwrap().push(label.to_owned());
    }
}

#[test]
fn key_log_is_passed_on() {
    let labels = Arc::new(Labels::default());
    let mut config = client_config(1);
    config.key_log = Arc::clone(&labels) as _;
    connect(&RustlsClient::new(config).unwrap(), &server(2));
    let seen = labels.0.lock().unwrap();
    for label in [
        "CLIENT_HANDSHAKE_TRAFFIC_SECRET",
        "SERVER_TRAFFIC_SECRET_0",
        "EXPORTER_SECRET",
    ] {
        assert_eq!(
            seen.iter().filter(|seen| *seen == label).count(),
            1,
            "{label}"
        );
    }
}

#[test]
fn stores_are_bounded() {
    let tickets = Arc::new(ServerTicketStore::new(3, 1 << 20));
    let kept = Arc::new(ClientTicketStore::new(1));
    let client = client(1).with_ticket_store(Some(Arc::clone(&kept)));
    let server = server(2).with_ticket_store(Arc::clone(&tickets));
    for _ in 0..4 {
        connect(&client, &server);
    }
    assert_eq!(tickets.len(), 3);
    assert!(kept.len() <= ClientTicketStore::TICKETS_PER_SERVER);
    let mut c = client
        .start(Version::V1, "localhost", PARAMS.to_vec())
        .unwrap();
    let mut s = server.start(Version::V1, PARAMS.to_vec()).unwrap();
    handshake(c.as_mut(), s.as_mut()).unwrap();
    assert_eq!(
        kept.len(),
        2,
        "the second server took the first one's place"
    );

    // A store of size 0: no tickets at all.
    let server = server.with_ticket_store(Arc::new(ServerTicketStore::new(0, 1 << 20)));
    connect(&client, &server);
    assert!(!connect(&client, &server).client.resumed());
}

/// SHA-256 over every CRYPTO byte of a full handshake and one that resumes with early data.
fn transcript_hash(seed: u64) -> String {
    let (client, server) = (client(seed), server(seed + 1));
    let mut context = digest::Context::new(&digest::SHA256);
    for round in 0..2 {
        let ends = connect(&client, &server);
        assert_eq!(
            ends.client.early_data_accepted(),
            (round == 1).then_some(true)
        );
        for (level, data) in ends.from_client.sent.iter().chain(&ends.from_server.sent) {
            context.update(&[*level as u8]);
            context.update(data);
        }
        // Packet protection repeats as well.
        let mut packet = [0; 64];
        let (keys, _) = ends.from_client.one_rtt.as_ref().unwrap();
        seal_in_place(
            keys.local.packet.as_ref(),
            PathId::ZERO,
            0,
            &[],
            &mut packet,
        )
        .unwrap();
        context.update(&packet);
    }
    context
        .finish()
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[test]
fn same_seed_same_bytes_in_two_processes() {
    const CHILD: &str = "TAUTLINE_TRANSCRIPT_CHILD";
    let here = transcript_hash(77);
    if std::env::var_os(CHILD).is_some() {
        println!("transcript={here}");
        return;
    }
    assert_eq!(here, transcript_hash(77));
    assert_ne!(here, transcript_hash(78));
    let child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "same_seed_same_bytes_in_two_processes",
            "--nocapture",
        ])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&child.stdout).into_owned();
    assert!(output.contains(&format!("transcript={here}")), "{output}");
}
