//! Key updates. RFC 9001 s6.

use tautline_sim::{LossModel, Reordering};
use tautline_transport::tls::Level;

use crate::kit::{MS, SECOND, Setup, calm, read_all};

#[test]
fn from_either_side_under_load() {
    for seed in 0..6 {
        let mut link = calm();
        for direction in [&mut link.forward, &mut link.backward] {
            direction.loss = LossModel::uniform(0.03);
            direction.reordering = Some(Reordering {
                probability: 0.1,
                extra: 5 * MS,
            });
        }
        let mut net = Setup::new(seed, link).manual();
        net.connect();
        let id = net.on_client(|client, _| {
            client
                .open_stream(tautline_transport::units::Dir::Bi)
                .unwrap()
        });
        let mut updates = 0;
        let (mut sent, mut received) = (0, 0);
        for round in 0..100u32 {
            net.on_client(|client, now| {
                sent += client.write(id, &[1; 20_000]).unwrap();
                if round % 7 == 3 {
                    updates += u32::from(client.initiate_key_update(now).is_ok());
                }
            });
            net.run_for(50 * MS);
            net.on_server(|server, now| {
                while server
                    .accept_stream(tautline_transport::units::Dir::Bi)
                    .is_some()
                {}
                received += read_all(server, id).0.len();
                if round % 11 == 5 {
                    updates += u32::from(server.initiate_key_update(now).is_ok());
                }
            });
        }
        net.run_for(2 * SECOND);
        received += net.on_server(|server, _| read_all(server, id).0.len());
        assert!(sent > 1_000_000);
        assert_eq!(received, sent);
        assert!(updates >= 10, "{updates}");
        assert_eq!(net.client_app().ended(), None);
        assert_eq!(net.server_app().ended(), None);
    }
}

/// Both ends update at the same moment: the same phase for both.
#[test]
fn at_the_same_time() {
    let mut net = Setup::new(7, calm()).manual();
    net.connect();
    net.on_client(|client, now| client.initiate_key_update(now).unwrap());
    net.on_server(|server, now| server.initiate_key_update(now).unwrap());
    net.run_for(SECOND);
    for trace in [&net.client_trace, &net.server_trace] {
        let phase = trace.with(0, |c| c.sent_at(Level::OneRtt).last().unwrap().key_phase);
        assert_eq!(phase, 1);
    }
    assert_eq!(net.client_app().ended(), None);
    assert_eq!(net.server_app().ended(), None);
}

#[test]
fn not_before_the_handshake_is_confirmed_and_not_twice() {
    let mut net = Setup::new(8, calm()).manual();
    net.run_for(MS);
    net.on_client(|client, now| assert!(client.initiate_key_update(now).is_err()));
    net.connect();
    net.on_client(|client, now| {
        client.initiate_key_update(now).unwrap();
        assert!(client.initiate_key_update(now).is_err());
    });
    net.run_for(SECOND);
    assert_eq!(net.client_app().ended(), None);
}
