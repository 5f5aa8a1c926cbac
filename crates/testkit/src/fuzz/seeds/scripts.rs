//! Scripts of the pair that break no rule, and every frame on its own.

use super::wire;
use crate::fuzz::{
    input::Field,
    pair::{ERASURE, Op, Setup, end, shared},
};

/// Nobody's parameters are edited and nothing is special.
pub(super) fn plain() -> Setup {
    Setup {
        seed: 1,
        ..Setup::default()
    }
}

/// A script's bytes.
pub(super) fn script(setup: &Setup, ops: &[Op]) -> Vec<u8> {
    let mut out = Vec::new();
    setup.put(&mut out);
    ops.iter().for_each(|op| op.put(&mut out));
    out
}

pub(super) const CONNECT: Op = Op::Run { rounds: 4 };
const CLIENT: u8 = 0;
const SERVER: u8 = 1;

/// A request, and an answer of several packets.
fn exchange() -> Vec<Op> {
    let (on, stream) = (CLIENT, 0);
    vec![
        CONNECT,
        Op::Open { on, dir: 0 },
        Op::Batch { count: 1 },
        Op::Write {
            on,
            stream,
            len: 700,
        },
        Op::Finish { on, stream },
        Op::Run { rounds: 3 },
        Op::Write {
            on: SERVER,
            stream,
            len: 9000,
        },
        Op::Finish { on: SERVER, stream },
        Op::Run { rounds: 8 },
    ]
}

/// The server hears the client from a new address and is not heard there.
fn moved_unheard(mapping: u8) -> [Op; 4] {
    [
        Op::Nat { mapping },
        Op::Ping { on: CLIENT },
        Op::Deliver {
            to: SERVER,
            place: 0,
        },
        Op::DropAll { to: CLIENT },
    ]
}

/// What a script does besides an exchange.
fn after_connecting(more: &[Op]) -> Vec<Op> {
    let mut ops = exchange();
    ops.splice(1..1, more.iter().cloned());
    ops
}

fn setups() -> Vec<(&'static str, Setup)> {
    let client = |client| Setup { client, ..plain() };
    let server = |server| Setup { server, ..plain() };
    let both = |bits| Setup {
        client: bits,
        server: bits,
        ..plain()
    };
    let shared = |shared| Setup { shared, ..plain() };
    let policies = |policies| Setup {
        policies,
        ..plain()
    };
    // By the redundancy scheduler's place.
    let protected = |place: u8| Setup {
        seed: plain().seed | place << 4,
        ..policies(ERASURE)
    };
    vec![
        ("plain", plain()),
        ("empty_cids_client", client(end::EMPTY_CIDS)),
        ("empty_cids_server", server(end::EMPTY_CIDS)),
        ("v2", client(end::V2)),
        ("upgrade", server(end::PREFER_V2)),
        ("server_v2_only", server(end::V2)),
        ("prefer_v2", both(end::PREFER_V2)),
        ("no_grease", both(end::NO_GREASE)),
        ("no_ack_frequency", both(end::NO_ACK_FREQUENCY)),
        ("timestamps", both(end::TIMESTAMPS)),
        ("multipath", both(end::MULTIPATH)),
        (
            "no_pacing",
            both(end::NO_PACING | end::NO_MTU_DISCOVERY | end::NO_ECN),
        ),
        ("keep_alive", both(end::KEEP_ALIVE)),
        ("no_migration", both(end::NO_MIGRATION)),
        ("long_hello", client(end::SPECIAL)),
        ("preferred_address", server(end::SPECIAL)),
        ("other_alpn", client(end::OTHER_ALPN)),
        ("retry", shared(shared::RETRY)),
        ("refuse", shared(shared::REFUSE)),
        ("qlog", shared(shared::QLOG)),
        ("tiny_limits", shared(shared::TINY_LIMITS)),
        ("undecided", shared(shared::UNDECIDED)),
        ("zero_tags", shared(shared::ZERO_TAGS)),
        (
            "small_windows",
            Setup {
                windows: 0x32,
                ..plain()
            },
        ),
        ("controller_1", policies(1)),
        ("controller_2", policies(2)),
        ("controller_3", policies(3)),
        ("ack_1", policies(1 << 3)),
        ("ack_2", policies(2 << 3)),
        ("scheduler_1", policies(1 << 5)),
        ("scheduler_2", policies(2 << 5)),
        ("scheduler_3", policies(3 << 5)),
        ("erasure", policies(ERASURE)),
        (
            "erasure_constant",
            Setup {
                policies: ERASURE,
                shared: shared::TINY_LIMITS | shared::QLOG,
                ..plain()
            },
        ),
        ("erasure_auto", protected(1)),
        ("erasure_none", protected(2)),
        ("erasure_object", protected(4)),
        ("erasure_tail", protected(6)),
        ("erasure_bulk", protected(7)),
        ("erasure_buffer", protected(8)),
        ("erasure_message", protected(9)),
        ("erasure_causal", protected(10)),
        ("erasure_rate", protected(11)),
    ]
}

/// Losses, reordering, repetition and marks under a transfer of three packets and their ACKs.
fn disorder() -> Vec<Op> {
    let stream = 0;
    vec![
        Op::Open { on: CLIENT, dir: 1 },
        Op::Batch { count: 1 },
        Op::Write {
            on: CLIENT,
            stream,
            len: 9000,
        },
        Op::Finish { on: CLIENT, stream },
        Op::Drop {
            to: SERVER,
            place: 0,
        },
        Op::Mark {
            to: SERVER,
            place: 1,
            ecn: 3,
        },
        Op::Deliver {
            to: SERVER,
            place: 3,
        },
        Op::Duplicate {
            to: SERVER,
            place: 0,
        },
        Op::Deliver {
            to: SERVER,
            place: 1,
        },
        Op::ReadUnordered {
            on: SERVER,
            stream,
            max: 500,
        },
        Op::Wait { exponent: 15 },
        Op::NextTimer {},
        Op::DropAll { to: CLIENT },
        Op::NextTimer {},
        Op::Run { rounds: 2 },
        Op::Drop {
            to: CLIENT,
            place: 0,
        },
    ]
}

fn behaviours() -> Vec<(&'static str, Setup, Vec<Op>)> {
    let stream = 0;
    let no_early_data = Setup {
        server: end::NO_EARLY_DATA,
        ..plain()
    };
    let early = vec![
        CONNECT,
        Op::Connect {},
        Op::Batch { count: 2 },
        Op::Open { on: 2, dir: 0 },
        Op::Write {
            on: 2,
            stream,
            len: 3000,
        },
        Op::Finish { on: 2, stream },
        Op::Run { rounds: 6 },
    ];
    let undecided = Setup {
        shared: shared::UNDECIDED,
        ..plain()
    };
    vec![
        ("disorder", plain(), after_connecting(&disorder())),
        ("early_data", plain(), early.clone()),
        ("early_data_rejected", no_early_data, early.clone()),
        (
            "early_data_waits",
            undecided.clone(),
            [
                vec![
                    CONNECT,
                    Op::Decide { how: 1 },
                    CONNECT,
                    Op::Decide { how: 0 },
                ],
                early,
                vec![Op::Decide { how: 0 }, CONNECT],
            ]
            .concat(),
        ),
        (
            "decide_refuse",
            undecided.clone(),
            vec![CONNECT, Op::Decide { how: 2 }, CONNECT],
        ),
        (
            "decide_ignore",
            undecided,
            vec![CONNECT, Op::Decide { how: 3 }, Op::Run { rounds: 30 }],
        ),
        (
            "rebind_forbidden",
            Setup {
                server: end::NO_MIGRATION,
                ..plain()
            },
            after_connecting(&[Op::Rebind { port: 1 }]),
        ),
        (
            "rebind",
            plain(),
            after_connecting(&[Op::Rebind { port: 1 }, Op::Run { rounds: 5 }]),
        ),
        (
            "nat",
            plain(),
            after_connecting(&[
                Op::Nat { mapping: 1 },
                Op::Ping { on: CLIENT },
                Op::Run { rounds: 5 },
            ]),
        ),
        (
            "nat_back",
            plain(),
            after_connecting(&[
                Op::Nat { mapping: 1 },
                Op::Ping { on: CLIENT },
                Op::Run { rounds: 1 },
                Op::Nat { mapping: 0 },
                Op::Ping { on: CLIENT },
                Op::Run { rounds: 5 },
            ]),
        ),
        (
            "nat_dead_end",
            plain(),
            [
                vec![CONNECT],
                moved_unheard(1).to_vec(),
                moved_unheard(2).to_vec(),
                vec![[Op::NextTimer {}, Op::DropAll { to: CLIENT }]; 12].concat(),
            ]
            .concat(),
        ),
        (
            "key_updates",
            plain(),
            after_connecting(&[
                Op::UpdateKeys { on: CLIENT },
                Op::Run { rounds: 3 },
                Op::UpdateKeys { on: SERVER },
                Op::Run { rounds: 3 },
                Op::Wait { exponent: 19 },
                Op::UpdateKeys { on: SERVER },
                Op::Run { rounds: 3 },
            ]),
        ),
        (
            "datagrams",
            plain(),
            after_connecting(&[
                Op::Send {
                    on: CLIENT,
                    len: 100,
                },
                Op::Send {
                    on: SERVER,
                    len: 1100,
                },
                Op::Send { on: SERVER, len: 0 },
                Op::Run { rounds: 2 },
                Op::Receive { on: CLIENT },
            ]),
        ),
        (
            "messages",
            plain(),
            after_connecting(&[
                Op::ReceiveMessages { on: SERVER },
                Op::NextMessage {
                    on: CLIENT,
                    within: 5,
                },
                message(CLIENT, 3000, 200, 0),
                message(CLIENT, 0, 100, 1),
                message(SERVER, 60_000, 250, 0),
                message(CLIENT, 10, 0, 0),
                message(CLIENT, 10, 100, 1),
                Op::DropAll { to: SERVER },
                Op::Run { rounds: 3 },
                message(CLIENT, 500, 3, 0),
                Op::ReceiveMessages { on: SERVER },
                Op::Wait { exponent: 14 },
                Op::Run { rounds: 2 },
            ]),
        ),
        (
            "resets",
            plain(),
            after_connecting(&[
                Op::Open { on: CLIENT, dir: 0 },
                Op::Open { on: CLIENT, dir: 1 },
                Op::Open { on: CLIENT, dir: 1 },
                Op::Write {
                    on: CLIENT,
                    stream: 0,
                    len: 3000,
                },
                Op::Write {
                    on: CLIENT,
                    stream: 1,
                    len: 3000,
                },
                Op::Write {
                    on: CLIENT,
                    stream: 2,
                    len: 3000,
                },
                Op::Reset {
                    on: CLIENT,
                    stream: 0,
                    code: 1,
                },
                Op::ResetAt {
                    on: CLIENT,
                    stream: 1,
                    code: 2,
                    size: 1000,
                },
                Op::Run { rounds: 1 },
                Op::Accept { on: SERVER, dir: 1 },
                Op::Stop {
                    on: SERVER,
                    stream: 2,
                    code: 3,
                },
                Op::Read {
                    on: SERVER,
                    stream: 1,
                    max: 10,
                },
                Op::Run { rounds: 2 },
            ]),
        ),
        (
            "priorities",
            plain(),
            after_connecting(&[
                Op::Batch { count: 6 },
                Op::Open { on: CLIENT, dir: 0 },
                Op::Open { on: CLIENT, dir: 0 },
                Op::Write {
                    on: CLIENT,
                    stream: 0,
                    len: 9000,
                },
                Op::Write {
                    on: CLIENT,
                    stream: 1,
                    len: 9000,
                },
                Op::Prioritize {
                    on: CLIENT,
                    stream: 1,
                    urgency: 2,
                },
                Op::Prioritize {
                    on: CLIENT,
                    stream: 0,
                    urgency: 9,
                },
                Op::Run { rounds: 2 },
                Op::Prioritize {
                    on: CLIENT,
                    stream: 0,
                    urgency: 1,
                },
            ]),
        ),
        (
            "more_streams",
            Setup {
                shared: shared::TINY_LIMITS,
                ..plain()
            },
            after_connecting(&[
                Op::Open { on: CLIENT, dir: 0 },
                Op::Open { on: CLIENT, dir: 0 },
                Op::Open { on: CLIENT, dir: 0 },
                Op::Open { on: CLIENT, dir: 0 },
                Op::AllowStreams {
                    on: SERVER,
                    dir: 0,
                    count: 9,
                },
                Op::Finish {
                    on: CLIENT,
                    stream: 0,
                },
                Op::Run { rounds: 3 },
            ]),
        ),
        (
            "blocked",
            Setup {
                windows: 0x11,
                ..plain()
            },
            after_connecting(&disorder()),
        ),
        (
            "close_client",
            plain(),
            vec![
                CONNECT,
                Op::Close {
                    on: CLIENT,
                    code: 7,
                },
                CONNECT,
            ],
        ),
        (
            "close_early",
            plain(),
            vec![
                Op::Deliver {
                    to: SERVER,
                    place: 0,
                },
                Op::Close {
                    on: SERVER,
                    code: 200,
                },
                CONNECT,
            ],
        ),
        (
            "idle",
            plain(),
            vec![CONNECT, Op::DropAll { to: 0 }, Op::Wait { exponent: 25 }],
        ),
        (
            "no_answer",
            plain(),
            vec![Op::DropAll { to: SERVER }, Op::Wait { exponent: 25 }],
        ),
        (
            "stateless_reset",
            plain(),
            vec![
                CONNECT,
                Op::Forget { on: SERVER },
                Op::Send {
                    on: CLIENT,
                    len: 100,
                },
                CONNECT,
            ],
        ),
        (
            "three_at_once",
            plain(),
            vec![
                Op::Connect {},
                Op::Connect {},
                CONNECT,
                Op::Open { on: 4, dir: 0 },
                Op::Write {
                    on: 4,
                    stream: 0,
                    len: 50,
                },
                Op::Run { rounds: 3 },
            ],
        ),
        (
            "handshake_losses",
            plain(),
            vec![
                Op::DropAll { to: SERVER },
                Op::NextTimer {},
                Op::Deliver {
                    to: SERVER,
                    place: 0,
                },
                Op::Drop {
                    to: CLIENT,
                    place: 0,
                },
                Op::NextTimer {},
                Op::Run { rounds: 10 },
            ],
        ),
        (
            "several_paths",
            Setup {
                client: end::MULTIPATH,
                server: end::MULTIPATH,
                ..plain()
            },
            vec![
                CONNECT,
                Op::OpenPath { on: 0, from: 1 },
                Op::OpenPath { on: 0, from: 2 },
                Op::Run { rounds: 8 },
                Op::PathStatus {
                    on: 1,
                    path: 1,
                    status: 1,
                },
                Op::Open { on: 0, dir: 0 },
                Op::Write {
                    on: 0,
                    stream: 0,
                    len: 9_000,
                },
                Op::UpdateKeys { on: 0 },
                Op::Run { rounds: 2 },
                Op::AbandonPath {
                    on: 1,
                    path: 2,
                    code: 0x3e,
                },
                Op::DropAll { to: 0 },
                Op::AbandonPath {
                    on: 0,
                    path: 0,
                    code: 0,
                },
                Op::Run { rounds: 16 },
                Op::OpenPath { on: 0, from: 3 },
                Op::Run { rounds: 8 },
            ],
        ),
    ]
}

/// Every frame, alone and in groups, from either side in every kind of packet.
fn frames() -> Vec<(String, Vec<u8>)> {
    let mut seeds = Vec::new();
    for (name, frames) in wire::frames() {
        for (to, side) in [(0, "client"), (1, "server")] {
            let inject = |level| Op::Inject {
                to,
                level,
                number: 0,
                phase: 0,
                bits: 0,
                frames: frames.clone(),
            };
            let setup = Setup {
                client: end::MULTIPATH | end::TIMESTAMPS,
                server: end::MULTIPATH | end::TIMESTAMPS,
                ..plain()
            };
            let ops = [CONNECT, Op::Open { on: to, dir: 0 }, inject(3), CONNECT];
            seeds.push((format!("to_{side}_{name}"), script(&setup, &ops)));
            if to == 1 {
                let deliver = Op::Deliver { to, place: 0 };
                let ops = [deliver, inject(2), inject(1), inject(0), CONNECT];
                seeds.push((format!("early_{name}"), script(&plain(), &ops)));
            }
        }
    }
    seeds
}

/// All of them.
pub(super) fn pair() -> Vec<(String, Vec<u8>)> {
    let setups = setups().into_iter().map(|(name, setup)| {
        let disorderly = after_connecting(&disorder());
        (format!("setup_{name}"), script(&setup, &disorderly))
    });
    let behaviours = behaviours()
        .into_iter()
        .map(|(name, setup, ops)| (name.to_owned(), script(&setup, &ops)));
    setups.chain(behaviours).chain(frames()).collect()
}

fn message(on: u8, len: u16, within: u8, behind: u8) -> Op {
    Op::SendMessage {
        on,
        len,
        within,
        behind,
    }
}
