//! The events.

use std::{net::SocketAddr, time::Duration};

use crate::{
    error::{ConnectionError, TransportError},
    recovery::LossTrigger,
    space::SpaceKind,
    time::Instant,
    tls::Level,
    units::{Dir, Ecn, FourTuple, PacketNumber, PathId, Rate, Side, StreamId},
    wire::{ConnectionId, Frame, TransportParameters, Version},
};

/// An enum of plain words, each with its name in events.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident => $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum $name { $($(#[$vdoc])* $variant,)* }

        impl $name {
            /// Every value, in order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The word used in qlog and counters.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text),* }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

words! {
    /// The type of a packet; tells its packet number space too.
    PacketKind {
        /// Initial.
        Initial => "initial",
        /// 0-RTT.
        ZeroRtt => "0RTT",
        /// Handshake.
        Handshake => "handshake",
        /// 1-RTT, short header.
        OneRtt => "1RTT",
        /// Retry.
        Retry => "retry",
        /// Version Negotiation.
        VersionNegotiation => "version_negotiation",
        /// Stateless reset.
        StatelessReset => "stateless_reset",
        /// Not recognised.
        Unknown => "unknown",
    }
}

words! {
    /// Why a packet or datagram was not processed.
    DropReason {
        /// It does not parse.
        Malformed => "header_parse_error",
        /// Its protection does not open.
        DecryptionFailure => "payload_decrypt_error",
        /// The keys for it are not there yet, or are gone.
        KeyUnavailable => "key_unavailable",
        /// Its number was seen before.
        Duplicate => "duplicate",
        /// No connection for its destination connection ID.
        UnknownConnectionId => "unknown_connection_id",
        /// A version we do not speak.
        UnsupportedVersion => "unsupported_version",
        /// A type or form that has no place here.
        UnexpectedPacket => "unexpected_packet",
        /// An Initial in a datagram below 1200 bytes. RFC 9000 s14.1.
        TooSmall => "datagram_too_small",
        /// A destination connection ID that is too short. RFC 9000 s7.2.
        BadConnectionId => "invalid_connection_id",
        /// The address was not expected here.
        UnexpectedAddress => "unexpected_address",
        /// A limit of ours is reached.
        Overload => "overload",
        /// We do not accept connections.
        NotListening => "not_listening",
        /// The connection is closing or gone.
        Closing => "connection_closing",
        /// A rule of the protocol is broken.
        Violation => "protocol_violation",
        /// Anything else.
        General => "general",
    }
}

words! {
    /// What came of a path when one was chosen for data.
    PathVerdict {
        /// It carries the data.
        Chosen => "chosen",
        /// It could, but the scheduler chose another one, or waits for another one.
        LeftAlone => "left_alone",
        /// Its congestion window is full.
        Full => "full",
        /// Its pacer lets nothing go yet, or the peer's address is not proven.
        Paced => "paced",
        /// One end wishes to keep it in reserve.
        Backup => "backup",
        /// A cheaper one works.
        Costlier => "costlier",
        /// It has carried all it may.
        CapReached => "cap_reached",
        /// Packets on it have gone unanswered for a probe timeout.
        Silent => "silent",
        /// Its address is not proven, or has no connection ID yet.
        NotValidated => "not_validated",
    }
}

words! {
    /// A connection's states.
    ConnectionState {
        /// Nothing happened yet.
        Attempted => "attempted",
        /// The peer's address is validated.
        PeerValidated => "peer_validated",
        /// The TLS handshake runs.
        HandshakeStarted => "handshake_started",
        /// 1-RTT packets may be sent before the handshake is complete.
        EarlyWrite => "early_write",
        /// The TLS handshake is complete.
        HandshakeComplete => "handshake_complete",
        /// The handshake is confirmed.
        HandshakeConfirmed => "handshake_confirmed",
        /// We sent CONNECTION_CLOSE.
        Closing => "closing",
        /// The peer closed.
        Draining => "draining",
        /// All state is about to go.
        Closed => "closed",
    }
}

words! {
    /// The timers.
    TimerKind {
        /// Loss detection by time.
        LossDetection => "ack",
        /// Probe timeout.
        Pto => "pto",
        /// Idle timeout.
        Idle => "idle_timeout",
        /// Keep-alive.
        KeepAlive => "keep_alive",
        /// Handshake timeout.
        Handshake => "handshake_timeout",
        /// Closing or draining period.
        Close => "close",
        /// Delayed acknowledgement.
        AckDelay => "ack_delay",
        /// Path validation.
        PathValidation => "path_validation",
        /// Old 1-RTT keys are dropped.
        KeyDiscard => "key_discard",
        /// The pacer lets the next packet go.
        Pacing => "pacing",
        /// Path MTU discovery.
        Mtu => "mtu",
    }
}

words! {
    /// ECN validation of a path. RFC 9000 s13.4.2.
    EcnPhase {
        /// Marks are sent and watched.
        Testing => "testing",
        /// Nothing was proved either way.
        Unknown => "unknown",
        /// The path clears or mangles marks; none are sent.
        Failed => "failed",
        /// Marks arrive.
        Capable => "capable",
    }
}

words! {
    /// One half of a stream.
    HalfStream {
        /// What we send.
        Sending => "sending",
        /// What we receive.
        Receiving => "receiving",
    }
}

words! {
    /// Where data is; it moves between two of these.
    DataPosition {
        /// With the application.
        Application => "application",
        /// In the transport's buffers.
        Transport => "transport",
        /// On the network.
        Network => "network",
        /// Nowhere any more.
        Dropped => "dropped",
    }
}

words! {
    /// What a peer did that a well-behaved one does not. Each has a counter.
    Abuse {
        /// A datagram whose first header does not parse.
        MalformedHeader => "malformed_header",
        /// A frame that does not parse.
        MalformedFrame => "malformed_frame",
        /// Transport parameters that do not parse or break a bound.
        BadTransportParameters => "bad_transport_parameters",
        /// Reserved header bits set under protection.
        ReservedBits => "reserved_bits",
        /// A frame in a packet type where it may not stand.
        FrameNotAllowed => "frame_not_allowed",
        /// A packet whose protection does not open.
        UndecryptablePacket => "undecryptable_packet",
        /// An Initial in a datagram below 1200 bytes.
        ShortInitial => "short_initial",
        /// An Initial to a connection ID below 8 bytes.
        ShortConnectionId => "short_connection_id",
        /// A datagram above the size we take.
        OversizedDatagram => "oversized_datagram",
        /// A version nobody negotiated.
        UnknownVersion => "unknown_version",
        /// A Version Negotiation packet that cannot be genuine.
        VersionNegotiationSpoof => "version_negotiation_spoof",
        /// A Retry packet that cannot be genuine.
        RetrySpoof => "retry_spoof",
        /// A token that was not sealed by us, or not for this address.
        TokenForged => "token_forged",
        /// A token past its time.
        TokenExpired => "token_expired",
        /// A NEW_TOKEN token used twice.
        TokenReplayed => "token_replayed",
        /// More unfinished handshakes than allowed.
        HandshakeFlood => "handshake_flood",
        /// More early data for an unaccepted connection than is kept.
        EarlyDataFlood => "early_data_flood",
        /// More connections than allowed.
        TooManyConnections => "too_many_connections",
        /// A short-header packet that matches no connection and no reset token.
        UnknownConnectionId => "unknown_connection_id",
        /// A short-header packet to an endpoint that only connects: with none of its connection IDs,
        /// and with no reset token of its peers at the end. Late packets count, too.
        ResetGuess => "reset_guess",
        /// More stateless answers asked for than we give.
        StatelessFlood => "stateless_flood",
        /// Sending waits for the amplification limit.
        AmplificationLimited => "amplification_limited",
        /// CRYPTO data far ahead of what is contiguous, or more than is kept.
        CryptoFlood => "crypto_flood",
        /// An ACK for a packet that was not sent.
        AckOfUnsent => "ack_of_unsent",
        /// An ACK for a packet number that was skipped.
        OptimisticAck => "optimistic_ack",
        /// More connection IDs than our limit.
        ConnectionIdFlood => "connection_id_flood",
        /// Connection IDs retired faster than we replace them.
        RetireFlood => "retire_flood",
        /// More PATH_CHALLENGEs than we answer.
        PathChallengeFlood => "path_challenge_flood",
        /// Streams above the limit or in a wrong state.
        StreamViolation => "stream_violation",
        /// Data above a flow-control limit.
        FlowControlViolation => "flow_control_violation",
        /// Stream data in tiny pieces with gaps.
        FragmentFlood => "fragment_flood",
        /// Key updates faster than RFC 9001 s6.5 allows.
        KeyUpdateStorm => "key_update_storm",
        /// DATAGRAM payloads dropped because the queue was full.
        DatagramFlood => "datagram_flood",
        /// Control frames queued beyond the limit.
        ControlFlood => "control_flood",
        /// Any other broken rule.
        Violation => "violation",
    }
}

/// The numbers of a path's recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RecoveryMetrics {
    /// Smallest RTT.
    pub min_rtt: Duration,
    /// Smoothed RTT.
    pub smoothed_rtt: Duration,
    /// Newest RTT sample.
    pub latest_rtt: Duration,
    /// RTT variation.
    pub rtt_variance: Duration,
    /// Probe timeouts in a row.
    pub pto_count: u32,
    /// Congestion window in bytes.
    pub window: u64,
    /// Bytes in flight.
    pub bytes_in_flight: u64,
    /// Slow-start threshold in bytes, where there is one.
    pub slow_start_threshold: Option<u64>,
    /// Pacing rate.
    pub pacing_rate: Option<Rate>,
    /// Estimated bottleneck bandwidth, where the algorithm has one.
    pub bandwidth: Option<Rate>,
    /// Packet reordering threshold now.
    pub packet_threshold: u32,
    /// Smoothed delay towards the peer, where it reports receive timestamps.
    pub one_way_delay: Option<Duration>,
    /// How much longer than at best packets take towards the peer now.
    pub one_way_delay_variation: Option<Duration>,
}

/// Which flow-control limit stands in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowScope {
    /// MAX_DATA.
    Connection,
    /// MAX_STREAM_DATA of this stream.
    Stream(StreamId),
    /// MAX_STREAMS of this direction.
    Streams(Dir),
}

/// Something that happened. Borrowed, small, built only when somebody listens.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
#[expect(missing_docs, reason = "fields whose name says all")]
pub enum Event<'a> {
    // -- Endpoint --
    /// A server accepts connections here.
    ServerListening { local: SocketAddr },
    /// The endpoint did not hand a datagram to any connection. `len` in bytes.
    DatagramDropped {
        four_tuple: FourTuple,
        len: usize,
        reason: DropReason,
    },
    /// The endpoint answered without state (Version Negotiation, Retry, reset, refusal).
    StatelessResponse {
        four_tuple: FourTuple,
        kind: PacketKind,
        len: usize,
    },
    /// A client knocks; `validated` tells whether its address is proven by a token.
    IncomingConnection {
        four_tuple: FourTuple,
        dcid: ConnectionId,
        validated: bool,
    },

    // -- Connection --
    /// A connection begins.
    ConnectionStarted {
        side: Side,
        four_tuple: FourTuple,
        local_cid: ConnectionId,
        remote_cid: ConnectionId,
    },
    /// We are about to close because of this.
    ConnectionClosing { error: &'a TransportError },
    /// The connection ended; `application` is what our application closed it with, if it did.
    ConnectionClosed {
        error: &'a ConnectionError,
        application: Option<(u64, &'a [u8])>,
    },
    /// The connection's state changed.
    ConnectionState {
        old: ConnectionState,
        new: ConnectionState,
    },
    /// An end changed the connection ID in use. `owner` is who issued it.
    ConnectionIdUpdated {
        owner: Side,
        path: PathId,
        old: ConnectionId,
        new: ConnectionId,
    },
    /// The spin bit we send changed.
    SpinBit { path: PathId, spin: bool },
    /// Versions on both sides; `remote` as far as known.
    VersionInformation {
        local: &'a [Version],
        remote: &'a [Version],
        chosen: Option<Version>,
    },
    /// Version negotiation moved the connection.
    VersionChosen { from: Version, to: Version },
    /// The application protocol was chosen.
    AlpnInformation { chosen: &'a [u8] },
    /// Our transport parameters.
    ParametersSent(&'a TransportParameters),
    /// The peer's transport parameters.
    ParametersReceived(&'a TransportParameters),
    /// Transport parameters remembered for 0-RTT are in use.
    ParametersRestored(&'a TransportParameters),
    /// The server refused 0-RTT; what was sent in it is sent again.
    ZeroRttRejected,

    // -- Packets and datagrams --
    /// A packet is sealed. Its frames came just before. `bytes` with header and AEAD tag.
    PacketSent {
        level: Level,
        path: PathId,
        number: PacketNumber,
        bytes: usize,
        ecn: Ecn,
    },
    /// A packet was opened. Its frames follow. `bytes` with header and AEAD tag.
    PacketReceived {
        level: Level,
        path: PathId,
        number: PacketNumber,
        bytes: usize,
        ecn: Ecn,
    },
    /// A packet without number was taken: Retry, Version Negotiation, stateless reset.
    SpecialPacketReceived { kind: PacketKind, bytes: usize },
    /// A packet is ignored.
    PacketDropped {
        reason: DropReason,
        details: &'static str,
    },
    /// A packet waits for its keys.
    PacketBuffered { bytes: usize },
    /// A packet is declared lost. `bytes` as it stood in the datagram.
    PacketLost {
        kind: SpaceKind,
        path: PathId,
        number: PacketNumber,
        bytes: u64,
        trigger: LossTrigger,
    },
    /// A lost packet was acknowledged after all.
    PacketSpuriouslyLost {
        kind: SpaceKind,
        path: PathId,
        number: PacketNumber,
    },
    /// Packets are newly acknowledged.
    PacketsAcked {
        kind: SpaceKind,
        path: PathId,
        first: PacketNumber,
        last: PacketNumber,
    },
    /// One UDP batch is handed to the socket: `count` datagrams, `bytes` together.
    DatagramsSent {
        count: usize,
        bytes: usize,
        ecn: Ecn,
    },
    /// A UDP datagram of `bytes` arrived for this connection.
    DatagramReceived { bytes: usize },

    // -- Frames --
    /// A frame was written into the packet under construction.
    FrameSent(&'a Frame<'a>),
    /// A STREAM frame was written.
    StreamFrameSent {
        id: StreamId,
        offset: u64,
        len: usize,
        fin: bool,
    },
    /// A CRYPTO frame was written.
    CryptoFrameSent { offset: u64, len: usize },
    /// An ACK or PATH_ACK was written: `delay` raw, `encoded` the whole frame.
    AckFrameSent {
        path: Option<PathId>,
        largest: PacketNumber,
        delay: u64,
        encoded: &'a [u8],
    },
    /// PADDING of `len` bytes was written.
    PaddingSent { len: usize },
    /// A frame arrived in the packet last received.
    FrameReceived(&'a Frame<'a>),

    // -- Streams and application datagrams --
    /// Half a stream changed its state. RFC 9000 s3.
    StreamState {
        id: StreamId,
        half: HalfStream,
        state: &'static str,
    },
    /// Stream data moved.
    StreamDataMoved {
        id: StreamId,
        offset: u64,
        len: usize,
        from: DataPosition,
        to: DataPosition,
    },
    /// An application datagram moved.
    DatagramDataMoved {
        len: usize,
        from: DataPosition,
        to: DataPosition,
    },
    /// A flow-control limit began (`blocked`) or ceased to hold back sending.
    FlowBlocked {
        scope: FlowScope,
        limit: u64,
        blocked: bool,
    },

    // -- Keys --
    /// Both directions of this level can be protected now.
    KeysInstalled(Level),
    /// The 1-RTT keys moved on to `phase` (0 at first).
    KeysUpdated { phase: u64, by_peer: bool },
    /// Keys of this level are gone.
    KeysDiscarded(Level),

    // -- Paths --
    /// A path runs over this network path now; `None`: it is no more.
    TupleAssigned {
        path: PathId,
        four_tuple: Option<FourTuple>,
    },
    /// A path moved to another network path.
    PathMigrated {
        path: PathId,
        from: FourTuple,
        to: FourTuple,
    },
    /// A network path is validated.
    PathValidated { path: PathId, to: FourTuple },
    /// A network path did not answer.
    PathValidationFailed { path: PathId, to: FourTuple },
    /// The datagram size of a path changed (0: none before); `done`: the search is over for now.
    MtuUpdated {
        path: PathId,
        old: u16,
        new: u16,
        done: bool,
    },
    /// ECN validation moved on.
    EcnState {
        path: PathId,
        old: EcnPhase,
        new: EcnPhase,
    },

    // -- Recovery and congestion --
    /// The recovery's fixed settings on a path.
    RecoveryParameters {
        path: PathId,
        controller: &'static str,
        packet_threshold: u32,
        time_threshold: f64,
        initial_rtt: Duration,
        initial_window: u64,
        minimum_window: u64,
        max_datagram_bytes: u64,
    },
    /// RTT, window or bytes in flight changed.
    MetricsUpdated {
        path: PathId,
        metrics: &'a RecoveryMetrics,
    },
    /// The congestion controller changed its phase.
    CongestionState {
        path: PathId,
        old: &'static str,
        new: &'static str,
    },
    /// What a lost packet carried is queued again.
    MarkedForRetransmit {
        path: PathId,
        kind: SpaceKind,
        number: PacketNumber,
    },

    // -- Timers --
    /// A timer runs until `at`.
    TimerSet {
        timer: TimerKind,
        path: Option<PathId>,
        at: Instant,
    },
    /// A timer went off.
    TimerExpired {
        timer: TimerKind,
        path: Option<PathId>,
    },
    /// A timer was stopped.
    TimerCancelled {
        timer: TimerKind,
        path: Option<PathId>,
    },

    /// A lost source symbol of the peer was rebuilt from repair symbols. `bytes` of frames.
    SymbolRecovered { id: u64, bytes: usize },

    // -- Policies and abuse --
    /// A policy decided: who (`policy` names the trait, `name` the implementation), what, and
    /// up to two numbers whose meaning `decision` tells.
    PolicyDecision {
        policy: &'static str,
        name: &'static str,
        path: Option<PathId>,
        decision: &'static str,
        values: [Option<f64>; 2],
    },
    /// Data goes by another path than before, or the paths to choose from are others: where it goes
    /// (`None`: it waits), why, the bytes that waited, as far as a scheduler sees them, how many such
    /// changes this stands for, and what came of each path that is not abandoned. At most one in 10 ms.
    PathChosen {
        path: Option<PathId>,
        scheduler: &'static str,
        reason: &'static str,
        waiting: u64,
        changes: u32,
        candidates: &'a [PathCandidate],
    },
    /// A peer did what a well-behaved one does not.
    Abuse { kind: Abuse },
}

/// One of the paths that data could go by.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct PathCandidate {
    /// Which path.
    pub path: PathId,
    /// What came of it.
    pub verdict: PathVerdict,
    /// Smoothed round-trip time; `None` before the first sample.
    pub smoothed_rtt: Option<Duration>,
    /// What a packet that leaves now takes to the peer, by estimate.
    pub arrival: Duration,
    /// Bytes that window and cap let leave now.
    pub room: u64,
    /// What it delivers, by estimate.
    pub rate: Rate,
    /// Share of packets lost, 0 to 1.
    pub loss: f64,
}

impl Event<'_> {
    /// The event's name, as in qlog without the namespace.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::ServerListening { .. } => "server_listening",
            Self::DatagramDropped { .. } => "udp_datagram_dropped",
            Self::StatelessResponse { .. } => "stateless_response",
            Self::IncomingConnection { .. } => "incoming_connection",
            Self::ConnectionStarted { .. } => "connection_started",
            Self::ConnectionClosing { .. } => "connection_closing",
            Self::ConnectionClosed { .. } => "connection_closed",
            Self::ConnectionState { .. } => "connection_state_updated",
            Self::ConnectionIdUpdated { .. } => "connection_id_updated",
            Self::SpinBit { .. } => "spin_bit_updated",
            Self::VersionInformation { .. } | Self::VersionChosen { .. } => "version_information",
            Self::AlpnInformation { .. } => "alpn_information",
            Self::ParametersSent(_) | Self::ParametersReceived(_) => "parameters_set",
            Self::ParametersRestored(_) => "parameters_restored",
            Self::ZeroRttRejected => "zero_rtt_rejected",
            Self::PacketSent { .. } => "packet_sent",
            Self::PacketReceived { .. } | Self::SpecialPacketReceived { .. } => "packet_received",
            Self::PacketDropped { .. } => "packet_dropped",
            Self::PacketBuffered { .. } => "packet_buffered",
            Self::PacketLost { .. } => "packet_lost",
            Self::PacketSpuriouslyLost { .. } => "packet_spuriously_lost",
            Self::PacketsAcked { .. } => "packets_acked",
            Self::DatagramsSent { .. } => "udp_datagrams_sent",
            Self::DatagramReceived { .. } => "udp_datagrams_received",
            Self::FrameSent(_)
            | Self::StreamFrameSent { .. }
            | Self::CryptoFrameSent { .. }
            | Self::AckFrameSent { .. }
            | Self::PaddingSent { .. } => "frames_created",
            Self::FrameReceived(_) => "frames_parsed",
            Self::StreamState { .. } => "stream_state_updated",
            Self::StreamDataMoved { .. } => "stream_data_moved",
            Self::DatagramDataMoved { .. } => "datagram_data_moved",
            Self::FlowBlocked {
                scope: FlowScope::Connection,
                ..
            } => "connection_data_blocked_updated",
            Self::FlowBlocked {
                scope: FlowScope::Stream(_),
                ..
            } => "stream_data_blocked_updated",
            Self::FlowBlocked {
                scope: FlowScope::Streams(_),
                ..
            } => "streams_blocked_updated",
            Self::KeysInstalled(_) | Self::KeysUpdated { .. } => "key_updated",
            Self::KeysDiscarded(_) => "key_discarded",
            Self::TupleAssigned { .. } => "tuple_assigned",
            Self::PathMigrated { .. }
            | Self::PathValidated { .. }
            | Self::PathValidationFailed { .. } => "migration_state_updated",
            Self::MtuUpdated { .. } => "mtu_updated",
            Self::EcnState { .. } => "ecn_state_updated",
            Self::RecoveryParameters { .. } => "recovery_parameters_set",
            Self::MetricsUpdated { .. } => "recovery_metrics_updated",
            Self::CongestionState { .. } => "congestion_state_updated",
            Self::MarkedForRetransmit { .. } => "marked_for_retransmit",
            Self::TimerSet { .. } | Self::TimerExpired { .. } | Self::TimerCancelled { .. } => {
                "timer_updated"
            }
            Self::SymbolRecovered { .. } => "symbol_recovered",
            Self::PolicyDecision { .. } => "policy_decision",
            Self::PathChosen { .. } => "path_chosen",
            Self::Abuse { .. } => "abuse",
        }
    }
}

macro_rules! kinds {
    ($($name:ident,)*) => {
        impl Event<'_> {
            /// The names of all kinds of events, in order of declaration.
            pub const KINDS: &'static [&'static str] = &[$(stringify!($name)),*];

            /// Which of [`Event::KINDS`] this is: the variant's own name.
            pub const fn kind(&self) -> &'static str {
                match self { $(Self::$name { .. } => stringify!($name),)* }
            }
        }
    };
}

kinds! {
    ServerListening,
    DatagramDropped,
    StatelessResponse,
    IncomingConnection,
    ConnectionStarted,
    ConnectionClosing,
    ConnectionClosed,
    ConnectionState,
    ConnectionIdUpdated,
    SpinBit,
    VersionInformation,
    VersionChosen,
    AlpnInformation,
    ParametersSent,
    ParametersReceived,
    ParametersRestored,
    ZeroRttRejected,
    PacketSent,
    PacketReceived,
    SpecialPacketReceived,
    PacketDropped,
    PacketBuffered,
    PacketLost,
    PacketSpuriouslyLost,
    PacketsAcked,
    DatagramsSent,
    DatagramReceived,
    FrameSent,
    StreamFrameSent,
    CryptoFrameSent,
    AckFrameSent,
    PaddingSent,
    FrameReceived,
    StreamState,
    StreamDataMoved,
    DatagramDataMoved,
    FlowBlocked,
    KeysInstalled,
    KeysUpdated,
    KeysDiscarded,
    TupleAssigned,
    PathMigrated,
    PathValidated,
    PathValidationFailed,
    MtuUpdated,
    EcnState,
    RecoveryParameters,
    MetricsUpdated,
    CongestionState,
    MarkedForRetransmit,
    TimerSet,
    TimerExpired,
    TimerCancelled,
    SymbolRecovered,
    PolicyDecision,
    PathChosen,
    Abuse,
}
