//! The judge must not nod at runs that lack what their case is about.

use std::{net::SocketAddr, time::Duration};

use super::*;
use crate::wire::Seen;

const CLIENT: &str = "10.0.0.1:5000";
const REBOUND: &str = "10.0.0.1:6000";
const SERVER: &str = "10.0.0.2:443";

fn seen(way: Way, client: &str, ecn: Ecn) -> Seen {
    let (client, server): (SocketAddr, SocketAddr) =
        (client.parse().unwrap(), SERVER.parse().unwrap());
    let (src, dst) = match way {
        Way::ToServer => (client, server),
        Way::ToClient => (server, client),
    };
    Seen {
        time: Duration::ZERO,
        way,
        src,
        dst,
        ecn,
        payload: vec![0; 100],
    }
}

fn packet(datagram: usize, way: Way, level: Level, frames: &[Shown]) -> Packet {
    Packet {
        datagram,
        way,
        kind: Kind::Encrypted(level),
        version: 0,
        dcid: vec![1],
        scid: Vec::new(),
        token: Vec::new(),
        opened: true,
        number: datagram as u64,
        phase: 0,
        protected_len: 100,
        frames: frames.to_vec(),
    }
}

/// One packet per datagram, alike at both ends.
fn evidence(steps: &[(Way, &str, Level, &[Shown])]) -> Evidence {
    let trace = || {
        let mut trace = Trace::default();
        for (index, (way, client, level, frames)) in steps.iter().enumerate() {
            trace.datagrams.push(seen(*way, client, Ecn::Ect0));
            trace.packets.push(packet(index, *way, *level, frames));
        }
        trace
    };
    Evidence {
        left: trace(),
        right: trace(),
    }
}

fn case(name: &str) -> &'static Case {
    let mut cases = crate::case::ALL.iter();
    cases.find(|case| case.name == name).unwrap()
}

#[test]
fn a_new_path_needs_an_answered_challenge_in_its_first_packet() {
    const CHALLENGE: &[Shown] = &[Shown::PathChallenge([7; 8])];
    const ANSWER: &[Shown] = &[Shown::PathResponse([7; 8])];
    const NOTHING: &[Shown] = &[Shown::Stream];
    let run = |first: &'static [Shown], second: &'static [Shown], answer: &'static [Shown]| {
        evidence(&[
            (Way::ToServer, CLIENT, Level::OneRtt, NOTHING),
            (Way::ToClient, CLIENT, Level::OneRtt, NOTHING),
            (Way::ToServer, REBOUND, Level::OneRtt, NOTHING),
            (Way::ToClient, REBOUND, Level::OneRtt, first),
            (Way::ToClient, REBOUND, Level::OneRtt, second),
            (Way::ToServer, REBOUND, Level::OneRtt, answer),
        ])
    };
    let port = case("rebind-port");
    assert!(rebinding(port, &run(CHALLENGE, NOTHING, ANSWER)).is_ok());
    assert!(
        rebinding(port, &run(NOTHING, CHALLENGE, ANSWER)).is_err(),
        "too late"
    );
    assert!(
        rebinding(port, &run(CHALLENGE, NOTHING, NOTHING)).is_err(),
        "unanswered"
    );
    let address = case("rebind-addr");
    assert!(
        rebinding(address, &run(CHALLENGE, NOTHING, ANSWER)).is_err(),
        "same address"
    );
    let stayed = evidence(&[(Way::ToClient, CLIENT, Level::OneRtt, NOTHING)]);
    assert!(rebinding(port, &stayed).is_err(), "one path");
}

#[test]
fn early_data_and_little_else() {
    let run = |early: usize, late: usize| {
        let mut steps: Vec<(Way, &str, Level, &[Shown])> = Vec::new();
        steps.extend(vec![
            (Way::ToServer, CLIENT, Level::ZeroRtt, &[][..]);
            early
        ]);
        steps.extend(vec![(Way::ToServer, CLIENT, Level::OneRtt, &[][..]); late]);
        evidence(&steps)
    };
    assert!(zero_rtt(&run(90, 50)).is_ok());
    assert!(zero_rtt(&run(90, 51)).is_err());
    assert!(zero_rtt(&run(0, 1)).is_err());
}

#[test]
fn every_datagram_is_marked_and_counted() {
    const COUNTED: &[Shown] = &[Shown::Ack { ecn: true }];
    const PLAIN: &[Shown] = &[Shown::Ack { ecn: false }];
    let run = |by_server: &'static [Shown]| {
        evidence(&[
            (Way::ToServer, CLIENT, Level::OneRtt, COUNTED),
            (Way::ToClient, CLIENT, Level::OneRtt, by_server),
        ])
    };
    assert!(ecn(&run(COUNTED)).is_ok());
    assert!(ecn(&run(PLAIN)).is_err());
    let mut bleached = run(COUNTED);
    bleached.left.datagrams[1].ecn = Ecn::NotEct;
    assert!(ecn(&bleached).is_err());
}

#[test]
fn more_than_three_times_is_too_much() {
    let mut run = evidence(&[
        (Way::ToServer, CLIENT, Level::Initial, &[]),
        (Way::ToClient, CLIENT, Level::Handshake, &[]),
        (Way::ToServer, CLIENT, Level::Handshake, &[]),
    ]);
    // Too little handshake data comes first.
    let wrong = amplification(&run).unwrap_err().to_string();
    assert!(wrong.contains("handshake data"), "{wrong}");
    run.right
        .push_crypto(Level::Handshake, Way::ToClient, vec![0; 7500]);
    run.right.datagrams[1].payload = vec![0; 301];
    let wrong = amplification(&run).unwrap_err().to_string();
    assert!(wrong.contains("times"), "{wrong}");
}

#[test]
fn sealed_packets_are_riddles_unless_they_are_resets() {
    let mut run = evidence(&[
        (Way::ToServer, CLIENT, Level::OneRtt, &[]),
        (Way::ToServer, CLIENT, Level::OneRtt, &[]),
    ]);
    assert!(everything_opens(&run).is_ok());
    run.left.packets[1].opened = false;
    assert!(everything_opens(&run).is_err());
    run.left.packets[1].dcid = vec![9];
    assert!(everything_opens(&run).is_ok());
}
