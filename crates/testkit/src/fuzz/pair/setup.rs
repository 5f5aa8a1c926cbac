//! Who the two ends are: the head of a script.

use std::{
    net::{Ipv4Addr, SocketAddrV4},
    sync::{Arc, atomic::AtomicU8},
    time::Duration,
};

use bytes::Bytes;
use tautline_transport::{
    ack,
    config::{
        ClientConfig, EndpointConfig, PreferredAddresses, ServerConfig, TransportConfig,
        WindowConfig,
    },
    congestion,
    endpoint::TokenStore,
    fec::{code_by_name, redundancy},
    multipath::{AckRouting, MultipathConfig},
    observe::{QlogFactory, SharedSinkFactory, TeeFactory},
    stream::sched,
    units::Side,
    wire::Version,
};

use super::edit::{EditedClient, EditedServer};
use crate::{
    fuzz::{Coverage, input::record},
    null_tls::{NullClient, NullLimits, NullServer, NullTag},
};

/// Bits of [`Setup::client`] and [`Setup::server`].
pub(crate) mod end {
    pub(crate) const EMPTY_CIDS: u16 = 1;
    pub(crate) const PREFER_V2: u16 = 1 << 1;
    pub(crate) const NO_GREASE: u16 = 1 << 2;
    pub(crate) const NO_ACK_FREQUENCY: u16 = 1 << 3;
    pub(crate) const TIMESTAMPS: u16 = 1 << 4;
    pub(crate) const NO_DATAGRAMS: u16 = 1 << 5;
    /// In effect where both ends have it.
    pub(crate) const MULTIPATH: u16 = 1 << 6;
    pub(crate) const NO_PACING: u16 = 1 << 7;
    pub(crate) const NO_MTU_DISCOVERY: u16 = 1 << 8;
    pub(crate) const NO_ECN: u16 = 1 << 9;
    pub(crate) const KEEP_ALIVE: u16 = 1 << 10;
    pub(crate) const NO_EARLY_DATA: u16 = 1 << 11;
    pub(crate) const NO_MIGRATION: u16 = 1 << 12;
    /// The client's ClientHello spans packets; the server has a preferred address.
    pub(crate) const SPECIAL: u16 = 1 << 13;
    pub(crate) const OTHER_ALPN: u16 = 1 << 14;
    /// The client starts in v2; the server speaks nothing else.
    pub(crate) const V2: u16 = 1 << 15;
}

/// Bits of [`Setup::shared`].
pub(crate) mod shared {
    pub(crate) const ZERO_TAGS: u8 = 1;
    pub(crate) const RETRY: u8 = 1 << 1;
    pub(crate) const REFUSE: u8 = 1 << 2;
    pub(crate) const QLOG: u8 = 1 << 3;
    pub(crate) const TINY_LIMITS: u8 = 1 << 4;
    pub(crate) const TINY_CONFIDENTIALITY: u8 = 1 << 5;
    pub(crate) const TINY_INTEGRITY: u8 = 1 << 6;
    /// Connection attempts wait for [`super::super::Op::Decide`].
    pub(crate) const UNDECIDED: u8 = 1 << 7;
}

/// Bit of [`Setup::policies`]: both ends protect what they send, and decode.
pub(crate) const ERASURE: u8 = 1 << 7;

/// Redundancy schedulers by the upper half of [`Setup::seed`], with [`ERASURE`]. To add one, take the place of
/// one that there are two of; places are part of the corpus. The first depends on [`shared::TINY_LIMITS`]; `none`
/// is for the server alone, so that one end protects.
const REDUNDANCY: [&str; 16] = [
    "quirl-burst:0,5",
    "auto",
    "none",
    "constant:6,4,10",
    "quirl-object",
    "quirl-burst:1000,20,beta=1",
    "tail",
    "flec-bulk",
    "flec-buffer",
    "flec-message:deadline=40,interval=15",
    "ac-rlnc",
    "rquic:initial=4,periods=1,rtts=1",
    "auto:cost=off",
    "constant:3,1",
    "flec-bulk:fill-cwnd=on",
    "rquic:overlap=4,tail=on",
];

/// Codes by the lower half of [`Setup::seed`], with [`ERASURE`]. What is above stands for other things.
const CODES: [&str; 7] = [
    "rlc",
    "xor",
    "xor:4",
    "reed-solomon",
    "rlc-gf2",
    "tetrys",
    "xor:65535",
];

record! {
    /// Configuration of both ends.
    Setup {
        /// Seed of both ends' randomness; its upper half is the place in [`REDUNDANCY`], too.
        seed: u8,
        /// Bits of [`shared`].
        shared: u8,
        /// Bits of [`end`].
        client: u16,
        /// Bits of [`end`].
        server: u16,
        /// Congestion controller (3 bits), ACK policy (2), stream scheduler (2), [`ERASURE`].
        policies: u8,
        /// Receive windows: streams (4 bits), connection (4 bits); 256 << n bytes, 0 the default.
        windows: u8,
        /// Whose transport parameters are edited: 1 the client's, 2 the server's; 3 and 4 the same
        /// from the second connection on.
        edit_side: u8,
        /// Which parameter is taken out, by its ID; see `edit.rs`.
        edit_remove: u8,
        /// What is appended to the parameters.
        edit_append: Vec<u8>,
        /// A token that the client believes to be from the server.
        token: Vec<u8>,
    }
}

/// The address of the server.
pub(super) const SERVER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), 443);
const PREFERRED: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), 4443);

impl Setup {
    /// The bits of one end.
    pub(super) fn bits(&self, side: Side) -> u16 {
        match side {
            Side::Client => self.client,
            Side::Server => self.server,
        }
    }

    pub(super) fn is_shared(&self, bit: u8) -> bool {
        self.shared & bit != 0
    }

    /// Whether connections may rightly fail or streams stall in an honest network.
    pub(super) fn may_fail(&self) -> bool {
        let either = self.client | self.server;
        either & (end::OTHER_ALPN | end::NO_MIGRATION) != 0
            || self.is_shared(shared::REFUSE | shared::TINY_CONFIDENTIALITY)
            // Any key opens any packet, also those of other connections and phases.
            || self.is_shared(shared::ZERO_TAGS)
            || matches!(self.edit_side, 1..=4)
            || !self.token.is_empty()
            // Without connection IDs, a client hears only where it expects its server.
            || self.client & end::EMPTY_CIDS != 0 && self.server & end::SPECIAL != 0
            || self.windows != 0 && (self.windows & 0x0f == 0 || self.windows >> 4 == 0)
    }

    /// Whether packets lead to a connection by the client's address alone, which then must stay.
    pub(super) fn is_routed_by_address(&self) -> bool {
        self.server & end::EMPTY_CIDS != 0
    }

    pub(super) fn endpoint(&self, side: Side) -> EndpointConfig {
        let bits = self.bits(side);
        let mut config = EndpointConfig::default();
        config.versions = match side {
            Side::Server if bits & end::V2 != 0 => vec![Version::V2],
            _ if bits & end::PREFER_V2 != 0 => vec![Version::V2, Version::V1],
            _ => vec![Version::V1, Version::V2],
        };
        if bits & end::EMPTY_CIDS != 0 {
            config.connection_id_length = 0;
        }
        config.token_key = Some([7; 32]);
        config.stateless_reset_key = Some([9; 32]);
        config
    }

    /// Length of the connection IDs that a side issues.
    pub(super) fn endpoint_cid_len(&self, side: Side) -> usize {
        if self.bits(side) & end::EMPTY_CIDS != 0 {
            0
        } else {
            8
        }
    }

    /// Stream bytes that one connection may hold: received and unread, written and unacknowledged.
    pub(super) fn buffers(&self, side: Side) -> [u64; 2] {
        let config = self.transport(side, None);
        [
            config.connection_receive_window.max,
            config.send_buffer_bytes,
        ]
    }

    pub(super) fn transport(&self, side: Side, coverage: Option<&Coverage>) -> TransportConfig {
        let bits = self.bits(side);
        let has = |bit| bits & bit != 0;
        let mut config = TransportConfig::default();
        config.grease = !has(end::NO_GREASE);
        config.ack_frequency = !has(end::NO_ACK_FREQUENCY);
        config.receive_timestamps = has(end::TIMESTAMPS);
        if has(end::NO_DATAGRAMS) {
            config.datagram_receive_buffer_bytes = 0;
        }
        config.pacing = !has(end::NO_PACING);
        config.mtu.discovery = !has(end::NO_MTU_DISCOVERY);
        config.ecn = !has(end::NO_ECN);
        config.keep_alive_interval = has(end::KEEP_ALIVE).then_some(Duration::from_secs(5));
        config.migration = !has(end::NO_MIGRATION);
        if has(end::SPECIAL) && side.is_server() {
            config.preferred_address = Some(PreferredAddresses {
                v4: Some(PREFERRED),
                v6: None,
            });
        }
        if self.is_shared(shared::TINY_LIMITS) {
            config.max_concurrent_bidi_streams = 3;
            config.max_concurrent_uni_streams = 3;
            config.send_buffer_bytes = 3000;
            config.datagram_send_buffer_bytes = 3000;
            config.datagram_receive_buffer_bytes = config.datagram_receive_buffer_bytes.min(3000);
            config.limits.buffered_undecryptable_datagrams = 2;
            config.limits.received_ranges = 4;
            config.limits.pending_path_responses = 2;
            config.limits.pending_retire_connection_ids = 2;
            config.limits.queued_control_frames = 2;
            config.limits.out_of_order_stream_closures = 2;
            config.limits.pending_events = 8;
        }
        if has(end::MULTIPATH) {
            let mut multipath = MultipathConfig::default();
            multipath.ack_routing = match self.windows & 3 {
                0 => AckRouting::SamePath,
                1 => AckRouting::OnePath,
                2 => AckRouting::Grouped,
                _ => AckRouting::Alternate,
            };
            config.multipath = Some(multipath);
        }
        if self.windows != 0 {
            let window = |exponent: u8| WindowConfig::fixed(256 << exponent);
            config.stream_receive_window = window(self.windows & 0x0f);
            config.connection_receive_window = window(self.windows >> 4);
        }
        self.choose_policies(side, &mut config);
        config.observer = self.observer(coverage);
        config
    }

    fn choose_policies(&self, side: Side, config: &mut TransportConfig) {
        fn pick<F>(
            mut names: impl Iterator<Item = &'static str>,
            by_name: impl Fn(&str) -> Option<F>,
            index: u8,
        ) -> Option<F> {
            // 0 is the default.
            names
                .nth(usize::from(index.checked_sub(1)?))
                .and_then(by_name)
        }
        let names = congestion::registry::names();
        if let Some(factory) = pick(names, congestion::registry::by_name, self.policies & 7) {
            config.congestion = factory;
        }
        let names = ack::registry::names();
        if let Some(factory) = pick(names, ack::registry::by_name, self.policies >> 3 & 3) {
            config.ack_policy = factory;
        }
        let names = sched::registry::names();
        if let Some(factory) = pick(names, sched::registry::by_name, self.policies >> 5 & 3) {
            config.stream_scheduler = factory;
        }
        if self.policies & ERASURE != 0 {
            let name = match usize::from(self.seed >> 4) {
                0 if self.is_shared(shared::TINY_LIMITS) => "constant:6,4,10",
                place => REDUNDANCY[place],
            };
            let alone = side == Side::Client && name == "none";
            let name = if alone { "auto" } else { name };
            config.fec.redundancy = redundancy::registry::parse(name).expect("built in");
            config.fec.decode = true;
            config.fec.protect_datagrams = self.is_shared(shared::QLOG);
            config.fec.decoder_symbols = 20;
            config.fec.encoder_symbols = 20;
            self.choose_code(config);
        }
    }

    /// By the lower half of the seed, of which 0 is what is usual.
    fn choose_code(&self, config: &mut TransportConfig) {
        let place = usize::from(self.seed & 0x0f);
        if let Some(code) = CODES.get(place) {
            config.fec.schemes = vec![code_by_name(code).expect("built in")];
        }
        if place >= CODES.len() {
            config.fec.padding = place & 1 == 1;
            config.fec.encoder_symbols = [1, 3, 256, 4_095][place % 4];
            config.fec.decoder_symbols = config.fec.encoder_symbols;
            config.fec.lab.mask = place & 2 == 2;
            config.fec.lab.repair_outside_cwnd = place & 4 == 4;
        }
    }

    fn observer(&self, coverage: Option<&Coverage>) -> Option<SharedSinkFactory> {
        let coverage = coverage.map(|c| Arc::new(c.clone()) as SharedSinkFactory);
        if !self.is_shared(shared::QLOG) {
            return coverage;
        }
        let qlog = QlogFactory::new(|_| Some(Box::new(std::io::sink())));
        let sinks = coverage
            .into_iter()
            .chain([Arc::new(qlog) as SharedSinkFactory]);
        Some(Arc::new(TeeFactory::new(sinks.collect())))
    }

    fn tag(&self) -> NullTag {
        if self.is_shared(shared::ZERO_TAGS) {
            NullTag::Zero
        } else {
            NullTag::Keyed
        }
    }

    fn limits(&self) -> NullLimits {
        let mut limits = NullLimits::default();
        if self.is_shared(shared::TINY_CONFIDENTIALITY) {
            limits.confidentiality = 16;
        }
        if self.is_shared(shared::TINY_INTEGRITY) {
            limits.integrity = 3;
        }
        limits
    }

    pub(super) fn client_config(&self, coverage: Option<&Coverage>) -> ClientConfig {
        let bits = self.client;
        let mut tls = NullClient::new(alpn(bits));
        tls.tag = self.tag();
        tls.limits = self.limits();
        tls.early_data = bits & end::NO_EARLY_DATA == 0;
        if bits & end::SPECIAL != 0 {
            tls.padding_bytes = 3000;
        }
        let mut config = ClientConfig::new(Arc::new(EditedClient {
            inner: tls,
            edit: self.edit(1),
            started: AtomicU8::new(0),
        }));
        config.transport = Arc::new(self.transport(Side::Client, coverage));
        if bits & end::V2 != 0 {
            config.initial_version = Version::V2;
        }
        if !self.token.is_empty() {
            config.token_store = Some(Arc::new(OneToken(Bytes::from(self.token.clone()))));
        }
        config
    }

    pub(super) fn server_config(&self, coverage: Option<&Coverage>) -> ServerConfig {
        let mut tls = NullServer::new(alpn(self.server));
        tls.tag = self.tag();
        tls.limits = self.limits();
        tls.early_data = self.server & end::NO_EARLY_DATA == 0;
        let mut config = ServerConfig::new(Arc::new(EditedServer {
            inner: tls,
            edit: self.edit(2),
            started: AtomicU8::new(0),
        }));
        config.transport = Arc::new(self.transport(Side::Server, coverage));
        if self.is_shared(shared::TINY_LIMITS) {
            config.max_incoming = 2;
            config.max_connections = 3;
            config.incoming_buffer_bytes = 4000;
        }
        config
    }

    fn edit(&self, side: u8) -> Option<super::edit::Edit> {
        let spared = match self.edit_side {
            edited if edited == side => 0,
            edited if edited == side + 2 => 1,
            _ => return None,
        };
        Some(super::edit::Edit {
            remove: self.edit_remove,
            append: self.edit_append.clone(),
            spared,
        })
    }
}

fn alpn(bits: u16) -> &'static [u8] {
    if bits & end::OTHER_ALPN != 0 {
        b"other"
    } else {
        b"fuzz"
    }
}

/// Gives every connection the same token.
#[derive(Debug)]
struct OneToken(Bytes);

impl TokenStore for OneToken {
    fn insert(&self, _: &str, _: Version, _: Bytes) {}

    fn take(&self, _: &str, _: Version) -> Option<Bytes> {
        Some(self.0.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each can be had, and no scheduler is left out.
    #[test]
    fn every_redundancy_scheduler_has_a_place() {
        let chosen = (0..16).map(|place| {
            let setup = Setup {
                seed: place << 4,
                policies: ERASURE,
                ..Setup::default()
            };
            let config = setup.transport(Side::Server, None);
            config.fec.redundancy.name()
        });
        let chosen: std::collections::BTreeSet<_> = chosen.collect();
        assert_eq!(chosen, redundancy::registry::names().collect());
    }
}
