//! Unreliable datagrams. RFC 9221.

use bytes::Bytes;
use tautline_sim::LossModel;
use tautline_transport::{connection::Event, datagram::SendDatagramError};

use crate::kit::{MS, SECOND, Setup, calm, wire};

#[test]
fn both_ways_in_order() {
    let mut net = Setup::new(1, calm()).manual();
    net.connect();
    net.on_client(|client, _| {
        for number in 0..20u8 {
            assert_eq!(
                client.send_datagram(Bytes::from(vec![number; 100])),
                Ok(u64::from(number))
            );
        }
    });
    net.on_server(|server, _| server.send_datagram(Bytes::new()).unwrap());
    net.run_for(50 * MS);
    assert!(net.server_app().saw(&Event::DatagramReceived));
    net.on_server(|server, _| {
        for number in 0..20u8 {
            assert_eq!(server.recv_datagram(), Some(Bytes::from(vec![number; 100])));
        }
        assert_eq!(server.recv_datagram(), None);
    });
    net.on_client(|client, _| assert_eq!(client.recv_datagram(), Some(Bytes::new())));
}

#[test]
fn lost_ones_stay_lost() {
    let mut link = calm();
    link.forward.loss = LossModel::uniform(0.2);
    let mut net = Setup::new(2, link).manual();
    net.connect();
    for number in 0..200u8 {
        net.on_client(|client, _| client.send_datagram(Bytes::from(vec![number])).unwrap());
        net.run_for(5 * MS);
    }
    net.run_for(SECOND);
    let got: Vec<u8> = net.on_server(|server, _| {
        std::iter::from_fn(|| server.recv_datagram())
            .map(|data| data[0])
            .collect()
    });
    assert!((120..190).contains(&got.len()), "{}", got.len());
    assert!(got.windows(2).all(|pair| pair[0] < pair[1]), "no copies");
}

#[test]
fn sizes() {
    let mut net = Setup::new(3, calm()).manual();
    net.connect();
    let max = net.client_connection().max_datagram_size().unwrap();
    assert!((1_300..1_452).contains(&max), "{max}");
    net.on_client(|client, _| {
        let refused = client.send_datagram(Bytes::from(vec![0; max + 1]));
        assert_eq!(refused, Err(SendDatagramError::TooLarge { max }));
        client.send_datagram(Bytes::from(vec![0; max])).unwrap();
    });
    net.run_for(100 * MS);
    let got = net.on_server(|server, _| server.recv_datagram()).unwrap();
    assert_eq!(got.len(), max);
}

#[test]
fn unsupported() {
    let mut net = Setup::new(4, calm())
        .server(|server| server.datagram_receive_buffer_bytes = 0)
        .manual();
    net.connect();
    assert_eq!(net.client_connection().max_datagram_size(), None);
    net.on_client(|client, _| {
        let refused = client.send_datagram(Bytes::from_static(b"x"));
        assert_eq!(refused, Err(SendDatagramError::Unsupported));
    });
    // The other way works.
    net.on_server(|server, _| server.send_datagram(Bytes::from_static(b"y")).unwrap());
    net.run_for(50 * MS);
    let got = net.on_client(|client, _| client.recv_datagram());
    assert_eq!(got, Some(Bytes::from_static(b"y")));
}

#[test]
fn full_queues() {
    let mut net = Setup::new(5, wire(1, 20))
        .client(|client| client.datagram_send_buffer_bytes = 20_000)
        .server(|server| server.datagram_receive_buffer_bytes = 10_000)
        .manual();
    net.connect();
    let sent = net.on_client(|client, _| {
        let mut sent = 0u8;
        loop {
            match client.send_datagram(Bytes::from(vec![sent; 1_000])) {
                Ok(_) => sent += 1,
                Err(SendDatagramError::Blocked(back)) => {
                    assert_eq!(back.len(), 1_000);
                    return sent;
                }
                Err(error) => panic!("{error}"),
            }
        }
    });
    assert!((15..=20).contains(&sent), "{sent}");
    net.run_for(SECOND);
    assert!(net.client_app().saw(&Event::DatagramsUnblocked));
    // Nobody read: the newest are kept.
    let got: Vec<u8> = net.on_server(|server, _| {
        std::iter::from_fn(|| server.recv_datagram())
            .map(|data| data[0])
            .collect()
    });
    assert!(got.len() < usize::from(sent), "{got:?}");
    assert_eq!(got.last(), Some(&(sent - 1)));
}
