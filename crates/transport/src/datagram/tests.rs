use super::*;
use crate::{
    multipath::{Hold, PathPin, Takes},
    observe::Observer,
    packet::{FrameStats, Token},
    time::Instant,
    units::PathId,
    wire::PacketTypes,
};

fn queue(out: usize, incoming: usize) -> DatagramQueue {
    let config = TransportConfig {
        datagram_send_buffer_bytes: out,
        datagram_receive_buffer_bytes: incoming,
        ..TransportConfig::default()
    };
    let mut queue = DatagramQueue::new(&config);
    queue.set_peer_limit(65_535);
    queue
}

/// Ids of the datagrams that one packet takes.
fn write(queue: &mut DatagramQueue, room: usize) -> Vec<u64> {
    let mut payload = vec![0; room];
    let mut tokens = Vec::new();
    let mut stats = FrameStats::default();
    let mut observer = Observer::none();
    let mut writer = PacketWriter::new(
        &mut payload,
        PacketTypes::ONE_RTT,
        &mut tokens,
        &mut stats,
        &mut observer,
        Instant::ZERO,
    );
    let takes = Takes {
        pinned_to: PathId::ZERO,
        free: true,
        again: true,
        ahead: 0,
    };
    queue.write(takes, &mut writer);
    tokens
        .into_iter()
        .map(|token| {
            if let Token::Datagram { id } = token {
                id
            } else {
                panic!("{token:?}")
            }
        })
        .collect()
}

fn payload(len: usize) -> Bytes {
    vec![1; len].into()
}

#[test]
fn peers_limit_bounds_the_payload() {
    let mut queue = queue(1000, 1000);
    queue.set_peer_limit(0);
    assert_eq!(queue.max_payload(1200), None);
    assert_eq!(
        queue.send(payload(1), None),
        Err(SendDatagramError::Unsupported)
    );
    for (frame, expected) in [
        (1, None),
        (2, Some(0)),
        (65, Some(63)),
        (66, Some(63)),
        (67, Some(64)),
    ] {
        queue.set_peer_limit(frame);
        assert_eq!(queue.max_payload(1200), expected, "frame of {frame}");
    }
    queue.set_peer_limit(u64::MAX);
    assert_eq!(queue.max_payload(1200), Some(1200));
    assert_eq!(
        queue.send(payload(1201), queue.max_payload(1200)),
        Err(SendDatagramError::TooLarge { max: 1200 })
    );
}

#[test]
fn full_queue_refuses_or_drops_the_oldest() {
    let mut queue = queue(1000, 1000);
    let max = queue.max_payload(1200);
    for id in 0..3 {
        assert_eq!(queue.send(payload(236), max), Ok(id));
    }
    assert_eq!(queue.send_space(), 100);
    assert_eq!(
        queue.send(payload(236), max),
        Err(SendDatagramError::Blocked(payload(236)))
    );
    assert!(!queue.take_unblocked());
    assert_eq!(
        queue.send_when(payload(236), max, WhenFull::DropOldest, None),
        Ok(3)
    );
    assert_eq!(queue.stats().dropped_unsent, 1);
    assert_eq!(write(&mut queue, 500), [1, 2]);
    assert!(queue.take_unblocked());
    assert!(!queue.take_unblocked());
    assert_eq!(write(&mut queue, 500), [3]);
    assert!(!queue.has_frames());
    // One datagram always fits an empty queue.
    assert_eq!(queue.send(payload(1200), max), Ok(4));
}

#[test]
fn what_may_use_one_path_alone_leaves_half_of_the_room_to_others() {
    let mut queue = queue(2000, 1000);
    let max = queue.max_payload(1200);
    let dead = Some(PathPin::Only(PathId(7)));
    let send = |queue: &mut DatagramQueue, when_full, pin| {
        queue.send_when(payload(236), max, when_full, pin)
    };
    for id in 0..3 {
        assert_eq!(send(&mut queue, WhenFull::Refuse, dead), Ok(id));
    }
    let refused = Err(SendDatagramError::Blocked(payload(236)));
    assert_eq!(send(&mut queue, WhenFull::Refuse, dead), refused);
    // Nothing of it has left: whoever waits is not woken in vain.
    assert!(!queue.take_unblocked());
    // The oldest of its own makes room.
    assert_eq!(send(&mut queue, WhenFull::DropOldest, dead), Ok(3));
    assert_eq!(queue.stats().dropped_unsent, 1);
    for id in 4..7 {
        assert_eq!(send(&mut queue, WhenFull::Refuse, None), Ok(id));
    }
    // The path is given up: they go by any, and whoever waited is told.
    queue.review_pins(|_| Hold::Gone);
    assert_eq!(write(&mut queue, 800), [1, 2, 3]);
    assert!(queue.take_unblocked());
    assert!(!queue.take_unblocked());
}

#[test]
fn datagram_that_no_longer_fits_the_path_is_dropped() {
    let mut queue = queue(10_000, 1000);
    queue.send(payload(1000), Some(1200)).unwrap();
    queue.send(payload(100), Some(1200)).unwrap();
    // A short packet, behind others or in a batch of short ones, says nothing about the path.
    assert!(write(&mut queue, 600).is_empty());
    assert_eq!(queue.stats().dropped_unsent, 0);
    queue.drop_oversized(999);
    assert_eq!(write(&mut queue, 600), [1]);
    assert_eq!(queue.stats().dropped_unsent, 1);
}

#[test]
fn unread_datagrams_are_bounded() {
    let mut queue = queue(1000, 1000);
    for _ in 0..1000 {
        assert!(queue.on_datagram(payload(0)));
        assert!(queue.incoming_bytes <= 1000);
    }
    assert_eq!(queue.stats().dropped_unread, 1000 - 15);
    assert!(queue.on_datagram(payload(900)));
    assert_eq!(queue.stats().dropped_unread, 1000);
    assert_eq!(queue.recv(), Some(payload(900)));
    assert_eq!(queue.recv(), None);
    assert_eq!(queue.incoming_bytes, 0);
    assert!(!self::queue(1000, 0).on_datagram(payload(1)));
    assert_eq!(self::queue(1000, 0).max_frame_size(), 0);
}
