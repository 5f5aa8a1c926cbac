//! One connection's sending side of erasure correction.
//!
//! Purpose: protect packets, have repair symbols leave when a scheduler says so, know what became of each.
//! Owns: [`FecSender`]: here what leaves, source symbols and repair symbols; in `asking.rs` what the
//! scheduler is told and asked; in `fates.rs` what feedback means to symbols.
//! Does not own: the rooms it is made of (`source.rs`, `repair.rs`, `queue.rs`, `waiting.rs`,
//! `monitors.rs`, `peer_decoder.rs`), packets (`connection/`).

mod asking;
mod bursts;
mod company;
mod departures;
mod fates;
mod plain;

use std::time::Duration;

use tautline_codes::{CodingWindow, Limits, RepairId, Scheme};

pub use bursts::SentData;
pub use departures::Departure;

use bursts::Bursts;
use company::Company;
use departures::Departures;
use plain::Plain;

use super::{
    FecConfig, LossMemory,
    config::LEAST_SYMBOL_BYTES,
    loss_monitor::{LossEstimate, queue_stands},
    monitors::Monitors,
    paths::Paths,
    peer_decoder::PeerDecoder,
    queue::RepairQueue,
    redundancy::{Outlook, RedundancyScheduler},
    repair::{Group, KEYS, RepairLog},
    source::SourceWindow,
    stats::FecStats,
    waiting::WaitingSymbols,
};
use crate::{
    error::TransportError,
    time::Instant,
    units::{PacketNumber, PathId, Rate},
    wire::{FecDecoder, Repair, SourceSymbol, packet_number_len},
};

pub(crate) use fates::{Delivered, OnLoss, symbol_not_sent};

/// Length of a repair symbol beyond that of the source symbols it covers.
const FRAMING: usize = 2;
/// Bytes of a symbol ID at least. A packet number read wrong fails to decrypt; nothing guards a symbol ID, and what is
/// rebuilt from one read wrong is no data. So it must be clear however many symbols overtake its packet, not only
/// until the peer knows it: half of 2^16 on one path,
const LEAST_ID_BYTES: usize = 2;
/// and half of 2^24 where some paths are slower than others.
const LEAST_ID_BYTES_OVER_PATHS: usize = 3;

/// A repair symbol that may leave now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RepairPlan {
    window: CodingWindow,
    key: u32,
    len: usize,
}

impl RepairPlan {
    /// First source symbol, count and key, as REPAIR has them.
    pub fn fields(&self) -> (u64, u64, u64) {
        let window = self.window;
        (window.first, u64::from(window.len), u64::from(self.key))
    }

    /// Bytes of the repair symbol.
    pub fn symbol_len(&self) -> usize {
        self.len
    }
}

/// How a path does, as feedback finds it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathState {
    /// Smoothed round-trip time.
    pub smoothed_rtt: Duration,
    /// Smallest round-trip time.
    pub min_rtt: Duration,
    /// Smallest of the newest samples of it.
    pub calm_rtt: Duration,
    /// Probe timeout, without backoff.
    pub probe_timeout: Duration,
    /// How fast it delivered while a queue stood, if one did.
    pub capacity: Option<Rate>,
    /// Bytes of the congestion window that are in use: all unless there is too little to send.
    pub filled: u64,
}

impl PathState {
    /// Whether a queue stands: even the shortest of the newest round trips is longer than the shortest of all by
    /// an eighth.
    fn has_queue(&self) -> bool {
        queue_stands(self.calm_rtt, self.min_rtt)
    }
}

/// Protects packets, decides when repair symbols leave, and makes them.
#[derive(Debug)]
pub struct FecSender {
    source: SourceWindow,
    repairs: RepairLog,
    scheduler: Box<dyn RedundancyScheduler>,
    queue: RepairQueue,
    /// Whether a source symbol left since the end of the last burst.
    in_burst: bool,
    burst_bytes: u64,
    /// Whether the latest packet has stream data that left before.
    repeats: bool,
    /// As [`RedundancyView::stream_ends`](super::redundancy::RedundancyView::stream_ends).
    stream_ends: bool,
    /// When the scheduler was last asked: a time for that which is not later has passed.
    asked: Option<Instant>,
    peer: PeerDecoder,
    max_symbol: usize,
    waiting: WaitingSymbols,
    /// What repair symbols that were lost covered, until what waits for them is looked at.
    doubted: Vec<Group>,
    monitors: Monitors,
    /// The path that feedback came of last.
    path: PathState,
    /// The paths to choose from.
    paths: Paths,
    departures: Departures,
    bursts: Bursts,
    company: Company,
    /// The path of the latest source symbol.
    newest: PathId,
    outlook: Outlook,
    /// What leaves plain without a question.
    plain: Plain,
    /// As [`RedundancyView::held_back`].
    held_back: bool,
    /// As [`RedundancyView::flow_window`].
    flow_window: Option<u64>,
    stats: FecStats,
}

impl FecSender {
    /// Protection towards `peer` with `scheme`. `None` if the symbols it takes are too short to be of use.
    pub fn new(config: &FecConfig, peer: &FecDecoder, scheme: Scheme) -> Option<Self> {
        let max_symbol = u16::try_from(peer.max_symbol_bytes).unwrap_or(u16::MAX);
        let max_symbol = max_symbol.min(config.max_symbol_bytes);
        if max_symbol < LEAST_SYMBOL_BYTES {
            return None;
        }
        let symbols = u16::try_from(peer.window_symbols).unwrap_or(u16::MAX);
        let symbols = symbols
            .min(config.encoder_symbols)
            .clamp(1, Limits::MAX_WINDOW);
        let limits = Limits::new(symbols, max_symbol).ok()?;
        Some(Self {
            source: SourceWindow::new(limits),
            repairs: RepairLog::new(scheme),
            scheduler: config.redundancy.build(),
            queue: RepairQueue::default(),
            in_burst: false,
            burst_bytes: 0,
            repeats: false,
            stream_ends: false,
            asked: None,
            peer: PeerDecoder::new(peer),
            max_symbol: usize::from(max_symbol),
            waiting: WaitingSymbols::default(),
            doubted: Vec::new(),
            monitors: Monitors::default(),
            path: PathState::default(),
            paths: Paths::default(),
            departures: Departures::default(),
            bursts: Bursts::default(),
            company: Company::default(),
            newest: PathId::ZERO,
            outlook: Outlook::default(),
            plain: Plain::default(),
            held_back: false,
            flow_window: None,
            stats: FecStats::default(),
        })
    }

    /// The scheduler's name.
    pub fn name(&self) -> &'static str {
        self.scheduler.name()
    }

    /// Counters; those of receiving are 0.
    pub fn stats(&self) -> FecStats {
        self.stats
    }

    /// Begins with what an earlier connection knew of a path's losses, unless more is known already.
    pub fn begin_with(&mut self, path: PathId, memory: &LossMemory) {
        self.monitors.begin_with(path, memory);
    }

    /// What a later connection may begin with; `None` while nothing was learnt.
    pub fn loss_memory(&self, path: PathId) -> Option<LossMemory> {
        self.monitors.get(path)?.memory()
    }

    /// A path is gone, or leads over another network: what was known of its losses means nothing there.
    /// RFC 9000 s9.4.
    pub fn forget_path(&mut self, path: PathId) {
        self.monitors.forget(path);
    }

    /// What a path carried is sent on another as well: nothing here waits for it any more.
    pub(crate) fn on_path_copied(&mut self, path: PathId) {
        self.source.on_all_copied(path);
    }

    /// The same for one symbol.
    pub(crate) fn on_copied(&mut self, id: u64) {
        self.source.on_copied(id);
    }

    /// What is known of a path's losses.
    pub fn loss(&self, path: PathId) -> LossEstimate {
        let monitor = self.monitors.get(path);
        monitor.map_or_else(LossEstimate::default, |monitor| monitor.estimate())
    }

    /// What is known of the losses of all paths that source symbols take together: each counts by the symbols
    /// under way on it.
    pub fn joint_loss(&self) -> LossEstimate {
        let on = |path| self.source.in_flight_on(path);
        let joint = self.paths.loss(self.newest, &on, &self.monitors);
        joint.unwrap_or_else(|| self.loss(self.newest))
    }

    // ---- Source symbols ----

    /// The header of the next symbol.
    pub fn next_header(&self) -> SourceSymbol {
        let id = self.source.next_id();
        let needed = packet_number_len(id, self.source.largest_known());
        let least = if self.paths.are_several() {
            LEAST_ID_BYTES_OVER_PATHS
        } else {
            LEAST_ID_BYTES
        };
        SourceSymbol::new(id, needed.max(least))
    }

    /// The ID of the next symbol.
    pub fn next_symbol(&self) -> u64 {
        self.source.next_id()
    }

    /// Bytes that a symbol may have, so that a repair symbol over it fits a packet with `payload`
    /// bytes for frames; now and for long, so that what fits once fits later.
    pub fn symbol_room(&self, payload: usize) -> usize {
        self.room_around(self.source.next_id().max(1 << 20), u64::from(KEYS), payload)
    }

    /// Whether a packet with `payload` bytes for frames is worth protecting. A shorter one leaves plain: cut to
    /// what a repair symbol leaves of it, it might have room for nothing. So does one whose symbol may be longer than
    /// the peer's window has bytes: no repair symbol over it could follow.
    pub fn has_room(&self, payload: usize) -> bool {
        self.symbol_room(payload) >= usize::from(LEAST_SYMBOL_BYTES)
            && (self.longest_symbol(payload) + FRAMING) as u64 <= self.peer.bytes()
    }

    /// As [`Self::symbol_room`], for a repair symbol whose window begins at `first` or before.
    fn room_around(&self, first: u64, key: u64, payload: usize) -> usize {
        let longest = u64::from(self.source.encoder.limits().window_symbols());
        let around = Repair::header_len(first, longest, key, payload) + FRAMING;
        self.max_symbol.min(payload.saturating_sub(around))
    }

    /// Bytes for frames that a protected packet may have then, header of the symbol and frames
    /// before it included.
    pub fn packet_room(&self, payload: usize) -> usize {
        let header = SourceSymbol::encoded_len(usize::from(self.next_header().bytes));
        self.longest_symbol(payload) + header
    }

    /// Bytes that the next symbol may have.
    fn longest_symbol(&self, payload: usize) -> usize {
        let key = self.repairs.key_soon();
        self.room_around(self.source.next_id(), key, payload)
    }

    /// A packet leaves whose frames behind [`Self::next_header`] are `symbol`. Returns the symbol's
    /// ID; `None` if it cannot be held, which [`Self::packet_room`] excludes.
    pub fn on_source(&mut self, path: PathId, number: PacketNumber, symbol: &[u8]) -> Option<u64> {
        let id = self.source.push(path, number, symbol).ok();
        debug_assert!(id.is_some(), "symbols are kept within packet_room");
        self.stats.sources_sent += 1;
        self.newest = path;
        self.in_burst = true;
        self.stream_ends = false;
        self.held_back = false;
        self.burst_bytes += symbol.len() as u64;
        id
    }

    /// The latest source symbol has the last bytes of a stream.
    pub fn on_stream_end(&mut self) {
        self.stream_ends = true;
    }

    /// An ack-eliciting packet of so many bytes left, without a repair symbol.
    #[inline]
    pub fn on_packet_sent(&mut self, packet: Departure, bytes: usize, data: SentData) {
        self.monitors.of(packet.path).on_sent(packet.number);
        self.bursts.on_sent(packet, bytes, data);
        self.repeats = data == SentData::Again;
        self.company.on_sent(packet, false, self.path.smoothed_rtt);
    }

    /// Steps that the search for what a SYMBOL_ACK tells has taken so far.
    #[cfg(test)]
    #[cfg_attr(
        not(all(
            feature = "fec-xor",
            feature = "fec-reed-solomon",
            feature = "fec-rlc",
            feature = "fec-tetrys"
        )),
        allow(dead_code, reason = "tests need every code")
    )]
    pub(super) fn looked_at(&self) -> u64 {
        self.source.looked_at
    }

    // ---- Repair symbols ----

    /// Repair symbols that wait to leave.
    pub fn queued(&self) -> u16 {
        self.queue.len()
    }

    /// Whether a repair symbol waits to leave.
    pub fn has_repairs(&self) -> bool {
        self.queue.len() > 0
    }

    /// Bytes for frames that the repair symbol to leave next takes, over all that it is for. `None` if there is none of
    /// use.
    pub fn next_repair_room(&self) -> Option<usize> {
        let window = self.queue.front()?;
        let plan = self
            .source
            .is_open(window)
            .then(|| self.plan(window, usize::MAX))??;
        let len = u64::from(plan.window.len);
        let header = Repair::header_len(plan.window.first, len, plan.key.into(), plan.len);
        Some(header + plan.len)
    }

    /// The repair symbol to leave next, in a packet with `payload` bytes for frames. What can do no
    /// good any more is dropped.
    pub fn next_repair(&mut self, payload: usize) -> Option<RepairPlan> {
        while let Some(window) = self.queue.front() {
            let plan = self
                .source
                .is_open(window)
                .then(|| self.plan(window, payload))
                .flatten();
            if plan.is_some() {
                return plan;
            }
            self.queue.skip();
        }
        None
    }

    /// A repair symbol over `window`, or as much of its end as encoder, decoder and packet allow.
    fn plan(&self, window: CodingWindow, payload: usize) -> Option<RepairPlan> {
        let encoder = &self.source.encoder;
        let remembered = self.peer.remembered(encoder.next_id());
        let first = window.first.max(encoder.window().first).max(remembered);
        let end = window.end();
        let whole = CodingWindow {
            first,
            len: u16::try_from(end.checked_sub(first)?).ok()?,
        };
        let whole = self.repairs.fitting(whole, self.queue.first_run_len());
        // A block whose keys are used up has no other repair symbol.
        self.repairs.key(whole)?;
        let longest = encoder.repair_len(whole).ok()?;
        if let Some(plan) = self.plan_of(whole, longest, payload) {
            return Some(plan);
        }
        // Symbols from before the path's MTU shrank may be too long, and the peer's decoder too small. From the
        // end on, so that the longest symbol of each window is known from that before.
        let (mut fits, mut longest) = (None, 0);
        for len in 1..=whole.len {
            let first = end - u64::from(len);
            let oldest = encoder.repair_len(CodingWindow { first, len: 1 }).ok()?;
            longest = longest.max(oldest);
            if !self.takes(len, longest, payload) {
                break;
            }
            let plan = self.plan_of(CodingWindow { first, len }, longest, payload);
            fits = plan.or(fits);
        }
        fits
    }

    /// The next repair symbol over `window`, of `symbol_len` bytes, if packet and decoder have room for it.
    fn plan_of(
        &self,
        window: CodingWindow,
        symbol_len: usize,
        payload: usize,
    ) -> Option<RepairPlan> {
        if !self.takes(window.len, symbol_len, payload) {
            return None;
        }
        let key = self.repairs.key(window)?;
        let header = Repair::header_len(window.first, window.len.into(), key.into(), symbol_len);
        (header + symbol_len <= payload).then_some(RepairPlan {
            window,
            key,
            len: symbol_len,
        })
    }

    /// Whether packet and decoder have room for a repair symbol of `symbol_len` bytes over `len` symbols,
    /// whatever its header takes.
    fn takes(&self, len: u16, symbol_len: usize, payload: usize) -> bool {
        let bytes = u64::from(len) * symbol_len as u64;
        len > 0 && symbol_len <= payload && bytes <= self.peer.bytes()
    }

    /// Writes the repair symbol to `out`, which is as long as the plan says; false if it cannot be
    /// made after all.
    pub fn write_repair(&mut self, plan: &RepairPlan, out: &mut [u8]) -> bool {
        let scheme = self.repairs.scheme();
        let id = RepairId {
            window: plan.window,
            key: plan.key,
        };
        let written = self.source.encoder.repair(&scheme, id, out);
        written.is_ok_and(|len| len == plan.len)
    }

    /// Repair symbols sent so far: the number that the token of the next one bears.
    pub fn repairs_sent(&self) -> u64 {
        self.stats.repairs_sent
    }

    /// The repair symbol left in a packet of `bytes` bytes.
    pub fn on_repair(&mut self, plan: &RepairPlan, bytes: usize, departure: Departure) {
        self.monitors.of(departure.path).on_sent(departure.number);
        self.departures.note(departure);
        self.company
            .on_sent(departure, true, self.path.smoothed_rtt);
        let added = self.queue.pop();
        self.stats.repairs_sent += 1;
        self.stats.repair_bytes_sent += bytes as u64;
        self.repairs.on_sent(plan.window, plan.key, added);
    }

    /// A FEC_WINDOW frame; an older one than the newest is ignored.
    ///
    /// # Errors
    /// PROTOCOL_VIOLATION for a window without symbols.
    pub fn on_window(
        &mut self,
        epoch: u64,
        symbols: u64,
        bytes: u64,
    ) -> Result<(), TransportError> {
        self.peer.on_window(epoch, symbols, bytes)
    }
}
