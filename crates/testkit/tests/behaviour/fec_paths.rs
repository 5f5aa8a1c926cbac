//! Erasure correction over several paths that are not alike.

use tautline_sim::LossModel;
use tautline_testkit::pair::client_address;
use tautline_transport::multipath::{MultipathConfig, sched::registry};

use crate::{
    fec::{protect, push},
    kit::{SECOND, Setup, wire},
    multipath_trouble::{local, to},
};

/// Repair symbols per source symbol with `constant:25,20`, over two paths with these MTUs.
fn code_rate(scheduler: &str, mtus: [u16; 2]) -> f64 {
    let links = mtus.map(|mtu| {
        let mut link = wire(10, 20);
        link.forward.mtu = mtu;
        link.backward.mtu = mtu;
        link.backward.loss = LossModel::uniform(0.02);
        link
    });
    let [first, second] = links;
    let mut setup = Setup::new(1, first).null_tls().quiet().both(|config| {
        let mut multipath = MultipathConfig::default();
        multipath.scheduler = registry::by_name(scheduler).expect("a scheduler");
        config.multipath = Some(multipath);
        protect(config, "constant:25,20");
    });
    setup.client_addresses = vec![client_address(), local(1, 50_000)];
    setup.parallel = vec![second];
    let mut net = setup.manual();
    net.connect();
    let opened = net.on_client(|client, now| client.open_path(now, to(1, 50_000)));
    assert!(opened.is_ok());
    net.run_for(2 * SECOND);
    for _ in 0..8 {
        push(&mut net, 200_000, 2 * SECOND);
    }
    let stats = net.server_connection().fec_stats();
    println!("{scheduler} {mtus:?}: {stats:?}");
    stats.repairs_sent as f64 / stats.sources_sent as f64
}

/// What left on the path with larger datagrams is repaired there.
#[test]
fn no_repair_symbol_is_dropped_for_want_of_room() {
    for scheduler in ["min-rtt", "round-robin", "auto"] {
        for mtus in [[1_500, 1_500], [1_500, 1_300], [1_300, 1_500]] {
            let rate = code_rate(scheduler, mtus);
            assert!(
                (0.235..=0.26).contains(&rate),
                "{scheduler} {mtus:?}: {rate:.3}"
            );
        }
    }
}
