//! Streams, messages and datagrams that go by one path, while it works and when it does not.

use bytes::Bytes;
use tautline_transport::{
    connection::Connection,
    message::MessageOptions,
    multipath::{PathPin, PathStatus, PinError},
    path::PathStats,
    stream::sched::Priority,
    units::{Dir, PathId, Side, StreamId},
};

use crate::{
    kit::{MS, SECOND},
    multipath_trouble::Trouble,
};

const FIRST: PathId = PathId(0);
const SECOND_PATH: PathId = PathId(1);

fn stats(trouble: &mut Trouble, side: Side, id: PathId) -> PathStats {
    let stats = trouble.on(side, |connection: &mut Connection, _| {
        connection.path_stats(id)
    });
    stats.expect("the path is there")
}

/// Bytes sent on each of two paths while `what` goes on.
fn carried(trouble: &mut Trouble, what: impl FnOnce(&mut Trouble)) -> [u64; 2] {
    let sent = |trouble: &mut Trouble| {
        [FIRST, SECOND_PATH].map(|id| stats(trouble, Side::Server, id).recovery.bytes_sent)
    };
    let before = sent(trouble);
    what(trouble);
    let after = sent(trouble);
    [after[0] - before[0], after[1] - before[1]]
}

#[test]
fn a_stream_goes_by_its_path_sent_again_included() {
    for pin in [PathPin::Prefer(SECOND_PATH), PathPin::Only(SECOND_PATH)] {
        let mut trouble = Trouble::open(1, 2);
        trouble.set_loss(1, 0.03);
        let sent = carried(&mut trouble, |trouble| {
            trouble.transfer_on(Side::Server, 1_000_000, Some(pin));
            trouble.deliver(30 * SECOND);
        });
        let lost = stats(&mut trouble, Side::Server, SECOND_PATH).recovery;
        println!(
            "{pin:?}: {sent:?} bytes, {} packets lost",
            lost.packets_lost
        );
        assert!(lost.packets_lost > 5 && sent[1] > 1_000_000, "{sent:?}");
        // A probe timeout hands a preferred one over.
        let elsewhere = match pin {
            PathPin::Prefer(_) => 100_000,
            PathPin::Only(_) => 5_000,
        };
        assert!(sent[0] < elsewhere, "{sent:?}");
    }
}

#[test]
fn a_full_path_blocks_only_what_is_pinned_to_it() {
    let mut trouble = Trouble::open(2, 2);
    let pin = Some(PathPin::Only(SECOND_PATH));
    let bulk = trouble.transfer_on(Side::Server, 20_000_000, pin);
    trouble.run(SECOND);
    // As urgent as the one that waits, and behind it in the order of streams.
    let start = trouble.net.now();
    let small = trouble.transfer_on(Side::Server, 100_000, None);
    let (bulk, small) = (bulk.expect("a stream"), small.expect("a stream"));
    while !trouble.is_over(small) {
        trouble.run(10 * MS);
        let took = trouble.net.now().saturating_since(start);
        assert!(took < 200 * MS, "{took:?}");
    }
    assert!(!trouble.is_over(bulk));
    let sent = carried(&mut trouble, |trouble| {
        trouble.transfer(Side::Server, 2_000_000);
        trouble.run(SECOND);
    });
    // Both paths are of 20 Mb/s; the one is used for what is not pinned alone.
    assert!(sent[0] > 1_900_000 && sent[1] > 2_000_000, "{sent:?}");
}

#[test]
fn urgency_decides_on_the_path_that_both_want() {
    let mut trouble = Trouble::open(3, 2);
    trouble.transfer(Side::Server, 50_000_000);
    trouble.run(SECOND);
    let urgent = trouble.on(Side::Server, |server, _| {
        let id = server.open_stream(Dir::Uni).expect("a stream");
        server.set_priority(
            id,
            Priority {
                urgency: 0,
                incremental: false,
            },
        );
        server
            .pin_stream(id, Some(PathPin::Prefer(SECOND_PATH)))
            .expect("it is there");
        server.write(id, &[7; 50_000]).expect("it is open");
        id
    });
    // A window waits before it in the network, at most; not what waits in the buffer.
    trouble.run(400 * MS);
    let arrived = trouble.on(Side::Client, |client, _| {
        let mut bytes = 0;
        while let Ok(tautline_transport::stream::ReadOutcome::Chunk(chunk)) =
            client.read(urgent, usize::MAX)
        {
            bytes += chunk.len();
        }
        bytes
    });
    assert_eq!(arrived, 50_000);
}

#[test]
fn a_preferred_path_that_dies_holds_nothing_up() {
    let mut trouble = Trouble::open(4, 2);
    trouble.transfer_on(Side::Server, 3_000_000, Some(PathPin::Prefer(SECOND_PATH)));
    trouble.run(300 * MS);
    trouble.set_link(1, false);
    let took = trouble.deliver(10 * SECOND);
    println!("{took:?}");
    assert!(took < 2_500 * MS, "{took:?}");
    // It answers again, and carries again what is pinned to it.
    trouble.set_link(1, true);
    trouble.run(20 * SECOND);
    let sent = carried(&mut trouble, |trouble| {
        trouble.transfer_on(Side::Server, 1_000_000, Some(PathPin::Prefer(SECOND_PATH)));
        trouble.deliver(10 * SECOND);
    });
    assert!(sent[1] > 1_000_000 && sent[0] < 5_000, "{sent:?}");
}

#[test]
fn what_may_use_no_other_path_waits_for_it() {
    let mut trouble = Trouble::open(5, 2);
    let pin = Some(PathPin::Only(SECOND_PATH));
    let waits = trouble
        .transfer_on(Side::Server, 1_000_000, pin)
        .expect("a stream");
    trouble.run(100 * MS);
    trouble.set_link(1, false);
    let sent = carried(&mut trouble, |trouble| trouble.run(5 * SECOND));
    assert!(sent[0] < 5_000, "{sent:?}");
    assert!(!trouble.is_over(waits));
    // Others do not wait.
    let other = trouble
        .transfer_on(Side::Server, 500_000, None)
        .expect("a stream");
    trouble.run(2 * SECOND);
    assert!(trouble.is_over(other), "it does not wait");
    assert!(!trouble.is_over(waits), "it waits");
    trouble.set_link(1, true);
    trouble.deliver(30 * SECOND);
}

#[test]
fn pins_end_with_their_path_and_nothing_is_lost() {
    for pin in [PathPin::Prefer(SECOND_PATH), PathPin::Only(SECOND_PATH)] {
        for by in [Side::Client, Side::Server] {
            let mut trouble = Trouble::open(6, 2);
            trouble.transfer_on(Side::Server, 2_000_000, Some(pin));
            trouble.on(Side::Server, |server, _| {
                for _ in 0..4 {
                    let sent = server.send_datagram_on(Bytes::from_static(&[1; 800]), pin);
                    sent.expect("there is room");
                }
            });
            trouble.run(200 * MS);
            trouble.abandon(by, 1);
            trouble.deliver(10 * SECOND);
            trouble.run(10 * SECOND);
            let refused = trouble.on(Side::Server, |server, _| {
                let id = server.open_stream(Dir::Uni).expect("a stream");
                (id, server.pin_stream(id, Some(pin)))
            });
            assert_eq!(refused.1, Err(PinError::UnknownPath));
            // It is as any stream.
            trouble.transfer_on(Side::Server, 10_000, Some(pin));
            trouble.deliver(SECOND);
        }
    }
}

#[test]
fn a_pin_holds_on_a_path_that_we_keep_in_reserve_but_not_against_the_peer() {
    for (by, holds) in [(Side::Server, true), (Side::Client, false)] {
        let mut trouble = Trouble::open(7, 2);
        trouble.on(by, |connection, _| {
            let set = connection.set_path_status(SECOND_PATH, PathStatus::Backup);
            assert_eq!(set, Ok(()));
        });
        trouble.run(SECOND);
        let sent = carried(&mut trouble, |trouble| {
            trouble.transfer_on(Side::Server, 500_000, Some(PathPin::Prefer(SECOND_PATH)));
            trouble.deliver(10 * SECOND);
        });
        assert_eq!(sent[1] > 500_000, holds, "{by:?} {sent:?}");
        assert_eq!(sent[0] > 500_000, !holds, "{by:?} {sent:?}");
    }
}

#[test]
fn a_path_that_is_not_open_yet_holds_nothing_up_unless_told_to() {
    for strict in [false, true] {
        let mut trouble = Trouble::new(8, 2, |_| {});
        trouble.set_link(1, false);
        let opened = trouble.net.on_client(|client, now| {
            client.open_path(now, crate::multipath_trouble::to(1, 50_000))
        });
        let path = opened.expect("it may be opened");
        let pin = match strict {
            true => PathPin::Only(path),
            false => PathPin::Prefer(path),
        };
        let id = trouble
            .transfer_on(Side::Client, 300_000, Some(pin))
            .expect("a stream");
        trouble.run(500 * MS);
        assert_eq!(trouble.is_over(id), !strict);
        trouble.set_link(1, true);
        trouble.deliver(10 * SECOND);
    }
}

#[test]
fn messages_and_datagrams_go_by_their_path() {
    for path in [FIRST, SECOND_PATH] {
        let mut trouble = Trouble::open(9, 2);
        let pin = PathPin::Prefer(path);
        trouble.on(Side::Client, |client, _| client.receive_messages());
        let sent = carried(&mut trouble, |trouble| {
            for _ in 0..200 {
                trouble.on(Side::Server, |server, now| {
                    let options = MessageOptions {
                        pin: Some(pin),
                        ..MessageOptions::default()
                    };
                    let message = server.send_message(now, Bytes::from_static(&[1; 900]), &options);
                    assert!(message.is_ok(), "{message:?}");
                    let datagram = server.send_datagram_on(Bytes::from_static(&[2; 900]), pin);
                    assert!(datagram.is_ok(), "{datagram:?}");
                });
                trouble.net.run_for(10 * MS);
                trouble.on(
                    Side::Client,
                    |client, _| {
                        while client.recv_message().is_some() {}
                    },
                );
            }
            trouble.net.run_for(SECOND);
        });
        let (used, unused) = match path {
            FIRST => (sent[0], sent[1]),
            _ => (sent[1], sent[0]),
        };
        println!("{sent:?}");
        assert!(used > 2 * 200 * 900 && unused < 20_000, "{path} {sent:?}");
    }
}

#[test]
fn many_pins_cost_a_lane_each_and_go_with_their_streams() {
    let mut trouble = Trouble::open(10, 3);
    for round in 0..30u32 {
        let pin = match round % 4 {
            0 => PathPin::Only(PathId(round % 3)),
            1 | 2 => PathPin::Prefer(PathId(round % 3)),
            _ => PathPin::Prefer(PathId(77)),
        };
        trouble.transfer_on(Side::Server, 200_000, Some(pin));
        trouble.transfer_on(Side::Client, 200_000, Some(pin));
    }
    trouble.deliver(20 * SECOND);
    // The last acknowledgements.
    trouble.run(SECOND);
    let left = trouble.on(Side::Server, |server, _| server.stream_stats());
    assert_eq!(left.send_buffered_bytes, 0);
    let nothing = trouble.on(Side::Server, |server, _| {
        server.pin_stream(StreamId(1 << 40), Some(PathPin::Only(FIRST)))
    });
    assert_eq!(nothing, Ok(()));
}
