//! What connections know of losses from others before them.

use std::sync::Arc;

use bytes::Bytes;
use tautline_sim::LossModel;
use tautline_testkit::apps::Manual;
use tautline_transport::{
    config::TransportConfig,
    fec::{LossMemory, LossStore},
    units::{Dir, PathId},
};

use crate::{
    fec::{protect, push},
    kit::{MS, Net, SECOND, Setup, wire},
};

/// A connected pair whose server protects with `auto`, over a link that loses this share of its
/// packets.
fn connected(loss: f64, tune: impl Fn(&mut TransportConfig)) -> Net<Manual, Manual> {
    let mut link = wire(20, 40);
    link.backward.loss = LossModel::uniform(loss);
    let setup = Setup::new(7, link).both(|config| protect(config, "auto"));
    let mut net = setup.server(tune).manual();
    net.connect();
    net
}

/// What a server knows after a download over such a link.
pub fn learnt(loss: f64) -> LossMemory {
    let mut net = connected(loss, |_| {});
    push(&mut net, 250_000, 20 * SECOND);
    net.server_connection().loss_memory().unwrap()
}

/// Repair symbols with the first flight of a connection that begins with this memory.
fn repairs_of_first_flight(scheduler: &str, memory: Option<LossMemory>) -> u64 {
    let mut net = connected(0.0, |config| {
        protect(config, scheduler);
        config.fec.loss_memory = memory;
        // So that neither window nor pacer holds repair symbols back.
        config.initial_window_packets = 40;
    });
    let before = net.server_connection().fec_stats().repairs_sent;
    net.on_server(|server, _| {
        let id = server.open_stream(Dir::Uni).unwrap();
        let mut data = Bytes::from(vec![7; 36_000]);
        assert_eq!(server.write_bytes(id, &mut data), Ok(36_000));
        server.finish(id).unwrap();
    });
    // Less than a round trip: nothing was heard of any of it.
    net.run_for(70 * MS);
    net.server_connection().fec_stats().repairs_sent - before
}

#[test]
fn the_first_flight_is_protected_as_earlier_connections_advise() {
    let (calm, lossy) = (learnt(0.0), learnt(0.15));
    assert_eq!(calm.rate(), 0.0);
    assert!((0.1..0.2).contains(&lossy.rate()), "{lossy:?}");
    for scheduler in ["auto", "flec-bulk"] {
        let none = repairs_of_first_flight(scheduler, None);
        let repairs = repairs_of_first_flight(scheduler, Some(lossy));
        let spared = repairs_of_first_flight(scheduler, Some(calm));
        let all = (spared, none, repairs);
        assert!(
            spared <= none && none <= repairs && spared < repairs,
            "{scheduler}: {all:?}"
        );
    }
}

/// Connections that share a store find what others left, at the same peer alone, while those last and
/// after their end.
#[test]
fn connections_share_what_they_know() {
    let store = Arc::new(LossStore::new(8));
    let share = |config: &mut TransportConfig| config.fec.loss_store = Some(Arc::clone(&store));
    let known = |net: &Net<Manual, Manual>| {
        let estimate = net.server_connection().loss_estimate(PathId::ZERO);
        estimate.unwrap()
    };
    let mut first = connected(0.15, share);
    let alone = known(&first);
    assert!(alone.packets < 20.0, "{alone:?}");
    push(&mut first, 250_000, 20 * SECOND);
    assert_eq!(store.len(), 1);
    let second = connected(0.0, share);
    let during = known(&second);
    assert!(
        (80.0..230.0).contains(&during.packets) && during.rate > 0.1,
        "{during:?}"
    );
    drop(second);
    // What is known at the end is what is left.
    first.on_server(|server, now| server.close(now, 0, Bytes::new()));
    let left = first.server_connection().loss_memory().unwrap();
    assert_eq!(
        store
            .recall(tautline_testkit::pair::client_address().ip(), first.now())
            .map(|memory| memory.rate() > 0.1),
        Some(true)
    );
    assert!(left.packets() > 200.0);
    let third = connected(0.0, share);
    assert!(known(&third).rate > 0.1);
    // Who does not ask is not told.
    let stranger = connected(0.0, |_| {});
    let new = known(&stranger);
    assert!(new.packets < 20.0 && new.rate == 0.0, "{new:?}");
}

#[test]
fn another_address_is_another_path() {
    let mut net = connected(0.15, |_| {});
    push(&mut net, 250_000, 20 * SECOND);
    let known = |net: &Net<Manual, Manual>| {
        let estimate = net.server_connection().loss_estimate(PathId::ZERO);
        estimate.unwrap()
    };
    let before = known(&net);
    assert!(before.packets > 150.0 && before.rate > 0.1, "{before:?}");
    net.world
        .rebind(net.client, tautline_sim::Rebind::AddressAndPort);
    net.on_client(|client, _| {
        let id = client.open_stream(Dir::Uni).unwrap();
        let mut data = Bytes::from(vec![7; 3_000]);
        assert_eq!(client.write_bytes(id, &mut data), Ok(3_000));
    });
    net.run_for(SECOND);
    let after = known(&net);
    assert!(after.packets < 50.0, "{after:?}");
}
