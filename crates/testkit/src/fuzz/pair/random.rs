//! Scripts by chance, for property tests without a fuzzer.

use tautline_transport::rng::Rng;

use super::{Op, Setup, end, shared};
use crate::fuzz::input::Field;

/// What both ends may be without any connection failing.
const HONEST_ENDS: [u16; 11] = [
    end::EMPTY_CIDS,
    end::PREFER_V2,
    end::NO_GREASE,
    end::NO_ACK_FREQUENCY,
    end::TIMESTAMPS,
    end::NO_DATAGRAMS,
    end::NO_PACING,
    end::NO_MTU_DISCOVERY,
    end::NO_ECN,
    end::KEEP_ALIVE,
    end::NO_EARLY_DATA,
];
const HONEST_SHARED: [u8; 4] = [
    shared::RETRY,
    shared::QLOG,
    shared::TINY_LIMITS,
    shared::UNDECIDED,
];

/// A script in which nothing is forged: loss, reordering, repetition, rebinding, pauses of up to
/// a quarter of a second, and any calls of the applications.
pub fn honest_script(seed: u64) -> Vec<u8> {
    let mut rng = Rng::from_u64(seed);
    let mut out = Vec::new();
    setup(&mut rng).put(&mut out);
    if rng.chance(0.7) {
        Op::Run { rounds: 4 }.put(&mut out);
    }
    for _ in 0..rng.below(60) {
        operation(&mut rng).put(&mut out);
    }
    out
}

fn setup(rng: &mut Rng) -> Setup {
    let mut end = || {
        let mut bits = 0;
        for bit in HONEST_ENDS {
            if rng.chance(0.1) {
                bits |= bit;
            }
        }
        bits
    };
    let (client, server) = (end(), end());
    let mut shared = 0;
    for bit in HONEST_SHARED {
        if rng.chance(0.1) {
            shared |= bit;
        }
    }
    let windows = match rng.below(3) {
        0 => 0x11 + rng.below(4) as u8 * 0x11,
        _ => 0,
    };
    Setup {
        seed: rng.below(256) as u8,
        shared,
        client: client | if rng.chance(0.05) { end::SPECIAL } else { 0 },
        server,
        policies: rng.below(256) as u8,
        windows,
        ..Setup::default()
    }
}

fn operation(rng: &mut Rng) -> Op {
    let mut byte = |bound: u64| rng.below(bound) as u8;
    let (to, on, stream, dir) = (byte(2), byte(4), byte(6), byte(2));
    let (place, small, chance) = (byte(12), byte(16), byte(100));
    let len = 1 << byte(14);
    match chance {
        0..10 => Op::Run { rounds: byte(5) },
        10..18 => Op::Deliver { to, place },
        18..26 => Op::Drop { to, place },
        26..30 => Op::Duplicate { to, place },
        30..32 => Op::DropAll { to },
        32..42 => Op::Open { on, dir },
        42..56 => Op::Write { on, stream, len },
        56..60 => Op::Finish { on, stream },
        60..62 => Op::Reset {
            on,
            stream,
            code: small,
        },
        62..64 => Op::ResetAt {
            on,
            stream,
            code: small,
            size: len / 2,
        },
        64..66 => Op::Stop {
            on,
            stream,
            code: small,
        },
        66..68 => Op::Accept { on, dir },
        68..71 => Op::Read {
            on,
            stream,
            max: len,
        },
        71..73 => Op::ReadUnordered {
            on,
            stream,
            max: len,
        },
        73..75 => Op::Prioritize {
            on,
            stream,
            urgency: small,
        },
        75..78 if small < 8 => Op::SendMessage {
            on,
            len,
            within: small << 5,
            behind: small & 3,
        },
        75..78 => Op::Send { on, len },
        78 if small < 4 => Op::ReceiveMessages { on },
        78..79 => Op::Receive { on },
        79..80 => Op::Close { on, code: small },
        80..83 => Op::UpdateKeys { on },
        83..84 => Op::Rebind { port: 0 },
        84..85 => Op::Nat { mapping: small },
        85..88 => Op::Wait {
            exponent: 5 + byte(14),
        },
        88..90 => Op::NextTimer {},
        90 => Op::FecWindow {
            on,
            symbols: len.min(255) as u8,
        },
        91 => Op::Protect {
            on,
            stream,
            how: small,
        },
        92..93 => Op::Ping { on },
        93..94 => Op::AllowStreams {
            on,
            dir,
            count: small,
        },
        94..96 => Op::Connect {},
        96..98 => Op::Batch { count: small },
        98..99 => Op::Mark {
            to,
            place,
            ecn: small,
        },
        _ => Op::Decide { how: 0 },
    }
}
