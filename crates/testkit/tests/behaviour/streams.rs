//! Streams: order, limits, windows, early ends.

use tautline_sim::{DirectionConfig, LinkConfig, LossModel};
use tautline_testkit::{apps::pattern_byte, trace::FrameTrace};
use tautline_transport::{
    config::WindowConfig,
    congestion,
    stream::{ReadError, ReadOutcome, StreamEvent, UnorderedOutcome, WriteError, sched},
    units::{Dir, Rate, StreamId},
};

use crate::kit::{MS, SECOND, Setup, calm, read_all, wire};

#[test]
fn both_directions_and_half_close() {
    let mut net = Setup::new(1, calm()).manual();
    net.connect();
    let id = net.on_client(|client, _| {
        let id = client.open_stream(Dir::Bi).unwrap();
        assert_eq!(client.write(id, b"question").unwrap(), 8);
        client.finish(id).unwrap();
        assert_eq!(client.write(id, b"?"), Err(WriteError::Finished));
        assert_eq!(client.finish(id), Err(WriteError::Finished));
        id
    });
    net.run_for(50 * MS);
    let (data, end) = net.on_server(|server, _| {
        assert_eq!(server.accept_stream(Dir::Bi), Some(id));
        read_all(server, id)
    });
    assert_eq!((data.as_slice(), end), (&b"question"[..], true));
    net.on_server(|server, _| {
        server.write(id, b"answer").unwrap();
        server.finish(id).unwrap();
    });
    net.run_for(100 * MS);
    let (data, end) = net.on_client(|client, _| read_all(client, id));
    assert_eq!((data.as_slice(), end), (&b"answer"[..], true));
    assert!(
        net.client_stream_events()
            .contains(&StreamEvent::Finished(id))
    );
    net.run_for(SECOND);
    for stats in [
        net.client_connection().stream_stats(),
        net.server_connection().stream_stats(),
    ] {
        assert_eq!(stats.open_streams, 0, "{stats:?}");
    }
    // What is over is unknown.
    net.on_client(|client, _| {
        assert_eq!(client.read(id, 1), Err(ReadError::UnknownStream));
        assert_eq!(client.write(id, b"x"), Err(WriteError::UnknownStream));
    });
}

#[test]
fn empty_streams() {
    let mut net = Setup::new(2, calm()).manual();
    net.connect();
    let ids: Vec<StreamId> = net.on_client(|client, _| {
        (0..50)
            .map(|_| {
                let id = client.open_stream(Dir::Uni).unwrap();
                client.finish(id).unwrap();
                id
            })
            .collect()
    });
    net.run_for(100 * MS);
    net.on_server(|server, _| {
        for id in ids {
            assert_eq!(server.accept_stream(Dir::Uni), Some(id));
            assert_eq!(server.read(id, 100), Ok(ReadOutcome::Finished));
        }
        assert_eq!(server.accept_stream(Dir::Uni), None);
    });
}

#[test]
fn stop_sending() {
    let mut net = Setup::new(3, calm()).manual();
    net.connect();
    let id = net.on_client(|client, _| {
        let id = client.open_stream(Dir::Bi).unwrap();
        client.write(id, &[1; 5_000]).unwrap();
        id
    });
    net.run_for(50 * MS);
    net.on_server(|server, _| {
        assert_eq!(server.accept_stream(Dir::Bi), Some(id));
        server.stop(id, 7).unwrap();
        assert_eq!(server.read(id, 1), Err(ReadError::Stopped));
    });
    net.run_for(100 * MS);
    let stopped = StreamEvent::Stopped { id, code: 7 };
    assert!(net.client_stream_events().contains(&stopped));
    net.on_client(|client, _| {
        assert_eq!(client.stopped(id), Some(7));
        assert_eq!(client.write(id, b"more"), Err(WriteError::Stopped(7)));
    });
    // RFC 9000 s3.5: answered by RESET_STREAM with the same code.
    let reset = net.client_trace.with(0, |client| {
        client.frames_sent().any(|f| *f == FrameTrace::Other(0x04))
    });
    assert!(reset);
    // The other direction lives.
    net.on_server(|server, _| {
        server.write(id, b"fine").unwrap();
        server.finish(id).unwrap();
    });
    net.run_for(100 * MS);
    let (data, end) = net.on_client(|client, _| read_all(client, id));
    assert_eq!((data.as_slice(), end), (&b"fine"[..], true));
}

#[test]
fn reset_stream() {
    let mut net = Setup::new(4, calm()).manual();
    net.connect();
    let id = net.on_client(|client, _| {
        let id = client.open_stream(Dir::Uni).unwrap();
        client.write(id, &[1; 5_000]).unwrap();
        id
    });
    net.run_for(50 * MS);
    net.on_client(|client, _| {
        client.write(id, &[2; 5_000]).unwrap();
        client.reset(id, 99).unwrap();
    });
    net.run_for(50 * MS);
    net.on_server(|server, _| {
        assert_eq!(server.accept_stream(Dir::Uni), Some(id));
        assert_eq!(server.read(id, usize::MAX), Err(ReadError::Reset(99)));
    });
    net.run_for(100 * MS);
    assert_eq!(net.client_connection().stream_stats().open_streams, 0);
    assert_eq!(net.server_connection().stream_stats().open_streams, 0);
}

#[test]
fn reset_stream_at_delivers_its_share() {
    for seed in 0..8 {
        let mut link = calm();
        link.forward.loss = LossModel::uniform(0.1);
        link.backward.loss = LossModel::uniform(0.1);
        let mut net = Setup::new(seed, link).manual();
        net.connect();
        let id = net.on_client(|client, _| {
            let id = client.open_stream(Dir::Uni).unwrap();
            let data: Vec<u8> = (0..30_000).map(pattern_byte).collect();
            client.write(id, &data).unwrap();
            client.reset_at(id, 12, 10_000).unwrap();
            id
        });
        net.run_for(3 * SECOND);
        net.on_server(|server, _| {
            assert_eq!(server.accept_stream(Dir::Uni), Some(id));
            let mut data = Vec::new();
            let end = loop {
                match server.read(id, usize::MAX) {
                    Ok(ReadOutcome::Chunk(chunk)) => data.extend_from_slice(&chunk),
                    other => break other,
                }
            };
            assert_eq!(end, Err(ReadError::Reset(12)));
            assert!(data.len() >= 10_000, "{}", data.len());
            let right = (0..).map(pattern_byte).take(data.len());
            assert!(data.iter().copied().eq(right));
        });
    }
}

#[test]
fn stream_limits() {
    let mut net = Setup::new(5, calm())
        .server(|server| {
            server.max_concurrent_bidi_streams = 3;
            server.max_concurrent_uni_streams = 0;
        })
        .manual();
    net.connect();
    let ids: Vec<StreamId> = net.on_client(|client, _| {
        assert_eq!(client.open_stream(Dir::Uni), None);
        let ids: Vec<_> = std::iter::from_fn(|| client.open_stream(Dir::Bi)).collect();
        for &id in &ids {
            client.write(id, b"x").unwrap();
            client.finish(id).unwrap();
        }
        ids
    });
    assert_eq!(ids.len(), 3);
    net.run_for(100 * MS);
    let blocked = net.client_trace.with(0, |client| {
        client
            .frames_sent()
            .filter(|f| matches!(f, FrameTrace::Other(0x16 | 0x17)))
            .count()
    });
    assert!(blocked >= 1, "STREAMS_BLOCKED");
    net.on_server(|server, _| {
        while let Some(id) = server.accept_stream(Dir::Bi) {
            assert!(read_all(server, id).1);
            server.finish(id).unwrap();
        }
    });
    net.run_for(100 * MS);
    net.on_client(|client, _| {
        for &id in &ids {
            assert!(read_all(client, id).1);
        }
    });
    net.run_for(100 * MS);
    assert!(
        net.client_stream_events()
            .contains(&StreamEvent::Available(Dir::Bi))
    );
    let more =
        net.on_client(|client, _| std::iter::from_fn(|| client.open_stream(Dir::Bi)).count());
    assert_eq!(more, 3);
    // Raised by hand.
    net.on_server(|server, _| server.set_max_concurrent_streams(Dir::Uni, 2));
    net.run_for(100 * MS);
    assert!(
        net.client_stream_events()
            .contains(&StreamEvent::Available(Dir::Uni))
    );
    let more =
        net.on_client(|client, _| std::iter::from_fn(|| client.open_stream(Dir::Uni)).count());
    assert_eq!(more, 2);
}

/// The order in which the ends of four streams of 100 kB leave.
fn order_of_ends(scheduler: &str, priorities: [(u8, bool); 4]) -> Vec<u64> {
    let mut net = Setup::new(6, wire(10, 10))
        .client(|client| {
            client.stream_scheduler = sched::registry::by_name(scheduler).unwrap();
        })
        .manual();
    net.connect();
    net.on_client(|client, _| {
        for (urgency, incremental) in priorities {
            let id = client.open_stream(Dir::Uni).unwrap();
            client.set_priority(
                id,
                sched::Priority {
                    urgency,
                    incremental,
                },
            );
            assert_eq!(client.write(id, &[5; 100_000]).unwrap(), 100_000);
            client.finish(id).unwrap();
        }
    });
    net.run_for(5 * SECOND);
    let mut ends: Vec<u64> = Vec::new();
    net.client_trace.with(0, |client| {
        for frame in client.frames_sent() {
            match frame {
                FrameTrace::Stream { id, fin: true, .. } if !ends.contains(&id.index()) => {
                    ends.push(id.index());
                }
                _ => {}
            }
        }
    });
    ends
}

#[test]
fn priorities_decide_the_order() {
    let by_urgency = [(5, false), (3, false), (0, false), (4, false)];
    assert_eq!(order_of_ends("priority", by_urgency), [2, 1, 3, 0]);
    let alike = [(3, false); 4];
    assert_eq!(order_of_ends("priority", alike), [0, 1, 2, 3]);
    assert_eq!(order_of_ends("fifo", by_urgency), [0, 1, 2, 3]);
    // Sharing streams end together: each has data under way when the first one ends.
    let shared = order_of_ends("round-robin", alike);
    assert_eq!(shared.len(), 4);
}

#[test]
fn unordered_reads() {
    let mut link = calm();
    link.forward.loss = LossModel::uniform(0.1);
    let mut net = Setup::new(7, link).manual();
    net.connect();
    let id = net.on_client(|client, _| {
        let id = client.open_stream(Dir::Uni).unwrap();
        let data: Vec<u8> = (0..200_000).map(pattern_byte).collect();
        assert_eq!(client.write(id, &data).unwrap(), data.len());
        client.finish(id).unwrap();
        id
    });
    net.run_while(SECOND, |net| net.server_stream_events().is_empty());
    net.on_server(|server, _| assert_eq!(server.accept_stream(Dir::Uni), Some(id)));
    let mut got = vec![false; 200_000];
    let mut jumps = 0;
    let mut last = 0;
    let finished = (0..500).any(|_| {
        net.run_for(10 * MS);
        net.on_server(|server, _| {
            loop {
                match server.read_unordered(id, usize::MAX).unwrap() {
                    UnorderedOutcome::Chunk { offset, data } => {
                        jumps += u32::from(offset != last);
                        last = offset + data.len() as u64;
                        for (place, byte) in (offset..).zip(data) {
                            assert_eq!(byte, pattern_byte(place));
                            assert!(!std::mem::replace(&mut got[place as usize], true), "twice");
                        }
                    }
                    UnorderedOutcome::Blocked => return false,
                    UnorderedOutcome::Finished => return true,
                }
            }
        })
    });
    assert!(finished && got.iter().all(|got| *got));
    assert!(jumps > 0, "nothing overtook anything");
}

#[test]
fn flow_control_holds_and_releases() {
    let mut net = Setup::new(8, calm())
        .server(|server| {
            server.stream_receive_window = WindowConfig::fixed(10_000);
            server.connection_receive_window = WindowConfig::fixed(25_000);
        })
        .manual();
    net.connect();
    let ids = net.on_client(|client, _| {
        [(); 3].map(|()| {
            let id = client.open_stream(Dir::Uni).unwrap();
            assert_eq!(client.write(id, &[1; 30_000]), Ok(10_000));
            id
        })
    });
    net.run_for(500 * MS);
    let stats = net.server_connection().stream_stats();
    assert_eq!(stats.receive_buffered_bytes, 25_000, "{stats:?}");
    assert!(net.client_connection().stream_stats().connection_blocked);
    let blocked = net.client_trace.with(0, |client| {
        let sent = |ty| client.frames_sent().any(|f| *f == FrameTrace::Other(ty));
        (sent(0x14), sent(0x15))
    });
    assert_eq!(blocked, (true, true), "DATA_BLOCKED, STREAM_DATA_BLOCKED");
    let (mut sent, mut received) = (30_000, 0);
    for _ in 0..20 {
        net.on_server(|server, _| {
            while server.accept_stream(Dir::Uni).is_some() {}
            for id in ids {
                received += read_all(server, id).0.len();
            }
        });
        net.run_for(50 * MS);
        net.on_client(|client, _| {
            for id in ids {
                sent += client.write(id, &[2; 30_000]).unwrap();
            }
        });
    }
    assert!(sent > 200_000, "{sent}");
    assert!(sent - received <= 50_000, "{sent} {received}");
}

#[test]
fn receive_windows_grow_with_the_path() {
    // 1 Gb/s and 50 ms of round trip: 6.25 MB under way.
    let mut net = Setup::new(9, wire(1_000, 25)).fetch(&[150_000_000]);
    let mut largest = 0;
    while !net.client_app().is_done() {
        net.run_for(20 * MS);
        if let Some((_, client)) = net.client_host().connections().next() {
            largest = largest.max(client.stream_stats().receive_window);
        }
    }
    let done = net.client_app().finished_at().unwrap().since_origin();
    println!("150 MB in {done:?}, window {largest}");
    assert!(largest > 6_250_000, "{largest}");
    assert!(largest <= 64 << 20);
    assert!(done < 4 * SECOND, "{done:?}");
}

/// 64 MB of receive window, 1 % loss, and a sender that puts tens of megabytes on the way at once:
/// thousands of gaps must be held, whatever happens.
fn never_closes(
    seed: u64,
    link: LinkConfig,
    controller: &str,
    initial_window_packets: u32,
    bytes: u64,
) {
    let mut link = link;
    for direction in [&mut link.forward, &mut link.backward] {
        direction.loss = LossModel::uniform(0.01);
    }
    let mut net = Setup::new(seed, link)
        .both(|config| {
            config.stream_receive_window = WindowConfig::fixed(64 << 20);
            config.connection_receive_window = WindowConfig::fixed(64 << 20);
            config.send_buffer_bytes = 64 << 20;
            config.initial_window_packets = initial_window_packets;
            config.congestion = congestion::registry::by_name(controller).unwrap();
        })
        .quiet()
        .fetch(&[bytes]);
    let over = net.run_while(120 * SECOND, |net| {
        let app = net.client_app();
        app.ended.is_none() && !app.is_done()
    });
    let app = net.client_app();
    let received: u64 = app.fetches.iter().map(|fetch| fetch.received).sum();
    println!("{controller} {received} of {bytes} by {:?}", net.now());
    assert!(
        app.is_done() || (!over && app.ended.is_none()),
        "{:?}",
        app.ended
    );
    assert_eq!(app.corrupt_at, None);
    assert!(
        net.server_app().ended.is_empty(),
        "{:?}",
        net.server_app().ended
    );
    assert!(received > 1_000_000);
}

#[test]
fn large_window_with_loss_on_geo() {
    for controller in ["newreno", "cubic", "bbr3"] {
        let link = tautline_sim::links::by_name("geo").unwrap();
        never_closes(10, link.clone(), controller, 10, 20_000_000);
        // The whole window at once: the queue overflows and half of it is lost.
        never_closes(11, link, controller, 5_000, 20_000_000);
    }
}

#[test]
fn large_window_with_loss_on_a_fast_long_link() {
    for (controller, initial) in [("cubic", 10), ("cubic", 40_000), ("bbr3", 10)] {
        let direction = DirectionConfig::new(Rate::from_bits_per_second(1_000_000_000), 300 * MS);
        let link = LinkConfig::symmetric(direction);
        never_closes(12, link, controller, initial, 100_000_000);
    }
}

/// What is left of an answer leaves where the window has room for it, if not for a full datagram.
#[test]
fn the_end_of_an_answer_takes_what_room_there_is() {
    // Milliseconds until all has arrived, of so many bytes written once others were acknowledged.
    let took = |before: usize, bytes: usize| {
        let mut net = Setup::new(3, wire(100, 50))
            .quiet()
            .both(|config| {
                config.mtu.discovery = false;
                config.pacing = false;
                config.initial_window_packets = 4;
            })
            .manual();
        net.connect();
        let id = net.on_server(|server, _| {
            let id = server.open_stream(Dir::Uni).unwrap();
            server.write(id, &vec![1; before]).unwrap();
            id
        });
        net.run_for(SECOND);
        net.on_client(|client, _| {
            assert_eq!(client.accept_stream(Dir::Uni), Some(id));
            assert_eq!(read_all(client, id).0.len(), before);
        });
        net.on_server(|server, _| server.write(id, &vec![2; bytes]).unwrap());
        let (mut received, mut waited) = (0, 0);
        while received < bytes {
            net.run_for(MS);
            waited += 1;
            assert!(waited < 5_000, "{received} of {bytes}");
            received += net.on_client(|client, _| read_all(client, id).0.len());
        }
        waited
    };
    let first_flight = |before| {
        let sizes = (4_000..12_000).step_by(50);
        let most = sizes.take_while(|bytes| took(before, *bytes) < 100).last();
        most.expect("what the window has room for")
    };
    // In slow start the window grows by what was acknowledged, and not by whole datagrams alone.
    let (less, more) = (first_flight(3_700), first_flight(4_100));
    assert!(more >= less + 400, "{less} {more}");
}
