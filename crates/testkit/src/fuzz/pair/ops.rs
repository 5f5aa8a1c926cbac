//! What a script may do.

use crate::fuzz::input::operations;

operations! {
    /// One step of a script. `on` names an end: the lowest bit the side (0 client, 1 server), the
    /// others which of its connections. `stream` names one that the end knows, by its place, or
    /// any by its ID if it knows none.
    Op {
        /// Delivers everything for some rounds, with time passing and both ends reading.
        0 Run { rounds: u8 };
        /// Delivers one datagram to a side; `place` among those under way.
        1 Deliver { to: u8, place: u8 };
        /// Loses one.
        2 Drop { to: u8, place: u8 };
        /// Delivers a copy of one, which stays under way.
        3 Duplicate { to: u8, place: u8 };
        /// Changes a byte of one.
        4 Mutate { to: u8, place: u8, offset: u16, xor: u8 };
        /// Cuts one short.
        5 Truncate { to: u8, place: u8, keep: u16 };
        /// Delivers a packet with these frames, as if from the peer. `level` 0..=3 in the order of
        /// a handshake; `number` and `phase` are added to the next expected, `bits` are put into
        /// the first byte.
        6 Inject { to: u8, level: u8, number: i8, phase: i8, bits: u8, frames: Vec<u8> };
        /// Delivers any bytes.
        7 Raw { to: u8, from: u8, bytes: Vec<u8> };
        /// Delivers any bytes behind a short header.
        8 RawShort { to: u8, from: u8, bytes: Vec<u8> };
        /// Opens a stream; `dir` 0 bidirectional, 1 unidirectional.
        9 Open { on: u8, dir: u8 };
        /// Accepts a stream.
        10 Accept { on: u8, dir: u8 };
        /// Writes patterned bytes.
        11 Write { on: u8, stream: u8, len: u16 };
        /// Ends a stream.
        12 Finish { on: u8, stream: u8 };
        /// Resets a stream.
        13 Reset { on: u8, stream: u8, code: u8 };
        /// Resets a stream but for its first bytes.
        14 ResetAt { on: u8, stream: u8, code: u8, size: u16 };
        /// Wants no more of a stream.
        15 Stop { on: u8, stream: u8, code: u8 };
        /// Reads in order.
        16 Read { on: u8, stream: u8, max: u16 };
        /// Reads in any order.
        17 ReadUnordered { on: u8, stream: u8, max: u16 };
        /// Changes a priority.
        18 Prioritize { on: u8, stream: u8, urgency: u8 };
        /// Sends an application datagram.
        19 Send { on: u8, len: u16 };
        /// Takes application datagrams.
        20 Receive { on: u8 };
        /// Closes.
        21 Close { on: u8, code: u8 };
        /// Updates keys.
        22 UpdateKeys { on: u8 };
        /// The client's host gets another address and knows it.
        23 Rebind { port: u8 };
        /// The client's host is seen from another address and does not know it.
        24 Nat { mapping: u8 };
        /// Time passes: `1 << exponent` microseconds.
        25 Wait { exponent: u8 };
        /// Time passes until the next timer.
        26 NextTimer {};
        /// Sends a PING.
        27 Ping { on: u8 };
        /// Changes how many streams the peer may open.
        28 AllowStreams { on: u8, dir: u8, count: u8 };
        /// Another connection, with early data if a former one gave a ticket.
        29 Connect {};
        /// The next operations come in one go: nothing is sent between them.
        30 Batch { count: u8 };
        /// Marks one datagram under way: 0 not-ECT, 1 ECT(1), 2 ECT(0), 3 CE.
        31 Mark { to: u8, place: u8, ecn: u8 };
        /// A Retry packet to the client; `good` makes its integrity tag right.
        32 Retry { good: u8, token: Vec<u8> };
        /// A Version Negotiation packet to the client.
        33 NegotiateVersion { versions: Vec<u8> };
        /// An end loses its state, as after a crash.
        34 Forget { on: u8 };
        /// The server decides about a waiting attempt: 0 accepts, 1 retries, 2 refuses, 3 ignores.
        35 Decide { how: u8 };
        /// Loses all.
        36 DropAll { to: u8 };
        /// Delivers an ACK of the newest packet that was sent the other way, plus `ahead`, and of
        /// `below` packets before it. `level` and `phase` as in `Inject`.
        37 Ack { to: u8, level: u8, phase: i8, ahead: i8, below: u8 };
        /// Sends a message of use for `within` milliseconds, which depends on the one `behind` places
        /// before it, if that is not 0.
        38 SendMessage { on: u8, len: u16, within: u8, behind: u8 };
        /// Takes unidirectional streams for messages from now on, and those that came.
        39 ReceiveMessages { on: u8 };
        /// Tells when the next message will be sent: in so many milliseconds.
        40 NextMessage { on: u8, within: u8 };
        /// Opens a further path from another of the client's addresses.
        41 OpenPath { on: u8, from: u8 };
        /// Abandons a path.
        42 AbandonPath { on: u8, path: u8, code: u8 };
        /// Wishes that a path be used (lowest bit of `status` 0), or kept in reserve.
        43 PathStatus { on: u8, path: u8, status: u8 };
        /// Lets the peer cover no more than so many source symbols by a repair symbol.
        44 FecWindow { on: u8, symbols: u8 };
        /// Protects a stream as most are (0), always (1) or never (2).
        45 Protect { on: u8, stream: u8, how: u8 };
    }
}
