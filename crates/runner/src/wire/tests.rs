//! The wire between plain UDP sockets.

use std::net::UdpSocket;

use tautline_sim::{
    DirectionConfig, LinkConfig, LossModel, QueueSize, Rebind, RebindSchedule, interop::Scenario,
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
fn the_queue_drops_its_tail_and_loss_is_the_links() {
    let (client, server) = (socket(), socket());
    // One at the transmitter, two in the queue; slow enough that none of a burst leaves meanwhile.
    let wire = start(
        &server,
        scenario(|direction| {
            direction.rate = Some(Rate::from_bits_per_second(8_000));
            direction.queue = QueueSize::Packets(2);
        }),
    );
    for index in 0..10_u8 {
        client.send_to(&[index; 100], wire.fronts()[0]).unwrap();
    }
    let mut buffer = [0; 2000];
    for index in 0..3_u8 {
        let (len, _) = server.recv_from(&mut buffer).unwrap();
        assert_eq!((len, buffer[0]), (100, index));
    }
    assert_eq!(wire.finish().right.len(), 3);

    let wire = start(
        &server,
        scenario(|direction| direction.loss = LossModel::uniform(1.0)),
    );
    client.send_to(b"lost", wire.fronts()[0]).unwrap();
    thread::sleep(Duration::from_millis(50));
    let capture = wire.finish();
    assert_eq!((capture.left.len(), capture.right.len()), (1, 0));
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
