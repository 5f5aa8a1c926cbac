//! Every knob and every limit, with its default and what it costs.
//!
//! Purpose: one place to see what can be chosen and what is bounded.
//! Owns: [`TransportConfig`], [`EndpointConfig`], [`Limits`], [`Profile`].
//! Does not own: TLS settings (`tls/`), policy implementations.
//! Called by: everything, read-only, behind an `Arc`.

pub(crate) mod fixed;
mod profile;

use std::{sync::Arc, time::Duration};

use crate::{
    ack::SharedAckPolicyFactory,
    congestion::{SharedControllerFactory, USUAL_PACKETS},
    endpoint::UsedTokens,
    fec::FecConfig,
    message::MessageConfig,
    multipath::MultipathConfig,
    observe::SharedSinkFactory,
    stream::sched::SharedStreamSchedulerFactory,
    wire::Version,
};

pub use profile::Profile;

/// A receive window that starts at `initial` and grows with delivery rate and RTT up to `max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowConfig {
    /// Bytes offered before anything is known.
    pub initial: u64,
    /// Bytes never exceeded; this much may be buffered.
    pub max: u64,
}

impl WindowConfig {
    /// A window that does not grow.
    pub const fn fixed(bytes: u64) -> Self {
        Self {
            initial: bytes,
            max: bytes,
        }
    }
}

/// Path MTU discovery. RFC 8899, RFC 9000 s14.3. Sizes are UDP payload bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MtuConfig {
    /// Datagram size used before anything larger is confirmed; at least 1200. The first probe leaves during the
    /// handshake.
    pub initial: u16,
    /// Largest size probed for. Default 1452 (1500 less IPv6 and UDP headers).
    pub upper_bound: u16,
    /// Whether to probe at all.
    pub discovery: bool,
    /// Pause before a finished search starts again. Default 10 minutes.
    pub raise_interval: Duration,
}

impl Default for MtuConfig {
    fn default() -> Self {
        Self {
            initial: 1200,
            upper_bound: 1452,
            discovery: true,
            raise_interval: Duration::from_secs(600),
        }
    }
}

/// Hard bounds on what a peer or a network can make us hold. Each names its memory cost.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// CRYPTO bytes per level that wait for a gap to close or a TLS message to become whole; a
    /// longer message (a certificate chain) ends the handshake. Default 128 KiB; at most a third
    /// more memory each, however small the pieces.
    pub crypto_buffer_bytes: usize,
    /// Undecryptable datagrams kept while keys are missing. Default 16; 1.5 KiB each.
    pub buffered_undecryptable_datagrams: usize,
    /// Slices of receive buffers that unread stream data may share instead of being copied.
    /// Default 512; what they pin is bounded by `shared_receive_bytes`.
    pub shared_receive_slices: usize,
    /// How much the socket may receive while unread stream data shares its buffers; from there on
    /// data is copied until all that was shared is read. Default 4 MiB: that much memory, and one
    /// receive buffer (256 KiB).
    pub shared_receive_bytes: u64,
    /// PATH_CHALLENGEs waiting for their answer. Default 8; 40 bytes each.
    pub pending_path_responses: usize,
    /// RETIRE_CONNECTION_ID frames waiting to be sent. Default 64; 16 bytes each. Above: CONNECTION_ID_LIMIT_ERROR.
    pub pending_retire_connection_ids: usize,
    /// Ranges kept of received packet numbers. Default 256; 16 bytes each. Oldest are forgotten.
    pub received_ranges: usize,
    /// Packets tracked as sent at once, per space. Default 1 Mi; about 120 bytes each when full.
    pub sent_packets: usize,
    /// Closed remote streams kept as gaps in the open set. Default 65,536; 8 bytes each.
    pub out_of_order_stream_closures: usize,
    /// RESET_STREAM, STOP_SENDING and flow-control frames queued. Default 16,384; 16 bytes each.
    /// When full, further local control waits; a peer that causes it is closed.
    pub queued_control_frames: usize,
    /// Events the application has not polled. Default 65,536; about 64 bytes each.
    pub pending_events: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            crypto_buffer_bytes: 128 * 1024,
            buffered_undecryptable_datagrams: 16,
            shared_receive_slices: 512,
            shared_receive_bytes: 4 << 20,
            pending_path_responses: 8,
            pending_retire_connection_ids: 64,
            received_ranges: 256,
            sent_packets: 1 << 20,
            out_of_order_stream_closures: 65_536,
            queued_control_frames: 16_384,
            pending_events: 65_536,
        }
    }
}

/// How one connection behaves. Same type for clients and servers.
///
/// Start from [`TransportConfig::default`] or [`Profile::config`] and change fields.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TransportConfig {
    /// Close after this long without hearing anything; the smaller of both ends' wishes holds.
    /// `None` never. Default 30 s. An end that waits for the other's flow control says so every 10 s, or three times in this
    /// time, which keeps the connection (RFC 9000 s4.1).
    pub max_idle_timeout: Option<Duration>,
    /// Send a PING on each open path over which nothing ack-eliciting left and nothing arrived for this long, so that
    /// neither the peer nor a NAT on the way forgets it. Default `None`.
    pub keep_alive_interval: Option<Duration>,
    /// Give up a handshake after this long. Default 30 s.
    pub handshake_timeout: Duration,

    /// Receive window of each stream. Default 256 KiB growing to 16 MiB.
    pub stream_receive_window: WindowConfig,
    /// Receive window of the connection. Default 1 MiB growing to 64 MiB.
    pub connection_receive_window: WindowConfig,
    /// Unacknowledged and unsent stream bytes an application may hand over, once the congestion
    /// window is large: four windows are taken, and 512 KiB in any case. Default 16 MiB.
    pub send_buffer_bytes: u64,
    /// Streams the peer may have open at once, bidirectional. Default 100.
    pub max_concurrent_bidi_streams: u64,
    /// Streams the peer may have open at once, unidirectional. Default 100.
    pub max_concurrent_uni_streams: u64,
    /// Order of streams in packets. Default `priority`.
    pub stream_scheduler: SharedStreamSchedulerFactory,

    /// Received DATAGRAM payload bytes held for the application; oldest are dropped when full.
    /// 0 refuses the extension. Default 1 MiB.
    pub datagram_receive_buffer_bytes: usize,
    /// DATAGRAM payload bytes waiting to be sent. Default 1 MiB.
    pub datagram_send_buffer_bytes: usize,

    /// Bounds of messages.
    pub messages: MessageConfig,

    /// RTT assumed before the first sample. Default 333 ms. RFC 9002 s6.2.2.
    pub initial_rtt: Duration,
    /// Initial congestion window in datagrams. Default 10. RFC 9002 s7.2.
    pub initial_window_packets: u32,
    /// Reordering in packets tolerated before loss is declared, at the start. Default 3.
    pub packet_threshold: u32,
    /// The adaptive threshold never exceeds this many packets. Default 64; equal to
    /// `packet_threshold` switches adaptation off.
    pub max_packet_threshold: u32,
    /// Reordering in time tolerated, as a factor on the RTT. Default 1.125.
    pub time_threshold: f64,
    /// PTOs without an acknowledgement that make persistent congestion. Default 3.
    pub persistent_congestion_threshold: u32,
    /// Congestion controller. Default `cubic`.
    pub congestion: SharedControllerFactory,
    /// Whether packets are paced. Default on.
    pub pacing: bool,

    /// Acknowledgement policy. Default `standard`; which to choose: `docs/ack-policies.md`.
    pub ack_policy: SharedAckPolicyFactory,
    /// Longest delay of our ACKs, announced to the peer. Default 25 ms.
    pub max_ack_delay: Duration,
    /// Whether the peer may steer our ACKs by ACK_FREQUENCY; announces min_ack_delay 1 ms. Default on.
    pub ack_frequency: bool,
    /// Whether to report and ask for receive timestamps. Default off.
    pub receive_timestamps: bool,

    /// Forward erasure correction. Default off.
    pub fec: FecConfig,

    /// Path MTU discovery.
    pub mtu: MtuConfig,
    /// Whether to mark packets ECT(0) and validate. Default on.
    pub ecn: bool,
    /// Whether to vary reserved bits, parameters and codepoints. RFC 9287, RFC 9000 s15. Default on.
    pub grease: bool,
    /// Whether to spin the latency bit on 15 of 16 connections. RFC 9000 s17.4. Default on.
    pub spin_bit: bool,
    /// Whether the client may move to another network path. Default on.
    pub migration: bool,
    /// Connection IDs of the peer we are ready to hold, per path. Default 8; 64 bytes each. At least 2.
    pub active_connection_id_limit: u64,
    /// Several paths at once, RFC 10069. Default `None`: off.
    pub multipath: Option<MultipathConfig>,
    /// A second address the server moves clients to. RFC 9000 s9.6.
    pub preferred_address: Option<PreferredAddresses>,

    /// Where events go. Default nowhere.
    pub observer: Option<SharedSinkFactory>,
    /// Hard bounds.
    pub limits: Limits,
}

/// The addresses of a server's preferred_address transport parameter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PreferredAddresses {
    /// IPv4, if any.
    pub v4: Option<std::net::SocketAddrV4>,
    /// IPv6, if any.
    pub v6: Option<std::net::SocketAddrV6>,
}

impl Default for TransportConfig {
    fn default() -> Self {
        Self {
            max_idle_timeout: Some(Duration::from_secs(30)),
            keep_alive_interval: None,
            handshake_timeout: Duration::from_secs(30),
            stream_receive_window: WindowConfig {
                initial: 256 * 1024,
                max: 16 << 20,
            },
            connection_receive_window: WindowConfig {
                initial: 1 << 20,
                max: 64 << 20,
            },
            send_buffer_bytes: 16 << 20,
            max_concurrent_bidi_streams: 100,
            max_concurrent_uni_streams: 100,
            stream_scheduler: crate::stream::sched::registry::default_factory(),
            datagram_receive_buffer_bytes: 1 << 20,
            datagram_send_buffer_bytes: 1 << 20,
            messages: MessageConfig::default(),
            initial_rtt: Duration::from_millis(333),
            initial_window_packets: USUAL_PACKETS,
            packet_threshold: 3,
            max_packet_threshold: 64,
            time_threshold: 9.0 / 8.0,
            persistent_congestion_threshold: 3,
            congestion: crate::congestion::registry::default_factory(),
            pacing: true,
            ack_policy: crate::ack::registry::default_factory(),
            max_ack_delay: Duration::from_millis(25),
            ack_frequency: true,
            receive_timestamps: false,
            fec: FecConfig::default(),
            mtu: MtuConfig::default(),
            ecn: true,
            grease: true,
            spin_bit: true,
            migration: true,
            active_connection_id_limit: 8,
            multipath: None,
            preferred_address: None,
            observer: None,
            limits: Limits::default(),
        }
    }
}

/// How an endpoint (a socket's worth of connections) behaves.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EndpointConfig {
    /// Versions we speak, most wanted first. Default v1, v2.
    pub versions: Vec<Version>,
    /// Length of the connection IDs we issue, `0..=20`. Default 8.
    pub connection_id_length: usize,
    /// A number that every connection ID we issue carries, so that a kernel or a demultiplexer can
    /// steer packets to the shard that owns the connection; `None` without shards.
    pub shard: Option<u16>,
    /// Key that stateless reset tokens derive from; share it over restarts to let a restarted
    /// endpoint reset old connections. `None` draws one from the RNG.
    pub stateless_reset_key: Option<[u8; 32]>,
    /// Key that Retry and NEW_TOKEN tokens are sealed with; share it between shards, and
    /// `used_tokens` with it. `None` draws one.
    pub token_key: Option<[u8; 32]>,
    /// Which NEW_TOKEN tokens were used; share it between endpoints with the same `token_key`, else
    /// each of them honours a token once. `None` makes one.
    pub used_tokens: Option<Arc<UsedTokens>>,
    /// Largest UDP payload we take. Default 65,527 (announced as max_udp_payload_size).
    pub max_udp_payload_bytes: u16,
    /// Stateless packets (Version Negotiation, stateless resets) sent per second at most. Default 1,000.
    pub stateless_responses_per_second: u32,
}

impl Default for EndpointConfig {
    fn default() -> Self {
        Self {
            versions: vec![Version::V1, Version::V2],
            connection_id_length: 8,
            shard: None,
            stateless_reset_key: None,
            token_key: None,
            used_tokens: None,
            max_udp_payload_bytes: 65_527,
            stateless_responses_per_second: 1_000,
        }
    }
}

/// How a server treats clients before and after they prove their address.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerConfig {
    /// Behaviour of accepted connections.
    pub transport: Arc<TransportConfig>,
    /// TLS.
    pub tls: Arc<dyn crate::tls::ServerSessionFactory>,
    /// How long a Retry token is good for. Default 15 s.
    pub retry_token_lifetime: Duration,
    /// How long a NEW_TOKEN token is good for. Default 14 days.
    pub validation_token_lifetime: Duration,
    /// NEW_TOKEN frames per connection. Default 2. The first connection that gets some makes the server
    /// take 288 KiB to know them by.
    pub validation_tokens: u8,
    /// Connections whose handshake is not done; above it, new ones must do a Retry. Default 1,000.
    pub max_incoming: usize,
    /// Connections of clients that proved their address; above it, new ones are refused.
    /// Default 100,000. Those that did not (it may be forged) take nobody's place: no more than
    /// `max_incoming` of them are held beside, and with them no more than `max_connections` in
    /// all, above which new ones must do a Retry.
    pub max_connections: usize,
    /// Bytes kept of one connection attempt until the application accepts it. Default 64 KiB.
    pub incoming_buffer_bytes: usize,
}

impl ServerConfig {
    /// A server with default behaviour and this TLS set-up.
    pub fn new(tls: Arc<dyn crate::tls::ServerSessionFactory>) -> Self {
        Self {
            transport: Arc::new(TransportConfig::default()),
            tls,
            retry_token_lifetime: Duration::from_secs(15),
            validation_token_lifetime: Duration::from_secs(14 * 24 * 3600),
            validation_tokens: 2,
            max_incoming: 1_000,
            max_connections: 100_000,
            incoming_buffer_bytes: 64 * 1024,
        }
    }
}

/// How a client connects.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClientConfig {
    /// Behaviour of the connection.
    pub transport: Arc<TransportConfig>,
    /// TLS.
    pub tls: Arc<dyn crate::tls::ClientSessionFactory>,
    /// Version of the first flight to a server that is not known yet. Default v1. Where a session
    /// can be resumed, that session's version takes its place: sessions belong to one. RFC 9369 s5.
    pub initial_version: Version,
    /// Where NEW_TOKEN tokens are kept between connections; `None` keeps none.
    pub token_store: Option<Arc<dyn crate::endpoint::TokenStore>>,
}

impl ClientConfig {
    /// A client with default behaviour and this TLS set-up.
    pub fn new(tls: Arc<dyn crate::tls::ClientSessionFactory>) -> Self {
        Self {
            transport: Arc::new(TransportConfig::default()),
            tls,
            initial_version: Version::V1,
            token_store: None,
        }
    }
}
