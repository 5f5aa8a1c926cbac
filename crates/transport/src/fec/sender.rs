//! One connection's sending side of erasure correction.

use std::{collections::VecDeque, time::Duration};

use smallvec::SmallVec;
use tautline_codes::{CodingWindow, Limits, RepairId, Scheme};

use super::{
    FecConfig, LossMemory,
    loss_monitor::{LossEstimate, LossMonitor},
    redundancy::{Occasion, Outlook, RedundancyScheduler, RedundancyView},
    repair::{KEYS, RepairLog},
    source::{SourceWindow, SymbolFate},
    stats::FecStats,
};
use crate::{
    error::TransportError,
    message::MessageOutlook,
    packet::Token,
    time::{Instant, earliest},
    units::{PacketNumber, PathId},
    wire::{FecDecoder, Repair, SourceSymbol, packet_number_len},
};

/// Repair symbols decided on that wait to leave; more are not taken.
const QUEUED: u16 = 256;
/// Lost symbols that wait for a repair symbol at a time; more are sent again at once.
const WAITING: usize = 1024;
/// Length of a repair symbol beyond that of the source symbols it covers.
const FRAMING: usize = 2;

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
    /// Latest round-trip time.
    pub latest_rtt: Duration,
    /// Probe timeout, without backoff.
    pub probe_timeout: Duration,
    /// Bytes.
    pub congestion_window: u64,
}

/// What a lost symbol calls for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnLoss {
    /// Sending its frames again.
    Resend,
    /// Nothing: the peer has recovered it.
    Nothing,
    /// Waiting: repair symbols are under way. [`FecSender::wait`] takes its tokens.
    Wait,
}

/// Where the tokens of a symbol that the peer has recovered are to be found.
#[derive(Debug)]
pub(crate) enum Delivered {
    /// With this packet, behind the token of the symbol.
    InPacket(PathId, PacketNumber),
    /// Here: the packet was lost.
    Tokens(SmallVec<[Token; 2]>),
}

/// A lost symbol whose frames are not queued again yet.
#[derive(Debug)]
struct Waiting {
    id: u64,
    path: PathId,
    until: Instant,
    tokens: SmallVec<[Token; 2]>,
}

/// Protects packets, decides when repair symbols leave, and makes them.
#[derive(Debug)]
pub struct FecSender {
    source: SourceWindow,
    repairs: RepairLog,
    scheduler: Box<dyn RedundancyScheduler>,
    /// Repair symbols decided on: over which symbols, and how many.
    queue: VecDeque<(CodingWindow, u16)>,
    queued: u16,
    /// Source symbols below this are covered by repair symbols decided on.
    covered: u64,
    /// Whether a source symbol left since the end of the last burst.
    in_burst: bool,
    burst_bytes: u64,
    /// When the scheduler was last asked: a time for that which is not later has passed.
    asked: Option<Instant>,
    /// The peer's decoder: source symbols, bytes, and which announcement says so.
    peer_symbols: u64,
    peer_bytes: u64,
    peer_epoch: Option<u64>,
    max_symbol: usize,
    waiting: VecDeque<Waiting>,
    monitors: SmallVec<[(PathId, LossMonitor); 1]>,
    smoothed_rtt: Duration,
    probe_timeout: Duration,
    outlook: Outlook,
    /// As [`RedundancyView::held_back`].
    held_back: bool,
    /// As [`RedundancyView::flow_window`].
    flow_window: Option<u64>,
    stats: FecStats,
}

impl FecSender {
    /// Protection towards `peer` with `scheme`. `None` if the peer's window is of no use.
    pub fn new(config: &FecConfig, peer: &FecDecoder, scheme: Scheme) -> Option<Self> {
        let max_symbol = u16::try_from(peer.max_symbol_bytes).unwrap_or(u16::MAX);
        let max_symbol = max_symbol.min(config.max_symbol_bytes);
        let symbols = u16::try_from(peer.window_symbols).unwrap_or(u16::MAX);
        let symbols = symbols
            .min(config.encoder_symbols)
            .clamp(1, Limits::MAX_WINDOW);
        let limits = Limits::new(symbols, max_symbol).ok()?;
        Some(Self {
            source: SourceWindow::new(limits),
            repairs: RepairLog::new(scheme),
            scheduler: config.redundancy.build(),
            queue: VecDeque::new(),
            queued: 0,
            covered: 0,
            in_burst: false,
            burst_bytes: 0,
            asked: None,
            peer_symbols: peer.window_symbols,
            peer_bytes: peer.window_bytes,
            peer_epoch: None,
            max_symbol: usize::from(max_symbol),
            waiting: VecDeque::new(),
            monitors: SmallVec::new(),
            smoothed_rtt: Duration::ZERO,
            probe_timeout: Duration::ZERO,
            outlook: Outlook::default(),
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
        if self.monitors.iter().all(|(id, _)| *id != path) {
            self.monitors.push((path, LossMonitor::with_memory(memory)));
        }
    }

    /// What a later connection may begin with; `None` while nothing was learnt.
    pub fn loss_memory(&self, path: PathId) -> Option<LossMemory> {
        let monitor = self.monitors.iter().find(|(id, _)| *id == path);
        monitor.and_then(|(_, monitor)| monitor.memory())
    }

    /// A path is gone.
    pub fn forget_path(&mut self, path: PathId) {
        self.monitors.retain(|(id, _)| *id != path);
    }

    /// What is known of a path's losses.
    pub fn loss(&self, path: PathId) -> LossEstimate {
        let monitor = self.monitors.iter().find(|(id, _)| *id == path);
        monitor.map_or_else(LossEstimate::default, |(_, monitor)| monitor.estimate())
    }

    // ---- Source symbols ----

    /// Whether a packet that leaves now is protected.
    pub fn protects(&mut self, now: Instant, outlook: Outlook) -> bool {
        self.outlook = outlook;
        self.scheduler.protects(&self.view(now))
    }

    /// The header of the next symbol.
    pub fn next_header(&self) -> SourceSymbol {
        let id = self.source.next_id();
        SourceSymbol::new(id, packet_number_len(id, self.source.largest_known()))
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

    /// The same, for a repair symbol whose window begins at `first` or before.
    fn room_around(&self, first: u64, key: u64, payload: usize) -> usize {
        let longest = u64::from(self.source.encoder.limits().window_symbols());
        let around = Repair::header_len(first, longest, key, payload) + FRAMING;
        self.max_symbol.min(payload.saturating_sub(around))
    }

    /// Bytes for frames that a protected packet may have then, header of the symbol and frames
    /// before it included.
    pub fn packet_room(&self, payload: usize) -> usize {
        let header = SourceSymbol::encoded_len(usize::from(self.next_header().bytes));
        let key = self.repairs.key_soon();
        self.room_around(self.source.next_id(), key, payload) + header
    }

    /// A packet leaves whose frames behind [`Self::next_header`] are `symbol`. Returns the symbol's
    /// ID; `None` if it cannot be held, which [`Self::packet_room`] excludes.
    pub fn on_source(&mut self, path: PathId, number: PacketNumber, symbol: &[u8]) -> Option<u64> {
        let id = self.source.push(path, number, symbol).ok();
        debug_assert!(id.is_some(), "symbols are kept within packet_room");
        self.stats.sources_sent += 1;
        self.in_burst = true;
        self.held_back = false;
        self.burst_bytes += symbol.len() as u64;
        id
    }

    /// An ack-eliciting packet left.
    pub fn on_packet_sent(&mut self, path: PathId, number: PacketNumber) {
        self.monitor(path).on_sent(number);
    }

    fn monitor(&mut self, path: PathId) -> &mut LossMonitor {
        let index = self.monitors.iter().position(|(id, _)| *id == path);
        let index = index.unwrap_or_else(|| {
            self.monitors.push((path, LossMonitor::default()));
            self.monitors.len() - 1
        });
        #[expect(clippy::indexing_slicing, reason = "found or just pushed")]
        &mut self.monitors[index].1
    }

    // ---- Repair symbols ----

    fn view(&self, now: Instant) -> RedundancyView {
        let first = self.monitors.first();
        let outlook = self.outlook;
        RedundancyView {
            now,
            held: self.source.encoder.window().len,
            span: u16::try_from(self.source.span()).unwrap_or(u16::MAX),
            sources: self.source.next_id(),
            uncovered: self.source.next_id() - self.covered,
            in_flight: self.source.in_flight(),
            missing: self.waiting.len() as u64,
            retransmitted: self.stats.retransmitted,
            burst_bytes: self.burst_bytes,
            queued: self.queued,
            repairs_in_flight: self.repairs.in_flight(),
            idle: !self.in_burst,
            held_back: self.held_back,
            flow_window: self.flow_window,
            waiting_bytes: outlook.waiting_bytes,
            window_bytes: self.window_bytes(),
            congestion_window: outlook.congestion_window,
            bytes_in_flight: outlook.bytes_in_flight,
            datagram_bytes: outlook.datagram_bytes,
            slow_start: outlook.slow_start,
            smoothed_rtt: self.smoothed_rtt,
            probe_timeout: self.probe_timeout,
            one_way_delay: outlook.one_way_delay.unwrap_or(self.smoothed_rtt / 2),
            loss: first.map_or_else(LossEstimate::default, |(_, monitor)| monitor.estimate()),
            deadline: self.outlook.messages.deadline,
            sent_deadline: self.outlook.messages.sent_deadline,
            next_message_at: self.outlook.messages.next_message_at,
            message_ends: self.outlook.messages.message_ends,
        }
    }

    /// What is known of messages now, for whoever is asked next.
    pub fn set_messages(&mut self, messages: MessageOutlook) {
        self.outlook.messages = messages;
    }

    /// Bytes that a coding window of the longest symbols may have.
    fn window_bytes(&self) -> u64 {
        let limits = self.source.encoder.limits();
        let symbols = self.peer_symbols.min(limits.window_symbols().into());
        let bytes = symbols.saturating_mul(self.max_symbol as u64);
        bytes.min(self.peer_bytes)
    }

    /// Asks the scheduler, and queues what it wants. Returns how many repair symbols that are, and
    /// over how many source symbols.
    pub fn ask(&mut self, occasion: Occasion, now: Instant) -> Option<(u16, u16)> {
        let occasion = match occasion {
            Occasion::BurstEnd if !std::mem::take(&mut self.in_burst) => Occasion::SlotIdle,
            occasion => occasion,
        };
        if matches!(occasion, Occasion::BurstEnd | Occasion::SlotIdle) {
            self.outlook.waiting_bytes = 0;
        }
        let most = self.room();
        if occasion == Occasion::SlotIdle {
            if most == 0 {
                return None;
            }
        } else {
            self.asked = Some(now);
        }
        let view = self.view(now);
        let wanted = self.scheduler.ask(occasion, &view);
        if occasion == Occasion::BurstEnd {
            self.burst_bytes = 0;
        }
        let count = wanted.count.min(most);
        let mut window = self
            .source
            .encoder
            .latest(wanted.window.saturating_add(wanted.behind));
        window.len = window.len.saturating_sub(wanted.behind);
        if count == 0 || window.len == 0 {
            return None;
        }
        self.covered = self.covered.max(window.end());
        self.stats.expected_saving += self.scheduler.saving();
        self.queued += count;
        self.queue.push_back((window, count));
        Some((count, window.len))
    }

    /// A probe timeout: nothing tells which packets are missing, so repair symbols over all of them
    /// are better probes than some of them repeated. Makes so many leave, and no others; false if they
    /// would not cover what is in flight on the path from packet `oldest` on.
    pub(crate) fn probe(&mut self, path: PathId, oldest: PacketNumber, count: u16) -> bool {
        let Some(run) = self.source.open_run() else {
            return false;
        };
        let first = self.source.get(run.first);
        let covers = first.is_some_and(|first| first.path == path && first.number <= oldest);
        if count == 0 || !covers || !self.can_add(run) {
            return false;
        }
        self.queue.clear();
        self.queue.push_back((run, count));
        self.queued = count;
        self.covered = self.covered.max(run.end());
        true
    }

    /// Whether the fate of some source symbol is open.
    pub fn is_open(&self) -> bool {
        self.source.span() > 0
    }

    /// How many repair symbols a scheduler may add: no more than two for each symbol whose fate is
    /// open. What it asks for again and again is bounded by that, and an idle connection falls silent.
    fn room(&self) -> u16 {
        let under_way = self.repairs.in_flight() + u64::from(self.queued);
        let room = (2 * self.source.span()).saturating_sub(under_way);
        let room = u16::try_from(room).unwrap_or(u16::MAX);
        room.min(QUEUED.saturating_sub(self.queued))
    }

    /// What is known of the path in use, before [`Self::ask`].
    pub fn look(&mut self, outlook: Outlook) {
        self.outlook = Outlook {
            waiting_bytes: self.outlook.waiting_bytes,
            ..outlook
        };
    }

    /// Nothing can be sent: the application has nothing, or flow control holds it back.
    pub fn on_idle(&mut self, held_back: bool) {
        self.held_back = held_back;
        if held_back {
            self.flow_window = Some(self.outlook.bytes_in_flight);
        }
    }

    /// Repair symbols that wait to leave.
    pub fn queued(&self) -> u16 {
        self.queued
    }

    /// Whether a repair symbol waits to leave.
    pub fn has_repairs(&self) -> bool {
        self.queued > 0
    }

    /// The repair symbol to leave next, in a packet with `payload` bytes for frames. What can do no
    /// good any more is dropped.
    pub fn next_repair(&mut self, payload: usize) -> Option<RepairPlan> {
        while let Some((window, _)) = self.queue.front().copied() {
            let plan = self
                .source
                .is_open(window)
                .then(|| self.plan(window, payload))
                .flatten();
            if plan.is_some() {
                return plan;
            }
            if let Some((_, count)) = self.queue.pop_front() {
                self.queued -= count;
            }
        }
        None
    }

    /// A repair symbol over `window`, or as much of its end as encoder, decoder and packet allow.
    fn plan(&self, window: CodingWindow, payload: usize) -> Option<RepairPlan> {
        let encoder = &self.source.encoder;
        let remembered = encoder.next_id().saturating_sub(self.peer_symbols);
        let mut first = window.first.max(encoder.window().first).max(remembered);
        // Symbols from before the path's MTU shrank may be too long.
        while first < window.end() {
            let len = u16::try_from(window.end() - first).ok()?;
            let window = CodingWindow { first, len };
            let key = self.repairs.key(window)?;
            let symbol_len = encoder.repair_len(window).ok()?;
            let header = Repair::header_len(first, len.into(), key.into(), symbol_len);
            let bytes = u64::from(len) * symbol_len as u64;
            if header + symbol_len <= payload && bytes <= self.peer_bytes {
                return Some(RepairPlan {
                    window,
                    key,
                    len: symbol_len,
                });
            }
            first += 1;
        }
        None
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
    pub fn on_repair(&mut self, plan: &RepairPlan, bytes: usize) {
        if let Some((_, count)) = self.queue.front_mut() {
            self.queued -= 1;
            *count -= 1;
            if *count == 0 {
                self.queue.pop_front();
            }
        }
        self.stats.repairs_sent += 1;
        self.stats.repair_bytes_sent += bytes as u64;
        self.repairs.on_sent(plan.window, plan.key);
    }

    // ---- Feedback ----

    /// Feedback of a path is about to be processed.
    pub fn on_path(&mut self, path: PathId, state: PathState) {
        self.smoothed_rtt = state.smoothed_rtt;
        self.probe_timeout = state.probe_timeout;
        let monitor = self.monitor(path);
        monitor.on_path(state.min_rtt, state.latest_rtt, state.congestion_window);
    }

    /// A packet was acknowledged.
    pub fn on_packet_acked(&mut self, path: PathId, number: PacketNumber) {
        self.monitor(path).on_acked(number);
    }

    /// A packet was declared lost.
    pub fn on_packet_lost(&mut self, path: PathId, number: PacketNumber) {
        self.monitor(path).on_lost(number);
    }

    /// Acknowledgements and losses of a path were told.
    pub fn on_feedback(&mut self, path: PathId) {
        self.monitor(path).review();
    }

    /// A symbol's packet was acknowledged. True if the peer had reported it before.
    pub(crate) fn on_symbol_acked(&mut self, id: u64) -> bool {
        let before = self.source.settle(id, SymbolFate::Acked);
        if before == Some(SymbolFate::Waiting) {
            self.take_waiting(id);
        }
        if before == Some(SymbolFate::InFlight)
            && let Some(entry) = self.source.get(id)
        {
            self.monitor(entry.path).on_symbol(false);
        }
        before == Some(SymbolFate::Recovered)
    }

    /// A symbol's packet was declared lost.
    pub(crate) fn on_symbol_lost(&mut self, now: Instant, id: u64) -> OnLoss {
        let Some(entry) = self.source.get(id) else {
            return OnLoss::Resend;
        };
        if entry.fate.is_settled() {
            return OnLoss::Nothing;
        }
        let patience = self.patience_for(now, id);
        if let Some(patience) = patience.filter(|_| self.waiting.len() < WAITING) {
            self.source.settle(id, SymbolFate::Waiting);
            self.stats.waited += 1;
            self.waiting.push_back(Waiting {
                id,
                path: entry.path,
                until: now + patience,
                tokens: SmallVec::new(),
            });
            return OnLoss::Wait;
        }
        self.give_up(id, entry.path);
        OnLoss::Resend
    }

    /// How long a lost symbol should wait for repair symbols: while those under way suffice for all
    /// losses among the symbols they cover. Of more losses, only as many as there are too many cost
    /// anything: so many repair symbols are added. `None`: waiting would be in vain, for the others
    /// too.
    fn patience_for(&mut self, now: Instant, id: u64) -> Option<Duration> {
        let cover = self.repairs.cover(id)?;
        let losses = self.losses(cover.span) + 1;
        let added = self.queued_over(id);
        if losses <= cover.repairs + added && (cover.in_flight > 0 || added > 0) {
            return Some(self.patience(added > 0));
        }
        if losses == cover.repairs + added + 1 && self.add(cover.span) {
            let patience = self.patience(true);
            // The others now wait for it as well.
            for waiting in &mut self.waiting {
                if cover.span.ids().contains(&waiting.id) {
                    waiting.until = waiting.until.max(now + patience);
                }
            }
            return Some(patience);
        }
        self.stop_waiting(cover.span);
        None
    }

    /// Repair symbols over symbol `id` that have not left.
    fn queued_over(&self, id: u64) -> u64 {
        let over = self.queue.iter().filter(|(run, _)| run.ids().contains(&id));
        over.map(|(_, count)| u64::from(*count)).sum()
    }

    /// Whether a further repair symbol can be had that covers a run whole, and helps.
    fn can_add(&self, run: CodingWindow) -> bool {
        let held = self.source.encoder.window();
        let remembered = self.source.next_id().saturating_sub(self.peer_symbols);
        let within = run.first >= held.first.max(remembered) && run.end() <= held.end();
        within && self.repairs.is_rateless()
    }

    /// Queues one more repair symbol over a run; false if it would not help.
    fn add(&mut self, run: CodingWindow) -> bool {
        if self.queued >= QUEUED || !self.can_add(run) {
            return false;
        }
        self.queued += 1;
        match self.queue.back_mut() {
            Some((window, count)) if *window == run => *count += 1,
            _ => self.queue.push_back((run, 1)),
        }
        true
    }

    /// No symbol of this run waits any longer.
    fn stop_waiting(&mut self, run: CodingWindow) {
        for waiting in &mut self.waiting {
            if run.ids().contains(&waiting.id) {
                waiting.until = Instant::ZERO;
            }
        }
    }

    /// How long a lost symbol waits for repair symbols at most: four times the margin that the time
    /// threshold has over a round trip (RFC 9002 s6.1.2), and a round trip for one that has to leave
    /// first.
    fn patience(&self, to_leave: bool) -> Duration {
        let margin = (self.smoothed_rtt / 2).max(Duration::from_millis(1));
        if to_leave {
            self.smoothed_rtt + margin
        } else {
            margin
        }
    }

    fn give_up(&mut self, id: u64, path: PathId) {
        self.source.settle(id, SymbolFate::Resent);
        self.stats.retransmitted += 1;
        self.monitor(path).on_symbol(true);
    }

    /// Keeps a token of the symbol that [`Self::on_symbol_lost`] lets wait.
    pub(crate) fn wait(&mut self, token: Token) {
        if let Some(newest) = self.waiting.back_mut() {
            newest.tokens.push(token);
        }
    }

    fn take_waiting(&mut self, id: u64) -> SmallVec<[Token; 2]> {
        let index = self.waiting.iter().position(|waiting| waiting.id == id);
        let waiting = index.and_then(|index| self.waiting.remove(index));
        waiting.map_or_else(SmallVec::new, |waiting| waiting.tokens)
    }

    /// When a symbol has waited long enough, or the scheduler wants to be asked.
    pub fn timer(&self) -> Option<Instant> {
        let until = self.waiting.iter().map(|waiting| waiting.until).min();
        earliest(until, self.scheduler_timer())
    }

    /// A scheduler that names a time in the past again and again must not hold the driver here.
    fn scheduler_timer(&self) -> Option<Instant> {
        let timer = self.scheduler.timer();
        timer.filter(|at| self.asked.is_none_or(|asked| *at > asked))
    }

    /// Whether the scheduler's time has come.
    pub fn wants_to_be_asked(&self, now: Instant) -> bool {
        self.scheduler_timer().is_some_and(|at| at <= now)
    }

    /// The tokens of a symbol that has waited long enough: they are lost. Call again until `None`.
    pub(crate) fn expire(&mut self, now: Instant) -> Option<SmallVec<[Token; 2]>> {
        let index = self.waiting.iter().position(|w| w.until <= now)?;
        let waiting = self.waiting.remove(index)?;
        self.give_up(waiting.id, waiting.path);
        Some(waiting.tokens)
    }

    /// The peer reports these symbols recovered. `each` gets what is newly delivered.
    ///
    /// # Errors
    /// PROTOCOL_VIOLATION for a symbol that was not sent.
    pub(crate) fn on_symbol_ack(
        &mut self,
        largest: u64,
        ranges: impl Iterator<Item = std::ops::RangeInclusive<u64>>,
        mut each: impl FnMut(u64, Delivered),
    ) -> Result<(), TransportError> {
        if largest >= self.source.next_id() {
            let error = "SYMBOL_ACK of a symbol that was not sent";
            return Err(TransportError::protocol_violation(error));
        }
        let remembered = self.source.remembered();
        for range in ranges {
            if *range.end() < remembered.start {
                break;
            }
            for id in (*range.start()).max(remembered.start)..=*range.end() {
                self.on_reported(id, &mut each);
            }
        }
        Ok(())
    }

    fn on_reported(&mut self, id: u64, each: &mut impl FnMut(u64, Delivered)) {
        let Some(entry) = self.source.get(id).filter(|entry| !entry.fate.is_settled()) else {
            return;
        };
        self.source.settle(id, SymbolFate::Recovered);
        self.stats.reported_recovered += 1;
        if entry.fate != SymbolFate::Resent {
            self.monitor(entry.path).on_symbol(false);
        }
        let delivered = match entry.fate {
            SymbolFate::Waiting => Delivered::Tokens(self.take_waiting(id)),
            _ => Delivered::InPacket(entry.path, entry.number),
        };
        each(id, delivered);
    }

    /// A repair symbol was acknowledged, or lost.
    pub(crate) fn on_repair_settled(&mut self, number: u64, arrived: bool) {
        let window = self.repairs.on_settled(number, arrived);
        if let Some(window) = window.filter(|_| !arrived && !self.waiting.is_empty()) {
            // It was counted on: what waits for it and has no other waits in vain.
            let in_vain = self
                .waiting
                .iter()
                .any(|waiting| window.ids().contains(&waiting.id) && !self.suffices(waiting.id));
            if in_vain {
                self.stop_waiting(window);
            }
        }
    }

    /// Whether as many repair symbols cover symbol `id` as losses.
    fn suffices(&self, id: u64) -> bool {
        let cover = self.repairs.cover(id);
        cover.is_some_and(|cover| self.losses(cover.span) <= cover.repairs + self.queued_over(id))
    }

    /// Source symbols of a run that the peer lacks, as far as known.
    fn losses(&self, run: CodingWindow) -> u64 {
        self.source.count(run, SymbolFate::Waiting) + self.source.count(run, SymbolFate::Resent)
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
        if symbols == 0 {
            return Err(TransportError::protocol_violation(
                "FEC_WINDOW of no symbols",
            ));
        }
        if self.peer_epoch.is_none_or(|newest| epoch > newest) {
            self.peer_epoch = Some(epoch);
            self.peer_symbols = symbols;
            self.peer_bytes = bytes;
        }
        Ok(())
    }
}
