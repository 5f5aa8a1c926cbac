//! How connections end. RFC 9000 s10.

use bytes::Bytes;
use tautline_sim::{Datagram, Direction, Rebind};
use tautline_testkit::trace::FrameTrace;
use tautline_transport::{
    config::WindowConfig,
    error::{Code, ConnectionError},
    observe::{Abuse, Counters},
    rng::Rng,
    units::{Dir, Ecn, PathId},
};

use crate::kit::{MS, SECOND, Setup, calm};

#[test]
fn idle_timeout_is_the_smaller_one() {
    for (client, server) in [(5, 20), (20, 5)] {
        let mut setup = Setup::new(1, calm());
        setup.client.max_idle_timeout = Some(client * SECOND);
        setup.server.max_idle_timeout = Some(server * SECOND);
        let mut net = setup.manual();
        net.connect();
        net.run_for(4 * SECOND);
        assert_eq!(net.client_app().ended(), None);
        net.run_for(3 * SECOND);
        for ended in [net.client_app().ended(), net.server_app().ended()] {
            assert_eq!(ended, Some(&ConnectionError::IdleTimeout));
        }
        // RFC 9000 s10.1: silently.
        let closes = net.client_trace.with(0, |client| {
            client
                .frames_sent()
                .filter(|f| matches!(f, FrameTrace::Close { .. }))
                .count()
        });
        assert_eq!(closes, 0);
        assert_eq!(net.client_host().connections().count(), 0);
        assert_eq!(net.server_host().connections().count(), 0);
    }
}

#[test]
fn no_idle_timeout() {
    let mut net = Setup::new(2, calm())
        .both(|config| config.max_idle_timeout = None)
        .manual();
    net.connect();
    net.run_for(100_000 * SECOND);
    assert_eq!(net.client_app().ended(), None);
    assert_eq!(net.server_app().ended(), None);
}

#[test]
fn keep_alive() {
    let mut net = Setup::new(3, calm())
        .both(|config| config.max_idle_timeout = Some(5 * SECOND))
        .client(|client| client.keep_alive_interval = Some(2 * SECOND))
        .manual();
    net.connect();
    net.run_for(60 * SECOND);
    assert_eq!(net.client_app().ended(), None);
    assert_eq!(net.server_app().ended(), None);
    let sent = net.client_trace.with(0, |client| client.sent.len());
    assert!((25..80).contains(&sent), "{sent} packets in a minute");
}

/// Who waits for credit stays known: a reader that pauses for longer than the idle timeout finds the connection, and a NAT that gives
/// the waiting end another address does not keep the credit from it. RFC 9000 s4.1.
#[test]
fn who_waits_for_credit_says_so_now_and_then() {
    for moves in [false, true] {
        for narrow_stream in [false, true] {
            let mut net = Setup::new(5, calm())
                .both(|config| {
                    config.max_idle_timeout = Some(20 * SECOND);
                    let (stream, connection) = if narrow_stream {
                        (10_000, 1 << 20)
                    } else {
                        (1 << 20, 10_000)
                    };
                    config.stream_receive_window = WindowConfig::fixed(stream);
                    config.connection_receive_window = WindowConfig::fixed(connection);
                })
                .manual();
            net.connect();
            let data = vec![7; 30_000];
            let (id, mut written) = net.on_client(|client, _| {
                let id = client.open_stream(Dir::Uni).unwrap();
                (id, client.write(id, &data).unwrap())
            });
            net.run_for(100 * SECOND);
            assert_eq!(net.client_app().ended(), None);
            assert_eq!(net.server_app().ended(), None);
            if moves {
                net.world.rebind(net.client, Rebind::Port);
            }
            net.tap.clear();
            net.run_for(60 * SECOND);
            let heard = net.tap.all().len();
            assert!((2..40).contains(&heard), "{heard} datagrams in a minute");
            let mut read = 0;
            for _ in 0..12 {
                read += net.on_server(|server, _| crate::kit::read_all(server, id).0.len());
                net.run_for(SECOND);
                if written < data.len() {
                    written +=
                        net.on_client(|client, _| client.write(id, &data[written..]).unwrap_or(0));
                }
            }
            assert_eq!(
                read,
                data.len(),
                "moves {moves}, narrow stream {narrow_stream}"
            );
        }
    }
}

/// Two idle ends fall silent: no PING answers a PING.
#[test]
fn idle_ends_are_silent() {
    let mut net = Setup::new(4, calm()).manual();
    net.connect();
    net.run_for(SECOND);
    net.tap.clear();
    net.on_client(|client, _| client.ping());
    net.run_for(20 * SECOND);
    let heard = net.tap.all().len();
    assert!(heard <= 2, "{heard} datagrams for one PING");
}

#[test]
fn application_close() {
    let mut net = Setup::new(5, calm()).manual();
    net.connect();
    net.on_server(|server, now| server.close(now, 42, Bytes::from_static(b"enough")));
    net.run_for(50 * MS);
    assert_eq!(
        net.server_app().ended(),
        Some(&ConnectionError::LocallyClosed)
    );
    let expected = ConnectionError::PeerApplication {
        code: 42,
        reason: Bytes::from_static(b"enough"),
    };
    assert_eq!(net.client_app().ended(), Some(&expected));
    net.run_for(2 * SECOND);
    assert_eq!(net.client_host().connections().count(), 0);
    assert_eq!(net.server_host().connections().count(), 0);
}

#[test]
fn close_during_the_handshake_hides_the_application() {
    let mut net = Setup::new(6, calm()).manual();
    net.run_for(15 * MS);
    net.on_server(|server, now| server.close(now, 42, Bytes::from_static(b"secret")));
    net.run_for(2 * SECOND);
    let Some(ConnectionError::PeerTransport(error)) = net.client_app().ended() else {
        panic!("{:?}", net.client_app().ended());
    };
    assert_eq!(error.code, Code::APPLICATION_ERROR);
}

#[test]
fn close_before_anything_was_sent() {
    let mut net = Setup::new(7, calm()).manual();
    net.run_for(5 * MS);
    net.on_client(|client, now| client.close(now, 1, Bytes::new()));
    net.run_for(5 * SECOND);
    assert_eq!(
        net.client_app().ended(),
        Some(&ConnectionError::LocallyClosed)
    );
    assert_eq!(net.client_host().connections().count(), 0);
    assert_eq!(
        net.server_host().connections().count(),
        0,
        "{:?}",
        net.server_app().ended()
    );
}

/// A closing end answers what still comes, but ever less often.
#[test]
fn closing_end_answers_sparingly() {
    let mut net = Setup::new(8, calm()).manual();
    net.connect();
    let late = net.tap.heard(Direction::Forward).last().cloned().unwrap();
    net.on_server(|server, now| server.close(now, 0, Bytes::new()));
    net.world.set_link_up(net.link, false);
    net.run_for(MS);
    net.tap.clear();
    // Replays are undecryptable duplicates, yet count.
    for _ in 0..200 {
        net.world.inject(Datagram {
            src: late.src,
            dst: late.dst,
            ecn: Ecn::NotEct,
            payload: late.payload.clone(),
        });
    }
    net.run_for(MS);
    let answers = net.tap.heard(Direction::Backward).len();
    assert!((3..=9).contains(&answers), "{answers}");
}

/// Its answers may be lost: what comes a probe timeout later is answered whatever came before.
#[test]
fn closing_end_answers_the_last_probe() {
    let mut net = Setup::new(8, calm()).manual();
    net.connect();
    net.on_client(|client, _| client.ping());
    net.run_for(SECOND);
    net.world.set_link_up(net.link, false);
    net.on_server(|server, now| server.close(now, 7, Bytes::new()));
    let late = net.tap.heard(Direction::Forward).last().cloned().unwrap();
    let inject = |net: &mut crate::kit::Net<_, _>, count: usize| {
        for _ in 0..count {
            net.world.inject(Datagram {
                src: late.src,
                dst: late.dst,
                ecn: Ecn::NotEct,
                payload: late.payload.clone(),
            });
        }
    };
    // The fourth and the next answer is for the eighth and the sixteenth.
    inject(&mut net, 9);
    net.run_for(MS);
    net.tap.clear();
    inject(&mut net, 1);
    net.run_for(MS);
    assert_eq!(net.tap.heard(Direction::Backward).len(), 0);
    let stats = net.server_connection().path_stats(PathId::ZERO).unwrap();
    net.run_for(stats.rtt + (4 * stats.rtt_variance).max(MS) + 26 * MS);
    inject(&mut net, 2);
    net.run_for(MS);
    assert_eq!(net.tap.heard(Direction::Backward).len(), 1, "one for both");
}

/// The server forgets a connection that the client still believes in.
fn forgotten(
    seed: u64,
) -> crate::kit::Net<tautline_testkit::apps::Manual, tautline_testkit::apps::Manual> {
    let mut net = Setup::new(seed, calm()).manual();
    net.connect();
    net.world.set_link_up(net.link, false);
    net.on_server(|server, now| server.close(now, 0, Bytes::new()));
    net.run_for(2 * SECOND);
    assert_eq!(net.server_host().connections().count(), 0);
    assert_eq!(net.client_app().ended(), None);
    net.world.set_link_up(net.link, true);
    net
}

#[test]
fn stateless_reset() {
    let mut net = forgotten(9);
    net.on_client(|client, _| client.ping());
    net.run_for(50 * MS);
    // A PING alone is too short to be answered by something shorter: the PTO's packets, or any
    // other, will do.
    net.run_for(5 * SECOND);
    if net.client_app().ended().is_none() {
        net.on_client(|client, _| {
            let id = client
                .open_stream(tautline_transport::units::Dir::Uni)
                .unwrap();
            client.write(id, &[0; 500]).unwrap();
        });
        net.run_for(SECOND);
    }
    assert_eq!(
        net.client_app().ended(),
        Some(&ConnectionError::StatelessReset)
    );
    assert_eq!(net.server_app().accepted.len(), 1);
}

/// Nobody without the token resets anything, however often they try.
#[test]
fn stateless_reset_guessing() {
    let guesses = Counters::new();
    let mut setup = Setup::new(10, calm());
    setup.client_sink = Some(guesses.sink());
    let mut net = setup.manual();
    net.connect();
    let from = net.tap.heard(Direction::Backward)[0].clone();
    let mut rng = Rng::from_u64(10);
    for round in 0..5_000 {
        let mut payload = vec![0; 21 + round % 60];
        rng.fill(&mut payload);
        payload[0] = 0x40 | (payload[0] & 0x3f);
        if round % 2 == 0 {
            // With the right destination, too.
            let cid = crate::kit::headers(&from.payload)[0].dcid.clone();
            payload[1..9].copy_from_slice(&cid);
        }
        net.world.inject(Datagram {
            src: from.src,
            dst: from.dst,
            ecn: Ecn::NotEct,
            payload,
        });
    }
    net.run_for(SECOND);
    assert_eq!(net.client_app().ended(), None);
    net.on_client(|client, _| client.ping());
    net.run_for(SECOND);
    assert_eq!(net.client_app().ended(), None);
    let noticed = guesses.snapshot().abuse(Abuse::ResetGuess);
    assert!(noticed >= 2_400, "{noticed}");
    let undecryptable = net.client_trace.with(0, |client| {
        let kind = |kind: &&Abuse| **kind == Abuse::UndecryptablePacket;
        client.abuse.iter().filter(kind).count()
    });
    // Those long enough to be tried.
    assert!(undecryptable >= 2_000, "{undecryptable}");
}

#[test]
fn silence_ends_a_handshake() {
    let mut net = Setup::new(11, calm())
        .client(|client| client.handshake_timeout = 7 * SECOND)
        .manual();
    net.world.set_link_up(net.link, false);
    net.run_for(6 * SECOND);
    assert_eq!(net.client_app().ended(), None);
    net.run_for(2 * SECOND);
    assert_eq!(
        net.client_app().ended(),
        Some(&ConnectionError::HandshakeTimeout)
    );
    assert_eq!(net.client_host().connections().count(), 0);
    // PTO backs off: a handful of datagrams, not a stream of them.
    let sent = net.tap.heard(Direction::Forward).len();
    assert!((3..=10).contains(&sent), "{sent}");
}
