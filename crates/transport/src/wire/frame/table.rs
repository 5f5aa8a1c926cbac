//! One row per frame with the properties that rules depend on.
//!
//! RFC 9000 s12.4 table 3, the documents of the extensions, and for the class `ARCHITECTURE.md`.

use std::ops::{BitOr, RangeInclusive};

use super::ack::AckKind;
use crate::wire::codepoints::frame as ty;

/// A set of packet types in which frames stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketTypes(u8);

impl PacketTypes {
    /// Initial.
    pub const INITIAL: Self = Self(1);
    /// 0-RTT.
    pub const ZERO_RTT: Self = Self(2);
    /// Handshake.
    pub const HANDSHAKE: Self = Self(4);
    /// 1-RTT.
    pub const ONE_RTT: Self = Self(8);

    /// Whether every type of `other` is in this set.
    #[inline]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOr for PacketTypes {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        self.union(other)
    }
}

/// Whether a frame may be rebuilt from repair symbols, as erasure coding asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameClass {
    /// Concerns the path or the packet it travels in; worthless or wrong when rebuilt later.
    PathSpecific,
    /// Concerns the connection whatever way it came.
    DataRelated,
}

/// Which path carries a frame, where a connection has several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameCarrier {
    /// The path that the path scheduler chooses for data, or that the data is pinned to.
    Scheduled,
    /// The path that it concerns.
    Own,
    /// The path that it concerns; another one where that is not open, cannot send, or acknowledgements
    /// are routed otherwise.
    OwnOrOther,
    /// Any that works.
    Any,
}

/// The properties of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameRow {
    /// The name in its document.
    pub name: &'static str,
    /// Its types.
    pub types: RangeInclusive<u64>,
    /// The packets it may stand in; elsewhere it is a PROTOCOL_VIOLATION.
    pub allowed: PacketTypes,
    /// Whether it asks for an acknowledgement. RFC 9002 s2.
    pub ack_eliciting: bool,
    /// Whether its packet counts towards bytes in flight. RFC 9002 s2.
    pub in_flight: bool,
    /// Whether it may stand in packets that probe a network path. RFC 9000 s9.1.
    pub probing: bool,
    /// What erasure coding does with it.
    pub class: FrameClass,
    /// Which path carries it.
    pub carrier: FrameCarrier,
}

const ANY: PacketTypes = PacketTypes(15);
const NOT_ZERO_RTT: PacketTypes = PacketTypes(1 | 4 | 8);
const APPLICATION: PacketTypes = PacketTypes(2 | 8);
const ONE_RTT: PacketTypes = PacketTypes(8);

macro_rules! rows {
    ($($id:ident $name:literal $types:expr, $allowed:ident, [$($flag:ident)*], $class:ident, $carrier:ident;)*) => {
        $(pub(super) static $id: FrameRow = FrameRow {
            name: $name,
            types: $types,
            allowed: $allowed,
            ack_eliciting: rows!(@has ack [$($flag)*]),
            in_flight: rows!(@has flight [$($flag)*]),
            probing: rows!(@has probing [$($flag)*]),
            class: FrameClass::$class,
            carrier: FrameCarrier::$carrier,
        };)*
        static ALL: &[&FrameRow] = &[$(&$id),*];
    };
    (@has $flag:ident [$($flags:ident)*]) => { false $(|| rows!(@same $flag $flags))* };
    (@same ack ack) => { true };
    (@same flight flight) => { true };
    (@same flight ack) => { true }; // whatever asks for an acknowledgement counts
    (@same probing probing) => { true };
    (@same $a:ident $b:ident) => { false };
}

// `ack`: ack-eliciting and so in flight; `flight`: in flight only.
//
// CONNECTION_CLOSE is not in flight by RFC 9002 s3. RETIRE_CONNECTION_ID is refused in 0-RTT as
// RFC 9000 s12.5 allows: a client has nothing to retire yet. Frames whose transport parameter is
// not remembered for 0-RTT stand in 1-RTT packets only.
rows! {
    PADDING "PADDING" 0x00..=0x00, ANY, [flight probing], PathSpecific, Own;
    PING "PING" 0x01..=0x01, ANY, [ack], PathSpecific, Own;
    ACK "ACK" 0x02..=0x03, NOT_ZERO_RTT, [], PathSpecific, Own;
    RESET_STREAM "RESET_STREAM" 0x04..=0x04, APPLICATION, [ack], DataRelated, Scheduled;
    STOP_SENDING "STOP_SENDING" 0x05..=0x05, APPLICATION, [ack], DataRelated, Scheduled;
    CRYPTO "CRYPTO" 0x06..=0x06, NOT_ZERO_RTT, [ack], DataRelated, Scheduled;
    NEW_TOKEN "NEW_TOKEN" 0x07..=0x07, ONE_RTT, [ack], DataRelated, Scheduled;
    STREAM "STREAM" 0x08..=0x0f, APPLICATION, [ack], DataRelated, Scheduled;
    MAX_DATA "MAX_DATA" 0x10..=0x10, APPLICATION, [ack], DataRelated, Scheduled;
    MAX_STREAM_DATA "MAX_STREAM_DATA" 0x11..=0x11, APPLICATION, [ack], DataRelated, Scheduled;
    MAX_STREAMS "MAX_STREAMS" 0x12..=0x13, APPLICATION, [ack], DataRelated, Scheduled;
    DATA_BLOCKED "DATA_BLOCKED" 0x14..=0x14, APPLICATION, [ack], DataRelated, Scheduled;
    STREAM_DATA_BLOCKED "STREAM_DATA_BLOCKED" 0x15..=0x15,
        APPLICATION, [ack], DataRelated, Scheduled;
    STREAMS_BLOCKED "STREAMS_BLOCKED" 0x16..=0x17, APPLICATION, [ack], DataRelated, Scheduled;
    NEW_CONNECTION_ID "NEW_CONNECTION_ID" 0x18..=0x18,
        APPLICATION, [ack probing], PathSpecific, Own;
    RETIRE_CONNECTION_ID "RETIRE_CONNECTION_ID" 0x19..=0x19, ONE_RTT, [ack], PathSpecific, Own;
    PATH_CHALLENGE "PATH_CHALLENGE" 0x1a..=0x1a, APPLICATION, [ack probing], PathSpecific, Own;
    PATH_RESPONSE "PATH_RESPONSE" 0x1b..=0x1b, ONE_RTT, [ack probing], PathSpecific, Own;
    CONNECTION_CLOSE "CONNECTION_CLOSE" 0x1c..=0x1c, ANY, [], PathSpecific, Any;
    APPLICATION_CLOSE "CONNECTION_CLOSE" 0x1d..=0x1d, APPLICATION, [], PathSpecific, Any;
    HANDSHAKE_DONE "HANDSHAKE_DONE" 0x1e..=0x1e, ONE_RTT, [ack], DataRelated, Scheduled;
    IMMEDIATE_ACK "IMMEDIATE_ACK" ty::IMMEDIATE_ACK..=ty::IMMEDIATE_ACK,
        ONE_RTT, [ack], PathSpecific, Own;
    RESET_STREAM_AT "RESET_STREAM_AT" ty::RESET_STREAM_AT..=ty::RESET_STREAM_AT,
        APPLICATION, [ack], DataRelated, Scheduled;
    DATAGRAM "DATAGRAM" ty::DATAGRAM..=ty::DATAGRAM_WITH_LENGTH,
        APPLICATION, [ack], DataRelated, Scheduled;
    PATH_ACK "PATH_ACK" ty::PATH_ACK..=ty::PATH_ACK_ECN, ONE_RTT, [], PathSpecific, OwnOrOther;
    ACK_FREQUENCY "ACK_FREQUENCY" ty::ACK_FREQUENCY..=ty::ACK_FREQUENCY,
        ONE_RTT, [ack], PathSpecific, Own;
    SOURCE_SYMBOL "SOURCE_SYMBOL" ty::SOURCE_SYMBOL..=ty::SOURCE_SYMBOL_LAST,
        ONE_RTT, [ack], PathSpecific, Scheduled;
    REPAIR "REPAIR" ty::REPAIR..=ty::REPAIR, ONE_RTT, [ack], PathSpecific, Scheduled;
    SYMBOL_ACK "SYMBOL_ACK" ty::SYMBOL_ACK..=ty::SYMBOL_ACK, ONE_RTT, [], PathSpecific, Any;
    FEC_WINDOW "FEC_WINDOW" ty::FEC_WINDOW..=ty::FEC_WINDOW,
        ONE_RTT, [ack], PathSpecific, Scheduled;
    PATH_ECHO "PATH_ECHO" ty::PATH_ECHO..=ty::PATH_ECHO, ONE_RTT, [], PathSpecific, Any;
    PATH_ABANDON "PATH_ABANDON" ty::PATH_ABANDON..=ty::PATH_ABANDON,
        ONE_RTT, [ack], PathSpecific, Scheduled;
    PATH_STATUS_BACKUP "PATH_STATUS_BACKUP" ty::PATH_STATUS_BACKUP..=ty::PATH_STATUS_BACKUP,
        ONE_RTT, [ack], PathSpecific, OwnOrOther;
    PATH_STATUS_AVAILABLE "PATH_STATUS_AVAILABLE"
        ty::PATH_STATUS_AVAILABLE..=ty::PATH_STATUS_AVAILABLE,
        ONE_RTT, [ack], PathSpecific, OwnOrOther;
    PATH_NEW_CONNECTION_ID "PATH_NEW_CONNECTION_ID"
        ty::PATH_NEW_CONNECTION_ID..=ty::PATH_NEW_CONNECTION_ID,
        ONE_RTT, [ack probing], PathSpecific, OwnOrOther;
    PATH_RETIRE_CONNECTION_ID "PATH_RETIRE_CONNECTION_ID"
        ty::PATH_RETIRE_CONNECTION_ID..=ty::PATH_RETIRE_CONNECTION_ID,
        ONE_RTT, [ack], PathSpecific, OwnOrOther;
    MAX_PATH_ID "MAX_PATH_ID" ty::MAX_PATH_ID..=ty::MAX_PATH_ID,
        ONE_RTT, [ack], PathSpecific, Scheduled;
    PATHS_BLOCKED "PATHS_BLOCKED" ty::PATHS_BLOCKED..=ty::PATHS_BLOCKED,
        ONE_RTT, [ack], PathSpecific, Scheduled;
    PATH_CIDS_BLOCKED "PATH_CIDS_BLOCKED" ty::PATH_CIDS_BLOCKED..=ty::PATH_CIDS_BLOCKED,
        ONE_RTT, [ack], PathSpecific, Scheduled;
    ACK_RECEIVE_TIMESTAMPS "ACK_RECEIVE_TIMESTAMPS"
        ty::ACK_RECEIVE_TIMESTAMPS..=ty::ACK_RECEIVE_TIMESTAMPS_ECN, ONE_RTT, [], PathSpecific, Own;
    PATH_ACK_RECEIVE_TIMESTAMPS "PATH_ACK_RECEIVE_TIMESTAMPS"
        ty::PATH_ACK_RECEIVE_TIMESTAMPS..=ty::PATH_ACK_RECEIVE_TIMESTAMPS_ECN,
        ONE_RTT, [], PathSpecific, OwnOrOther;
}

/// Rows by type, for types below 64.
#[allow(clippy::indexing_slicing, reason = "evaluated at compile time")]
static ONE_BYTE: [Option<&FrameRow>; 64] = {
    let mut table: [Option<&FrameRow>; 64] = [None; 64];
    let mut i = 0;
    while i < ALL.len() {
        let (mut frame_type, last) = (*ALL[i].types.start(), *ALL[i].types.end());
        while frame_type <= last && frame_type < 64 {
            table[frame_type as usize] = Some(ALL[i]);
            frame_type += 1;
        }
        i += 1;
    }
    table
};

/// The properties of a frame type; `None` for types we do not know.
#[inline]
pub fn row_of(frame_type: u64) -> Option<&'static FrameRow> {
    let index = usize::try_from(frame_type).ok()?;
    match ONE_BYTE.get(index) {
        Some(row) => *row,
        None => ALL
            .iter()
            .find(|row| row.types.contains(&frame_type))
            .copied(),
    }
}

/// Every row, in order of type.
pub fn all_rows() -> &'static [&'static FrameRow] {
    ALL
}

#[inline]
pub(super) fn ack_row(kind: AckKind) -> &'static FrameRow {
    match (kind.path, kind.timestamps) {
        (false, false) => &ACK,
        (true, false) => &PATH_ACK,
        (false, true) => &ACK_RECEIVE_TIMESTAMPS,
        (true, true) => &PATH_ACK_RECEIVE_TIMESTAMPS,
    }
}
