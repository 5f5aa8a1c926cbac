use proptest::prelude::*;

use super::*;

fn pair() -> (Mux, Mux) {
    (Mux::new(true, 1448, 3, 0), Mux::new(false, 1448, 3, 0))
}

fn carry(from: &mut Mux, to: &mut Mux, step: usize) {
    while from.available(step) > 0 {
        to.on_bytes(from.take(step)).unwrap();
    }
}

fn events(mux: &mut Mux) -> Vec<Happening> {
    std::iter::from_fn(|| mux.event()).collect()
}

fn write(mux: &mut Mux, key: StreamKey, bytes: usize, fill: u8) {
    let mut data = Bytes::from(vec![fill; bytes]);
    assert_eq!(mux.write(key, &mut data, u64::MAX), bytes);
}

fn read_all(mux: &mut Mux, key: StreamKey) -> (usize, Read) {
    let mut bytes = 0;
    loop {
        match mux.read(key) {
            Read::Chunk(chunk) => bytes += chunk.len(),
            end => return (bytes, end),
        }
    }
}

#[test]
fn a_stream_there_and_back() {
    let (mut a, mut b) = pair();
    let key = a.open(Way::Both).unwrap();
    write(&mut a, key, 100_000, 1);
    a.finish(key);
    assert_eq!(a.unsent(), 100_000);
    carry(&mut a, &mut b, 1448);
    assert_eq!(
        events(&mut b),
        [Happening::Opened(key), Happening::Readable(key)]
    );
    assert_eq!(read_all(&mut b, key), (100_000, Read::Finished));
    assert_eq!(b.read(key), Read::Gone);
    write(&mut b, key, 5, 2);
    b.finish(key);
    carry(&mut b, &mut a, 7);
    assert_eq!(events(&mut a), [Happening::Readable(key)]);
    assert_eq!(read_all(&mut a, key), (5, Read::Finished));
    assert!(a.streams.is_empty() && b.streams.is_empty());
    assert_eq!((a.unread(), b.unread()), (0, 0));
}

#[test]
fn streams_are_limited_and_come_free() {
    let (mut a, mut b) = pair();
    let keys: Vec<_> = (0..3).map(|_| a.open(Way::Out).unwrap()).collect();
    assert_eq!(a.open(Way::Both), None);
    a.finish(keys[1]);
    carry(&mut a, &mut b, 1448);
    assert_eq!(events(&mut a), [Happening::MayOpen]);
    assert!(a.open(Way::Both).is_some());
    a.reset(keys[0]);
    carry(&mut a, &mut b, 1448);
    assert_eq!(b.read(keys[0]), Read::Gone);
    assert_eq!(b.read(keys[1]), Read::Finished);
}

#[test]
fn urgent_streams_go_first_and_equal_ones_in_order_or_in_turns() {
    let (mut a, mut b) = pair();
    let keys: Vec<_> = (0..3).map(|_| a.open(Way::Both).unwrap()).collect();
    for key in &keys {
        write(&mut a, *key, 10_000, 1);
    }
    a.prioritise(keys[2], 0, false);
    carry(&mut a, &mut b, 1448);
    let (mut opened, mut readable) = (Vec::new(), Vec::new());
    for event in events(&mut b) {
        match event {
            Happening::Opened(key) => opened.push(key),
            Happening::Readable(key) => readable.push(key),
            other => panic!("{other:?}"),
        }
    }
    // The first record tells of all three.
    assert_eq!(opened, keys);
    assert_eq!(readable, [keys[2], keys[0], keys[1]]);
    for key in &keys {
        read_all(&mut b, *key);
        a.prioritise(*key, 3, true);
        write(&mut a, *key, 10_000, 1);
    }
    b.on_bytes(a.take_some(3 * 1448)).unwrap();
    for key in &keys {
        assert_eq!(read_all(&mut b, *key), (1417, Read::Blocked));
    }
}

impl Mux {
    fn take_some(&mut self, bytes: usize) -> Bytes {
        self.available(bytes);
        self.take(bytes)
    }
}

#[test]
fn what_is_not_wanted_is_let_go() {
    let (mut a, mut b) = pair();
    let key = a.open(Way::Both).unwrap();
    write(&mut a, key, 5_000, 1);
    carry(&mut a, &mut b, 1448);
    b.stop(key);
    write(&mut a, key, 5_000, 1);
    carry(&mut a, &mut b, 1448);
    carry(&mut b, &mut a, 1448);
    let mut more = Bytes::from_static(b"more");
    assert_eq!(a.write(key, &mut more, u64::MAX), 0);
    assert_eq!((a.unsent(), b.inbox_bytes), (0, 0));
    assert_eq!(b.unread(), 0);
}

#[test]
fn nonsense_is_an_error() {
    let (mut a, _) = pair();
    assert!(a.on_bytes(vec![9; 40].into()).is_err());
    let (mut a, _) = pair();
    let mut huge = vec![0; 40];
    huge[5] = 255;
    assert!(a.on_bytes(huge.into()).is_err());
    // More streams than anybody may open.
    let (mut a, _) = pair();
    let result = (0..1000).try_for_each(|index| {
        let header = Header {
            kind: Kind::Data,
            stream: index * 4 + 1,
            length: 0,
            ends: false,
        };
        a.on_bytes(header.encode())
    });
    assert!(result.is_err());
}

proptest! {
    #[test]
    fn bytes_arrive_in_order_however_cut(
        sizes in proptest::collection::vec((1usize..40_000, 0u8..8, any::<bool>()), 1..4),
        step in 1usize..3000,
    ) {
        let (mut a, mut b) = pair();
        let mut keys = Vec::new();
        for (size, urgency, incremental) in &sizes {
            let key = a.open(Way::Both).unwrap();
            let data: Vec<u8> = (0..*size).map(|i| (i % 251) as u8).collect();
            a.prioritise(key, *urgency, *incremental);
            a.write(key, &mut Bytes::from(data), u64::MAX);
            a.finish(key);
            keys.push(key);
        }
        carry(&mut a, &mut b, step);
        for (key, (size, _, _)) in keys.into_iter().zip(sizes) {
            let mut got = Vec::new();
            while let Read::Chunk(chunk) = b.read(key) {
                got.extend_from_slice(&chunk);
            }
            prop_assert_eq!(got.len(), size);
            prop_assert!(got.iter().enumerate().all(|(i, byte)| *byte == (i % 251) as u8));
        }
        prop_assert_eq!(a.unsent(), 0);
    }

    #[test]
    fn any_bytes_are_harmless(pieces in proptest::collection::vec(proptest::collection::vec(0u8..5, 0..100), 0..20)) {
        let (mut a, _) = pair();
        for piece in pieces {
            if a.on_bytes(piece.into()).is_err() {
                break;
            }
            while let Some(event) = a.event() {
                if let Happening::Readable(key) = event {
                    read_all(&mut a, key);
                }
            }
        }
    }
}
