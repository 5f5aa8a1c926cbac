//! The wire between plain UDP sockets.

use std::net::UdpSocket;

use tautline_sim::{
    DirectionConfig, LinkConfig, QueueSize, Rebind, RebindSchedule, interop::Scenario,
};
use tautline_transport::units::Rate;

use super::*;

const READ_LIMIT: Duration = Duration::from_secs(10);

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(READ_LIMIT)).unwrap();
    socket
}

fn scenario(change: impl FnOnce(&mut DirectionConfig)) -> Scenario {
    let mut direction = DirectionConfig::new(
        Rate::from_bits_per_second(10_000_000),
        Duration::from_millis(2),
    );
    change(&mut direction);
    Scenario {
        link: LinkConfig::symmetric(direction),
        rebind: None,
    }
}

fn start(server: &UdpSocket, scenario: Scenario) -> Wire {
    let place = Place {
        simulated: "10.0.0.2:443".parse().unwrap(),
        real: server.local_addr().unwrap(),
        watched: true,
    };
    Fronts::bind(&[place]).unwrap().run(scenario, 1).unwrap()
}

/// Sends one datagram and gives its bytes and source back as the server sees them.
fn across(
    client: &UdpSocket,
    server: &UdpSocket,
    wire: &Wire,
    bytes: &[u8],
) -> (Vec<u8>, SocketAddr) {
    client.send_to(bytes, wire.fronts()[0]).unwrap();
    let mut buffer = [0; 2000];
    let (len, from) = server.recv_from(&mut buffer).unwrap();
    (buffer[..len].to_vec(), from)
}

#[test]
fn datagrams_cross_both_ways_with_the_delay() {
    let (client, server) = (socket(), socket());
    let wire = start(&server, scenario(|_| {}));
    let (bytes, from) = across(&client, &server, &wire, b"ask");
    assert_eq!(bytes, b"ask");
    server.send_to(b"answer", from).unwrap();
    let mut buffer = [0; 2000];
    let (len, front) = client.recv_from(&mut buffer).unwrap();
    assert_eq!((&buffer[..len], front), (&b"answer"[..], wire.fronts()[0]));
    let capture = wire.finish();
    let ways = |seen: &[Seen]| seen.iter().map(|seen| seen.way).collect::<Vec<_>>();
    assert_eq!(ways(&capture.left), [Way::ToServer, Way::ToClient]);
    assert_eq!(ways(&capture.right), [Way::ToServer, Way::ToClient]);
    let crossing = capture.right[0].time - capture.left[0].time;
    assert!(crossing >= Duration::from_millis(2), "{crossing:?}");
    assert_eq!(capture.left[0].src.ip(), CLIENT_V4);
}

#[test]
fn the_queue_drops_its_tail() {
    let (client, server) = (socket(), socket());
    // One at the transmitter, two in the queue; so slow that few of a burst leave meanwhile.
    let wire = start(
        &server,
        scenario(|direction| {
            direction.rate = Some(Rate::from_bits_per_second(2_000));
            direction.queue = QueueSize::Packets(2);
        }),
    );
    for index in 0..20_u8 {
        client.send_to(&[index; 100], wire.fronts()[0]).unwrap();
    }
    let mut buffer = [0; 2000];
    for _ in 0..3 {
        assert_eq!(server.recv_from(&mut buffer).unwrap().0, 100);
    }
    let capture = wire.finish();
    let arrived: Vec<u8> = capture.right.iter().map(|seen| seen.payload[0]).collect();
    assert!(arrived.len() < 20 && arrived[0] == 0, "{arrived:?}");
    assert!(
        arrived.windows(2).all(|pair| pair[0] < pair[1]),
        "{arrived:?}"
    );
}

#[test]
fn faults_are_the_links() {
    let (client, server) = (socket(), socket());
    let mut network = scenario(|_| {});
    network.link.forward.drop_packets.push(0..=0);
    let wire = start(&server, network);
    client.send_to(b"lost", wire.fronts()[0]).unwrap();
    let (bytes, _) = across(&client, &server, &wire, b"heard");
    assert_eq!(bytes, b"heard");
    let capture = wire.finish();
    assert_eq!((capture.left.len(), capture.right.len()), (2, 1));
}

#[test]
fn ecn_marks_survive() {
    let (client, server) = (socket(), socket());
    let wire = start(&server, scenario(|_| {}));
    let marked = Socket::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    drop(client);
    let ask = Datagram {
        src: marked.local(),
        dst: wire.fronts()[0],
        ecn: Ecn::Ect0,
        payload: b"ask".to_vec(),
    };
    marked.send(wire.fronts()[0], &ask);
    server.recv_from(&mut [0; 100]).unwrap();
    let capture = wire.finish();
    assert_eq!(
        (capture.left[0].ecn, capture.right[0].ecn),
        (Ecn::Ect0, Ecn::Ect0)
    );
}

#[test]
fn a_rebound_client_comes_from_another_address_and_the_old_one_is_gone() {
    for (kind, same_ip) in [(Rebind::Port, true), (Rebind::Address, false)] {
        let (client, server) = (socket(), socket());
        let mut network = scenario(|_| {});
        network.rebind = Some(RebindSchedule {
            kind,
            first: Duration::from_millis(100),
            every: None,
        });
        let wire = start(&server, network);
        let (_, before) = across(&client, &server, &wire, b"one");
        thread::sleep(Duration::from_millis(150));
        let (_, after) = across(&client, &server, &wire, b"two");
        assert_ne!(before, after);
        assert_eq!(before.ip() == after.ip(), same_ip);
        // What still goes to the old address is lost, what goes to the new one arrives.
        server.send_to(b"old", before).unwrap();
        server.send_to(b"new", after).unwrap();
        let mut buffer = [0; 2000];
        let (len, _) = client.recv_from(&mut buffer).unwrap();
        assert_eq!(&buffer[..len], b"new");
        wire.finish();
    }
}

#[test]
fn what_is_not_watched_is_counted() {
    let (client, server) = (socket(), socket());
    let place = Place {
        simulated: "10.0.0.2:444".parse().unwrap(),
        real: server.local_addr().unwrap(),
        watched: false,
    };
    let fronts = Fronts::bind(&[place]).unwrap();
    let wire = fronts.run(scenario(|_| {}), 1).unwrap();
    let (_, from) = across(&client, &server, &wire, b"ask");
    server.send_to(&[0; 700], from).unwrap();
    client.recv_from(&mut [0; 2000]).unwrap();
    let capture = wire.finish();
    assert!(capture.left.is_empty() && capture.right.is_empty());
    assert_eq!(
        capture.beside.iter().map(|(_, bytes)| bytes).sum::<usize>(),
        700
    );
}
