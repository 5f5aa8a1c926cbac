//! The end of one stream beside others that go on.

use std::time::Duration;

use bytes::Bytes;
use tautline_sim::{Direction, QueueSize};
use tautline_testkit::{apps::Manual, trace::FrameTrace};
use tautline_transport::{
    config::WindowConfig,
    connection::Connection,
    stream::{ReadOutcome, sched::Priority},
    units::{Dir, StreamId},
};

use crate::{
    fec::{offered, protect},
    fec_memory::learnt,
    kit::{MS, Net, SECOND, Setup, wire},
};

const WIDE: WindowConfig = WindowConfig {
    initial: 16 << 20,
    max: 16 << 20,
};
const ROUND_TRIP: Duration = Duration::from_millis(80);
/// A stream goes before the long one, or takes turns with it.
const SHARES: [Priority; 2] = [
    Priority {
        urgency: 0,
        incremental: false,
    },
    Priority {
        urgency: 3,
        incremental: true,
    },
];

/// A server that knows of losses sends a stream without end, and after 300 ms one of `bytes` bytes beside it, of which this datagram is
/// lost.
fn small_beside_long(
    scheduler: &str,
    priority: Priority,
    bytes: usize,
    lost: Option<u64>,
) -> Small {
    let mut link = wire(20, 40);
    // Slow start fills it; what is lost is what the test says.
    link.backward.queue = QueueSize::Unlimited;
    link.backward
        .drop_packets
        .extend(lost.map(|lost| lost..=lost));
    let setup = Setup::new(7, link).both(|config| {
        config.mtu.discovery = false;
        // So that nothing waits for flow control.
        config.stream_receive_window = WIDE;
        config.connection_receive_window = WIDE;
        protect(config, scheduler);
    });
    let memory = learnt(0.05);
    let setup = setup.server(|config| config.fec.loss_memory = Some(memory));
    let mut net = setup.manual();
    net.connect();
    let turns = SHARES[1];
    let long = net.on_server(|server, _| open(server, turns));
    // As much as the send buffer takes: more than leaves in the next round trips.
    let fill = |net: &mut Net<Manual, Manual>| {
        net.on_server(|server, _| server.write(long, &[7; 500_000]).unwrap());
        net.run_for(MS);
    };
    (0..280).for_each(|_| fill(&mut net));
    // There must be room for the other.
    net.run_for(20 * MS);
    let start = net.now();
    let id = net.on_server(|server, _| {
        let id = open(server, priority);
        let mut data = Bytes::from(vec![7; bytes]);
        assert_eq!(server.write_bytes(id, &mut data), Ok(bytes));
        server.finish(id).unwrap();
        id
    });
    let took = loop {
        fill(&mut net);
        assert!(net.now() < start + SECOND, "{}", net.last_packets());
        if net.on_client(|client, _| is_finished(client, id)) {
            break net.now().saturating_since(start);
        }
    };
    let dropped = net.world.link_stats(net.link, Direction::Backward).dropped;
    assert_eq!(dropped.rule, u64::from(lost.is_some()));
    Small {
        took,
        last: datagram_of_end(&net, id),
        retransmitted: net.server_connection().stream_stats().retransmitted_bytes,
        repairs: net.server_connection().fec_stats().repairs_sent,
    }
}

struct Small {
    took: Duration,
    /// Which of the server's datagrams had its end first.
    last: u64,
    retransmitted: u64,
    repairs: u64,
}

fn open(server: &mut Connection, priority: Priority) -> StreamId {
    let id = server.open_stream(Dir::Uni).unwrap();
    server.set_priority(id, priority);
    id
}

fn is_finished(client: &mut Connection, id: StreamId) -> bool {
    loop {
        match client.read(id, usize::MAX) {
            Ok(ReadOutcome::Chunk(_)) => {}
            Ok(ReadOutcome::Finished) => return true,
            Ok(ReadOutcome::Blocked) | Err(_) => return false,
        }
    }
}

/// Each packet is a datagram since the handshake.
fn datagram_of_end(net: &Net<Manual, Manual>, id: StreamId) -> u64 {
    net.server_trace.with(0, |server| {
        let is_end = |frame: &FrameTrace| {
            matches!(frame, FrameTrace::Stream { id: of, fin: true, .. } if *of == id)
        };
        let behind = server.sent.iter().rev();
        let last = server.sent.iter().position(|packet| packet.has(is_end));
        let behind = behind.len() - last.expect("an end");
        offered(net) - behind as u64
    })
}

/// Though others go on, and show the loss: with `tail` nobody waits for that.
#[test]
fn a_lost_end_beside_others_costs_no_round_trip() {
    for (bytes, priority) in [5_000, 500]
        .into_iter()
        .flat_map(|bytes| SHARES.map(|share| (bytes, share)))
    {
        let late = |scheduler| {
            let calm = small_beside_long(scheduler, priority, bytes, None);
            let lossy = small_beside_long(scheduler, priority, bytes, Some(calm.last));
            println!(
                "{scheduler} {bytes} {priority:?}: {:?} {:?} {} {}",
                calm.took, lossy.took, lossy.retransmitted, lossy.repairs
            );
            (lossy.took - calm.took, lossy.retransmitted, calm.repairs)
        };
        let (plain, again, _) = late("quirl-object");
        assert!(plain > ROUND_TRIP * 3 / 4 && again > 0, "{plain:?}");
        let (tail, again, repairs) = late("tail");
        assert!(
            tail < ROUND_TRIP / 4 && again == 0,
            "{bytes} {priority:?}: {tail:?}"
        );
        assert!((1..=3).contains(&repairs), "{repairs}");
    }
}
