//! Erasure correction in the hall: negotiation, frames, recovered symbols, repair packets.
//!
//! Owns: what connects [`FecSender`] and [`FecReceiver`] with packets, paths and timers.
//! Does not own: when and what to repair, decoding (`fec/`), where protected frames stand in a
//! packet (`tx.rs`).

use bytes::Bytes;

use super::{
    Connection,
    datagram_builder::{DatagramBuilder, SealContext},
    fates::frame_fates,
    fec_memory::Shared,
    permit::Permit,
    rx::{FrameSummary, Received, packet_type_of},
    tx::MAX_BATCH_BYTES,
};
use crate::{
    endpoint::Transmit,
    error::TransportError,
    fec::{
        Departure, FecReceiver, FecSender, FecStats, Hold, LossEstimate, Occasion, Outlook,
        SentData, check_window, negotiate, symbol_not_sent,
    },
    observe,
    packet::{PacketFlags, PacketWriter, Token},
    path::Path,
    recovery::LossHandler as _,
    space::SpaceKind,
    time::{Instant, earliest},
    tls::Level,
    units::{Ecn, PathId},
    wire::{Frame, FrameClass, NumberRanges, Reader, Repair, SourceSymbol, TransportParameters},
};

/// Both directions of erasure correction; empty unless negotiated.
#[derive(Debug, Default)]
pub(crate) struct Fec {
    pub(crate) sender: Option<Box<FecSender>>,
    pub(crate) receiver: Option<Box<FecReceiver>>,
    /// Whether a code was agreed on for what we send: the peer may send feedback, even if `sender` is
    /// `None` since its symbols are too short.
    agreed: bool,
    /// What other connections know and learn.
    pub(super) shared: Shared,
    /// What they counted, once they are gone.
    past: FecStats,
    /// Packets that are not acknowledged yet; laboratories alone.
    pub(super) hold: Option<Box<Hold<Held>>>,
    /// The source symbol of the packet under way, where packets are held.
    pub(super) source: Option<u64>,
    /// What leaves is a copy of what is protected or repaired elsewhere.
    pub(super) copying: bool,
}

/// A received packet that is held.
pub(super) type Held = (Received, FrameSummary, bool);

impl Fec {
    /// A path is gone, or leads over another network: [`FecSender::forget_path`].
    pub(crate) fn forget_path(&mut self, id: PathId) {
        if let Some(sender) = &mut self.sender {
            sender.forget_path(id);
        }
    }

    /// Whether a SYMBOL_ACK must leave now.
    pub(crate) fn ack_due(&self) -> bool {
        let receiver = self.receiver.as_ref();
        receiver.is_some_and(|receiver| receiver.ack_due())
    }

    /// Whether a FEC_WINDOW waits to leave.
    pub(crate) fn owes_window(&self) -> bool {
        let receiver = self.receiver.as_ref();
        receiver.is_some_and(|receiver| receiver.owes_window())
    }

    /// Whether repair symbols wait to leave.
    pub(crate) fn has_repairs(&self) -> bool {
        let sender = self.sender.as_ref();
        sender.is_some_and(|sender| sender.has_repairs())
    }

    /// Whether packets may be held.
    #[inline]
    pub(crate) fn holds(&self) -> bool {
        self.hold.is_some()
    }

    /// When a lost symbol has waited long enough for repair symbols.
    pub(crate) fn timer(&self) -> Option<Instant> {
        let held = self.hold.as_ref().and_then(|hold| hold.timer());
        let sender = self.sender.as_ref();
        earliest(sender.and_then(|sender| sender.timer()), held)
    }

    /// The connection is over: nothing is repaired any more.
    pub(crate) fn release(&mut self) {
        *self = Self {
            past: self.stats(),
            ..Self::default()
        };
    }

    fn stats(&self) -> FecStats {
        let sent = self.sender.as_ref().map(|sender| sender.stats());
        let received = self.receiver.as_ref().map(|receiver| receiver.stats());
        let zero = FecStats::default();
        self.past
            .plus(&sent.unwrap_or(zero))
            .plus(&received.unwrap_or(zero))
    }
}

fn not_negotiated() -> TransportError {
    // As a frame of a type that nobody knows. RFC 9000 s12.4.
    TransportError::frame_encoding("erasure correction was not negotiated")
}

impl Connection {
    /// What erasure correction has done so far.
    pub fn fec_stats(&self) -> FecStats {
        self.fec.stats()
    }

    /// Whether packets we send may be protected: the peer decodes, and we encode.
    pub fn is_fec_sender(&self) -> bool {
        self.fec.sender.is_some()
    }

    /// Whether packets of the peer may be protected.
    pub fn is_fec_receiver(&self) -> bool {
        self.fec.receiver.is_some()
    }

    /// Tells the peer to cover no more than the latest `symbols` packets by a repair symbol, at least
    /// 1 and at most what the handshake offered: for who has to save work for a while. What the handshake
    /// offered may still be under way, so the memory for it stays.
    /// Without effect where erasure correction was not negotiated.
    pub fn set_fec_window(&mut self, symbols: u16) {
        if let Some(receiver) = &mut self.fec.receiver {
            receiver.set_window(symbols);
        }
    }

    /// How packets that we send get lost on a path, as far as erasure correction follows it: shares from 0 to 1, and
    /// [`LossEstimate::packets`] 0 where nothing was heard of the path yet. `None` unless [`Self::is_fec_sender`].
    pub fn loss_estimate(&self, path: PathId) -> Option<LossEstimate> {
        let sender = self.fec.sender.as_ref()?;
        Some(sender.loss(path))
    }

    /// The same for the connection as a whole, as the redundancy scheduler sees it: over several paths (RFC 10069)
    /// as if all went over one, each counting by the protected packets in flight on it; paths too slow to be
    /// protected together with the others are left out. Of one path, what [`Self::loss_estimate`] says.
    pub fn connection_loss_estimate(&self) -> Option<LossEstimate> {
        let sender = self.fec.sender.as_ref()?;
        Some(sender.joint_loss())
    }

    /// The peer's transport parameters are known.
    pub(crate) fn negotiate_fec(
        &mut self,
        peer: &TransportParameters,
        now: Instant,
    ) -> Result<(), TransportError> {
        let config = &self.config.fec;
        let ours = config.decoder_parameter();
        if let (Some(limits), Some(scheme)) = (
            config.decoder_limits(),
            negotiate(ours.as_ref(), &peer.fec_encoder)?,
        ) {
            self.fec.receiver = Some(Box::new(FecReceiver::new(limits, scheme)));
            self.fec.hold = config.lab.hold.map(|time| Box::new(Hold::new(time)));
        }
        let encoder = config.encoder_parameter();
        // What the peer says is checked even where we protect nothing.
        if let Some(decoder) = &peer.fec_decoder
            && let Some(scheme) = negotiate(Some(decoder), &encoder)?
        {
            self.fec.agreed = true;
            self.fec.sender = FecSender::new(config, decoder, scheme).map(Box::new);
            self.recall_losses(now);
        }
        Ok(())
    }

    // ---- Frames received ----

    /// A SOURCE_SYMBOL header; `symbol` is the rest of its packet. Whether its frames were taken already.
    pub(crate) fn on_source_symbol(
        &mut self,
        header: SourceSymbol,
        symbol: &[u8],
    ) -> Result<bool, TransportError> {
        let receiver = self.fec.receiver.as_mut().ok_or_else(not_negotiated)?;
        if self.fec.hold.is_some() {
            self.fec.source = Some(receiver.id_of(header));
        }
        receiver.on_source(header, symbol)
    }

    pub(crate) fn on_repair(&mut self, repair: &Repair<'_>) -> Result<(), TransportError> {
        let receiver = self.fec.receiver.as_mut().ok_or_else(not_negotiated)?;
        if let Some(hold) = &mut self.fec.hold {
            hold.on_repair(repair.first, repair.count);
        }
        receiver.on_repair(repair)
    }

    pub(crate) fn on_fec_window(
        &mut self,
        epoch: u64,
        symbols: u64,
        bytes: u64,
    ) -> Result<(), TransportError> {
        match &mut self.fec.sender {
            Some(sender) => sender.on_window(epoch, symbols, bytes),
            None if self.fec.agreed => check_window(symbols),
            None => Err(not_negotiated()),
        }
    }

    /// What the peer has recovered is delivered, and will not be sent again.
    pub(crate) fn on_symbol_ack(
        &mut self,
        now: Instant,
        ack: &NumberRanges<'_>,
    ) -> Result<(), TransportError> {
        let Some(sender) = &mut self.fec.sender else {
            return Err(if self.fec.agreed {
                symbol_not_sent()
            } else {
                not_negotiated()
            });
        };
        let mut tokens = std::mem::take(&mut self.scratch.tokens);
        let mask = self.config.fec.lab.mask;
        let mut masked = Vec::new();
        let paths = &self.paths;
        let done = sender.on_symbol_ack(ack.largest, ack.iter(), |id, delivered| {
            use crate::fec::Delivered;
            match delivered {
                Delivered::Tokens(waited) => tokens.extend(waited),
                Delivered::InPacket(path, number) => {
                    if let Some(path) = paths.get(path) {
                        let of_packet = path.space.sent.live_tokens(number);
                        let behind = of_packet
                            .skip_while(|token| *token != Token::Symbol { id })
                            .skip(1);
                        tokens.extend(behind);
                    }
                    if mask {
                        masked.push((path, number));
                    }
                }
            }
        });
        self.route_tokens(now, &mut tokens, true);
        self.scratch.tokens = tokens;
        for (path, number) in masked {
            self.mask_loss(now, path, number);
        }
        done
    }

    /// Tells the rooms that what these tokens stand for was delivered, or is lost.
    fn route_tokens(&mut self, now: Instant, tokens: &mut Vec<Token>, delivered: bool) {
        if delivered && self.messages.in_use() {
            for token in tokens.iter() {
                if let Token::Stream { id, .. } = token {
                    self.messages.on_recovered(*id);
                }
            }
        }
        if let Some(path) = self.paths.iter_mut().next() {
            let mut fates = frame_fates!(self, path, now);
            // Newest first, as acknowledgements come.
            for token in tokens.drain(..).rev() {
                if delivered {
                    fates.token_acked(SpaceKind::Data, token);
                } else {
                    fates.token_lost(SpaceKind::Data, token);
                }
            }
            fates.settle_acked();
        }
        self.apply_deferred(SpaceKind::Data, None);
    }

    /// Symbols that a packet made it possible to rebuild do what they would have done.
    #[inline]
    pub(crate) fn dispatch_recovered(&mut self, received: &Received) -> Result<(), TransportError> {
        let receiver = self.fec.receiver.as_mut();
        if receiver.is_some_and(|receiver| receiver.on_packet_end()) {
            self.dispatch_each_recovered(received)
        } else {
            Ok(())
        }
    }

    fn dispatch_each_recovered(&mut self, received: &Received) -> Result<(), TransportError> {
        loop {
            let Some(receiver) = self.fec.receiver.as_mut() else {
                return Ok(());
            };
            let Some((id, symbol)) = receiver.next_recovered() else {
                return Ok(());
            };
            let symbol = Bytes::copy_from_slice(symbol);
            if !is_recoverable(&symbol) {
                receiver.on_nonsense();
                continue;
            }
            receiver.on_recovered(id);
            if let Some(hold) = &mut self.fec.hold {
                hold.on_recovered(id);
            }
            self.observer
                .emit(received.now, || observe::Event::SymbolRecovered {
                    id,
                    bytes: symbol.len(),
                });
            let mut reader = Reader::new(&symbol);
            while !reader.is_empty() && !self.is_closed() {
                let Ok(frame) = Frame::decode(&mut reader) else {
                    break;
                };
                let frame_type = frame.frame_type();
                self.dispatch(received, &symbol, frame)
                    .map_err(|error| super::rx::blame(error, frame_type))?;
            }
        }
    }

    // ---- Time ----

    /// Lost symbols that no repair symbol came to help go out again.
    pub(crate) fn on_fec_timeout(&mut self, now: Instant) {
        self.release_held(now);
        let mut tokens = Vec::new();
        let messages = &self.messages;
        let useless = |token: &Token| match token {
            Token::Stream { id, .. } => messages.is_overdue(now, *id),
            Token::Ack { .. } => true,
            _ => false,
        };
        while let Some(sender) = &mut self.fec.sender
            && let Some(expired) = sender.expire(now, useless)
        {
            tokens.extend(expired);
        }
        if !tokens.is_empty() {
            self.route_tokens(now, &mut tokens, false);
        }
        let sender = self.fec.sender.as_ref();
        if sender.is_some_and(|sender| sender.wants_to_be_asked(now)) {
            self.ask_for_redundancy(now, Occasion::Timer);
        }
    }

    /// An ack-eliciting packet of so many bytes left without a repair symbol, with a source symbol or not.
    pub(super) fn note_departure(
        &mut self,
        packet: Departure,
        bytes: usize,
        flags: PacketFlags,
        is_source: bool,
    ) {
        let Some(sender) = &mut self.fec.sender else {
            return;
        };
        let data = match (flags.has_data, flags.repeats) {
            (_, true) => SentData::Again,
            (true, false) => SentData::New,
            (false, false) => SentData::None,
        };
        sender.on_packet_sent(packet, bytes, data);
        if flags.ends_stream {
            sender.on_stream_end();
        }
        if is_source {
            self.ask_for_redundancy(packet.at, Occasion::SlotFree);
        }
    }

    /// Asks the redundancy scheduler, unless there is nothing to ask about: of most packets and acknowledgements.
    #[inline]
    pub(crate) fn ask_for_redundancy(&mut self, now: Instant, occasion: Occasion) {
        let Some(sender) = &mut self.fec.sender else {
            return;
        };
        let nothing_to_ask = match occasion {
            Occasion::Feedback => !self.messages.in_use() && !sender.heeds_feedback(now),
            Occasion::BurstEnd => sender.on_pause(),
            _ => false,
        };
        if !nothing_to_ask {
            self.ask_scheduler(now, occasion);
        }
    }

    fn ask_scheduler(&mut self, now: Instant, occasion: Occasion) {
        let messages = self.message_outlook(now);
        if matches!(occasion, Occasion::Feedback | Occasion::Timer) {
            self.show_paths_to_fec(now);
        }
        let Some(sender) = &mut self.fec.sender else {
            return;
        };
        if let Some(path) = self.paths.iter().next() {
            sender.look(Outlook {
                more_waits: self.streams.has_data(),
                ..outlook(path, self.multipath.is_some())
            });
            if occasion == Occasion::BurstEnd && sender.is_open() {
                sender.on_idle(self.streams.is_held_back());
            }
        }
        sender.set_messages(messages);
        let Some((count, window)) = sender.ask(occasion, now) else {
            return;
        };
        let name = sender.name();
        self.observer.emit(now, || observe::Event::PolicyDecision {
            policy: "redundancy",
            name,
            path: None,
            decision: "repair",
            values: [Some(f64::from(count)), Some(f64::from(window))],
        });
    }

    // ---- Packets sent ----

    /// Repair symbols, as many of equal length as congestion control, pacer and one batch take.
    pub(super) fn transmit_repairs(
        &mut self,
        now: Instant,
        id: PathId,
        buf: &mut [u8],
        ecn: Ecn,
        max_segments: usize,
    ) -> Option<Transmit> {
        let path = self.paths.get(id)?;
        let outside = self.config.fec.lab.repair_outside_cwnd;
        // Probes have a right to pass the window; repair symbols have not, unless they are the probes.
        let probing = path.pending.probes > 0;
        if probing && !path.pending.coded_probes {
            return None;
        }
        let four_tuple = path.network.four_tuple();
        let mtu = usize::from(path.mtu.datagram_size());
        let quantum = usize::try_from(path.recovery.send_quantum(now)).unwrap_or(usize::MAX);
        let batch = quantum.max(mtu).min(MAX_BATCH_BYTES);
        let (mut len, mut segment) = (0, 0);
        for _ in 0..max_segments {
            if len + segment > batch
                || !outside && self.permit(now, id, mtu, len > 0) != Permit::Full
            {
                break;
            }
            let owed = self.paths.get(id).map_or(0, |path| path.pending.probes);
            if probing && owed == 0 {
                break;
            }
            // The next one may be for packets of another path, with larger datagrams.
            if len > 0 && self.paths.len() > 1 && !self.has_room_for_repair(id) {
                break;
            }
            let limit = if len == 0 { mtu } else { segment };
            let room = buf.get_mut(len..).unwrap_or_default();
            let Some(written) = self.build_repair(now, id, room, limit, ecn) else {
                break;
            };
            len += written;
            if segment == 0 {
                segment = written;
            }
            if written < segment || !self.fec.has_repairs() {
                break;
            }
        }
        (len > 0).then_some(Transmit {
            four_tuple,
            ecn,
            len,
            segment_size: (len > segment).then_some(segment),
        })
    }

    /// A packet with a repair symbol, alone in its datagram, of at most `limit` bytes. Returns how
    /// many it has. The caller asked congestion control.
    fn build_repair(
        &mut self,
        now: Instant,
        id: PathId,
        buf: &mut [u8],
        limit: usize,
        ecn: Ecn,
    ) -> Option<usize> {
        let sender = self.fec.sender.as_mut()?;
        let path = self.paths.get_mut(id)?;
        let budget = usize::try_from(path.network.amplification.budget()).unwrap_or(usize::MAX);
        let mtu = usize::from(path.mtu.datagram_size());
        let size = mtu.min(budget).min(buf.len());
        let padding = self.config.fec.padding;
        if padding && size.min(limit) < mtu {
            // It would be told by its size. A probe does not need a symbol to be one.
            path.pending.coded_probes = false;
            return None;
        }
        let dcid = path.remote_cids.active().cid;
        let keys = self.keys.one_rtt.as_mut()?;
        let mut builder = DatagramBuilder::new(buf.get_mut(..size)?);
        let grease = self.config.grease && self.peer.grease_quic_bit;
        builder.fixed_bit = !(grease && self.rng.below(2) == 0);
        let mut open = builder.open_short(id, dcid, path.spin.value(), keys, &path.space)?;
        let number = open.number();
        let mut writer = PacketWriter::new(
            builder.payload(&open)?,
            packet_type_of(Level::OneRtt),
            &mut self.scratch.tokens,
            &mut self.stats.frames_sent,
            &mut self.observer,
            now,
        );
        // Of the length that a whole datagram allows, or none now.
        let payload = writer.remaining();
        writer.limit(payload.saturating_sub(size.saturating_sub(limit)));
        let plan = sender.next_repair(payload);
        let written = plan.is_some_and(|plan| {
            let count = sender.repairs_sent();
            writer.push_repair(plan.fields(), plan.symbol_len(), count, |out| {
                sender.write_repair(&plan, out)
            })
        });
        if written && padding {
            writer.pad(writer.remaining());
        }
        let Some(plan) = plan.filter(|_| written) else {
            // A probe does not need a symbol to be one.
            path.pending.coded_probes = false;
            builder.abort(open);
            self.scratch.tokens.clear();
            return None;
        };
        if path.pending.probes > 0 {
            path.pending.probes -= 1;
            // There may be no room for one, and what is recovered is reported at once.
            path.pending.immediate_ack = false;
            open.probe = true;
        }
        open.filler = !open.probe && !self.streams.has_data() && !self.datagrams.has_frames();
        open.finish(&writer);
        if self.peer.min_ack_delay_us.is_some() && path.ack_frequency.asks_as_usual() {
            // docs/spec/fec.md s5.4.
            open.set_asks();
        }
        if self.config.fec.lab.repair_outside_cwnd && !open.probe {
            open.leave_window();
        }
        let mut tokens = std::mem::take(&mut self.scratch.tokens);
        let sealed = builder.seal_short(
            open,
            keys,
            &mut path.space,
            &mut path.recovery,
            &mut tokens,
            SealContext {
                now,
                rng: &mut self.rng,
                ecn,
            },
            &mut self.observer,
        );
        tokens.clear();
        self.scratch.tokens = tokens;
        let len = builder.len();
        let departure = Departure {
            path: id,
            number,
            at: now,
        };
        sender.on_repair(&plan, len, departure);
        path.network.amplification.on_sent(len);
        self.stats.packets_sent += 1;
        if let Err(error) = sealed {
            self.close_with(now, error);
            return None;
        }
        self.restart_idle_on_send(now, id);
        Some(len)
    }
}

/// What a path can say of packets to come. `several`: the connection may have more of them.
pub(super) fn outlook(path: &Path, several: bool) -> Outlook {
    Outlook {
        path: path.id,
        several,
        congestion_window: path.recovery.window(),
        bytes_in_flight: path.recovery.bytes_in_flight(),
        datagram_bytes: path.mtu.datagram_size().into(),
        slow_start: path.recovery.is_slow_start(),
        one_way_delay: path.recovery.one_way_delay().smoothed(),
        ..Outlook::default()
    }
}

/// Whether a recovered symbol is a run of frames that may be recovered. Anything else is not from
/// a peer that follows docs/spec/fec.md, and none of it is heeded.
fn is_recoverable(symbol: &[u8]) -> bool {
    let mut reader = Reader::new(symbol);
    while !reader.is_empty() {
        match Frame::decode(&mut reader) {
            Ok(frame) if may_stand_in_symbol(&frame) => {}
            _ => return false,
        }
    }
    !symbol.is_empty()
}

/// Whether a frame may stand behind a SOURCE_SYMBOL header.
pub(crate) fn may_stand_in_symbol(frame: &Frame<'_>) -> bool {
    frame.row().class == FrameClass::DataRelated || matches!(frame, Frame::Padding { .. })
}
