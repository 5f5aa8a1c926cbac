//! The pump: which datagram leaves next, and what it carries.
//!
//! Owns: the order of paths, levels and frames.
//! Does not own: when sending is allowed (`permit.rs`), whether there is anything to say (`wants.rs`), which of several
//! paths carries data (`multipath_tx.rs`), frames of paths (`path_frames.rs`), header and AEAD bytes
//! (`datagram_builder.rs`), the frames (each room's own), the last words (`close.rs`).

use super::{
    Connection,
    datagram_builder::{DatagramBuilder, OpenPacket, SealContext},
    fec::outlook,
    lifecycle::State,
    messages::one_way_delay,
    multipath_tx::Load,
    path_frames::{
        AckWriting, write_introductions, write_other_acks, write_path_frames, write_probe,
        write_validation,
    },
    permit::Permit,
    protect::Protector,
    rx::packet_type_of,
};
use crate::{
    endpoint::Transmit,
    fec::{Departure, Occasion, Outlook},
    observe,
    packet::PacketWriter,
    path::{Contents, MIN_DATAGRAM, NetworkPath},
    space::PacketNumberSpace,
    time::Instant,
    tls::Level,
    units::{Ecn, PathId},
    wire::Frame,
};

/// Datagrams with Initial packets, and those that validate a path, are at least this long.
/// RFC 9000 s14.1, s8.2.1.
pub(crate) const MIN_INITIAL_DATAGRAM: usize = crate::path::FULL_DATAGRAM;
/// A packet that cannot hold this much beyond its header is not started.
pub(super) const MIN_PACKET_ROOM: usize = 64;
/// What waits is counted as far as so many congestion windows: [`Outlook::waiting_bytes`].
const MOST_WINDOWS: u64 = 4;
/// Segmentation offload takes no more than this in one call.
pub(super) const MAX_BATCH_BYTES: usize = 65_000;

impl Connection {
    /// Fills the start of `buf` with one or more datagrams for one network path.
    ///
    /// `buf` should hold at least 1,500 bytes, better 65,535. Up to `max_segments` datagrams of
    /// equal size (the last may be shorter) are produced for segmentation offload. Returns
    /// `None` when nothing can be sent now; call again after input, a timeout, or an API call. Asked
    /// again before that it says `None` again, and what leaves later does not depend on it.
    pub fn poll_transmit(
        &mut self,
        now: Instant,
        buf: &mut [u8],
        max_segments: usize,
    ) -> Option<Transmit> {
        let transmit = match &self.life.state {
            State::Drained | State::Draining { .. } => None,
            State::Closing(_) => self.transmit_close(now, buf),
            State::Handshake | State::Established => self.transmit(now, buf, max_segments.max(1)),
        };
        let Some(transmit) = transmit else {
            // The pump rests: what it set and changed can be told.
            self.emit_changes(now);
            return None;
        };
        let (bytes, ecn) = (transmit.len, transmit.ecn);
        let count = transmit
            .segment_size
            .map_or(1, |size| bytes.div_ceil(size.max(1)));
        self.stats.bytes_sent += bytes as u64;
        self.stats.datagrams_sent += count as u64;
        self.observer
            .emit(now, || observe::Event::DatagramsSent { count, bytes, ecn });
        Some(transmit)
    }

    fn transmit(&mut self, now: Instant, buf: &mut [u8], max_segments: usize) -> Option<Transmit> {
        if self.streams.has_notices() {
            // Of what the application called since the last input.
            self.catch_up_with_messages(now);
        }
        self.review_costs(now);
        self.send_grants_evenly(now);
        self.review_pins();
        if self.datagrams.has_frames() {
            let room = self.datagram_room();
            self.datagrams.drop_oversized(room);
        }
        if self.has_choice_of_paths() {
            return self.transmit_over_paths(now, buf, max_segments);
        }
        for index in 0..self.paths.len() {
            let Some(id) = self.paths.id_at(index) else {
                continue;
            };
            if let Some(transmit) = self.transmit_off_path(now, id, buf) {
                return Some(transmit);
            }
            if let Some(transmit) = self.transmit_on_path(now, id, buf, max_segments, Load::ANY) {
                return Some(transmit);
            }
        }
        None
    }

    /// Challenges and answers for addresses that carry no data (yet, or any more).
    pub(super) fn transmit_off_path(
        &mut self,
        now: Instant,
        id: PathId,
        buf: &mut [u8],
    ) -> Option<Transmit> {
        let keys = self.keys.one_rtt.as_mut()?;
        let path = self.paths.get_mut(id)?;
        if path.cap_room() < MIN_INITIAL_DATAGRAM as u64 {
            return None;
        }
        // Challenges leave rarely and when we choose. Answers leave when the peer chooses, and so
        // wait for the window as everything does.
        let may_answer =
            !path.space.is_full() && path.recovery.can_send_off_path(MIN_INITIAL_DATAGRAM as u64);
        let ready = |network: &NetworkPath| {
            (network.challenge_due(now) || may_answer && network.next_response().is_some())
                && network.amplification.budget() >= MIN_DATAGRAM
        };
        // Who moves, or lets move, must not be linkable by the connection ID. RFC 9000 s9.5.
        let (network, dcid) = match (&mut path.previous, &mut path.probe) {
            (Some(previous), _) if ready(previous) && path.remote_cids.previous().is_some() => {
                (previous, path.remote_cids.previous()?.cid)
            }
            (_, Some(probe)) if ready(probe) => (probe, path.remote_cids.probe()?.cid),
            _ => return None,
        };
        let four_tuple = network.four_tuple();
        let budget = usize::try_from(network.amplification.budget()).unwrap_or(usize::MAX);
        let size = buf.len().min(MIN_INITIAL_DATAGRAM).min(budget);
        let mut builder = DatagramBuilder::new(buf.get_mut(..size)?);
        let mut open = builder.open_short(id, dcid, path.spin.value(), keys, &path.space)?;
        let mut writer = PacketWriter::new(
            builder.payload(&open)?,
            packet_type_of(Level::OneRtt),
            &mut self.scratch.tokens,
            &mut self.stats.frames_sent,
            &mut self.observer,
            now,
        );
        if network.challenge_due(now)
            && let Some(data) = network.next_challenge(now, size, &mut self.rng)
        {
            writer.push(&Frame::PathChallenge(data));
        }
        if may_answer
            && let Some(data) = network.next_response()
            && writer.push(&Frame::PathResponse(data))
        {
            network.response_sent();
        }
        writer.pad(writer.remaining());
        open.finish(&writer);
        open.off_path = true;
        let sealed = builder.seal_short(
            open,
            keys,
            &mut path.space,
            &mut path.recovery,
            &mut self.scratch.tokens,
            SealContext {
                now,
                rng: &mut self.rng,
                ecn: Ecn::NotEct,
            },
            &mut self.observer,
        );
        let len = builder.len();
        network.amplification.on_sent(len);
        self.stats.packets_sent += 1;
        if let Err(error) = sealed {
            self.close_with(now, error);
            return None;
        }
        Some(Transmit {
            four_tuple,
            ecn: Ecn::NotEct,
            len,
            segment_size: None,
        })
    }

    /// Packets for the path's current address, as many as one segmentation batch takes.
    pub(super) fn transmit_on_path(
        &mut self,
        now: Instant,
        id: PathId,
        buf: &mut [u8],
        max_segments: usize,
        load: Load,
    ) -> Option<Transmit> {
        let path = self.paths.get_mut(id)?;
        path.pacing_until = None;
        if path.unnamed_until.is_some() || path.is_spent() {
            return None;
        }
        let mut mtu = usize::from(path.mtu.datagram_size());
        if path.pending.probes > 0 && path.recovery.pto_count() > 1 {
            // Silence may mean that the path has shrunk: probes of a size that every path takes
            // bring the ACK that tells. RFC 8899 s4.3
            mtu = mtu.min(MIN_INITIAL_DATAGRAM);
        }
        let four_tuple = path.network.four_tuple();
        let ecn = if self.config.ecn {
            path.recovery.ecn_mark()
        } else {
            Ecn::NotEct
        };
        if let Some(probe) = self.transmit_mtu_probe(now, id, buf, ecn) {
            return Some(probe);
        }
        if let Some(probe) = self.transmit_early_mtu_probe(now, id, buf, ecn, false) {
            return Some(probe);
        }
        if load.takes_any()
            && self.fec.has_repairs()
            && !self.has_choice_of_paths()
            && let Some(repair) = self.transmit_repairs(now, id, buf, ecn, max_segments)
        {
            return Some(repair);
        }
        let path = self.paths.get_mut(id)?;
        let quantum = path.recovery.send_quantum(now).min(load.limit());
        let quantum = usize::try_from(quantum).unwrap_or(usize::MAX);
        let batch = quantum
            .max(mtu)
            .min(max_segments.saturating_mul(mtu))
            .min(MAX_BATCH_BYTES);
        let mut len = 0;
        let mut segment = 0;
        let mut idle = false;
        while len == 0 || len + segment <= batch {
            let size = self.datagram_size(now, id).min(mtu);
            let permit = self.permit(now, id, size, len > 0);
            if permit == Permit::Blocked || (permit != Permit::Full && len > 0) {
                break;
            }
            let limit = if len == 0 { size } else { size.min(segment) };
            let Some(room) = buf.get_mut(len..) else {
                break;
            };
            let available = room.len().min(limit);
            let Some(room) = room.get_mut(..available) else {
                break;
            };
            self.batch.leads = len == 0;
            let built = self.build_datagram(now, id, room, permit, ecn, load);
            let (written, only_one_rtt) = match built {
                Some(built) => built,
                None => {
                    idle = permit == Permit::Full;
                    break;
                }
            };
            if let Some(path) = self.paths.get_mut(id) {
                path.network.amplification.on_sent(written);
            }
            len += written;
            if segment == 0 {
                segment = written;
            }
            if written < segment || !only_one_rtt || permit != Permit::Full {
                break;
            }
            if self.fec.has_repairs() {
                // They go before more data, in datagrams of another size.
                break;
            }
            if self.config.fec.padding && self.fec.sender.is_some() && segment < mtu {
                // What is protected takes a datagram of full size.
                break;
            }
        }
        if len == 0 {
            // It was not due before the permit gave up the early one.
            if let Some(probe) = self.transmit_mtu_probe(now, id, buf, ecn) {
                return Some(probe);
            }
            if idle && let Some(probe) = self.transmit_early_mtu_probe(now, id, buf, ecn, true) {
                return Some(probe);
            }
            let dry = idle && load == Load::ANY;
            if !dry || self.fec.sender.is_none() {
                return None;
            }
            self.ask_for_redundancy(now, Occasion::BurstEnd);
            if !self.fec.has_repairs() {
                // A packet that is begun in vain has drawn its random bits: what leaves later
                // must not depend on how often the pump was asked.
                return None;
            }
            return self.transmit_repairs(now, id, buf, ecn, max_segments);
        }
        let segment_size = (len > segment).then_some(segment);
        Some(Transmit {
            four_tuple,
            ecn,
            len,
            segment_size,
        })
    }

    /// Builds one datagram into `room`. Returns its length and whether it holds 1-RTT packets only.
    fn build_datagram(
        &mut self,
        now: Instant,
        id: PathId,
        room: &mut [u8],
        permit: Permit,
        ecn: Ecn,
        load: Load,
    ) -> Option<(usize, bool)> {
        let budget = self.paths.get(id)?.network.amplification.budget();
        let size = room
            .len()
            .min(usize::try_from(budget).unwrap_or(usize::MAX));
        let room = room.get_mut(..size)?;
        let mut builder = DatagramBuilder::new(room);
        let mut open: Option<OpenPacket> = None;
        let mut must_pad = false;
        let mut one_rtt_only = true;
        let mut sealed_any = false;
        for level in [
            Level::Initial,
            Level::Handshake,
            Level::ZeroRtt,
            Level::OneRtt,
        ] {
            if level != Level::OneRtt && id != PathId::ZERO
                || !self.wants(now, id, level, permit, load)
            {
                continue;
            }
            let reserve = open.as_ref().map_or(0, OpenPacket::sealed_len);
            if builder.remaining() < reserve + MIN_PACKET_ROOM && open.is_some() {
                break;
            }
            if level == Level::Initial && size < MIN_INITIAL_DATAGRAM {
                // An Initial that must be padded does not fit the amplification budget.
                continue;
            }
            if let Some(previous) = open.take() {
                self.seal(now, id, &mut builder, previous, ecn);
                sealed_any = true;
            }
            let Some(packet) = self.fill(now, id, &mut builder, level, permit, load) else {
                continue;
            };
            must_pad |=
                level == Level::Initial && (self.side.is_client() || packet.flags().ack_eliciting);
            must_pad |= packet.validates_path;
            one_rtt_only &= level == Level::OneRtt;
            open = Some(packet);
        }
        match open {
            Some(mut packet) => {
                if must_pad {
                    builder.pad_to(&mut packet, MIN_INITIAL_DATAGRAM.min(size));
                }
                self.seal(now, id, &mut builder, packet, ecn);
            }
            None if !sealed_any => {
                if permit == Permit::Full
                    && load == Load::ANY
                    && let Some(path) = self.paths.get_mut(id)
                {
                    path.recovery.set_app_limited(now);
                }
                return None;
            }
            None => {}
        }
        if self.is_closed() {
            return None;
        }
        Some((builder.len(), one_rtt_only))
    }

    /// Opens a packet at `level` behind what the builder holds and lets the rooms write into it.
    fn fill(
        &mut self,
        now: Instant,
        id: PathId,
        builder: &mut DatagramBuilder<'_>,
        level: Level,
        permit: Permit,
        load: Load,
    ) -> Option<OpenPacket> {
        let scid = self.handshake.local_cid;
        let version = match level {
            // Early data belongs to the session's version, whatever the server has chosen since.
            // RFC 9369 s4.1.
            Level::ZeroRtt => self.handshake.first_version,
            _ => self.handshake.version,
        };
        let datagram_size = builder.len() + builder.remaining();
        let builder_is_empty = builder.len() == 0;
        let asks_at_the_end =
            level == Level::OneRtt && self.asks_at_the_end(now, id, datagram_size);
        let leads = self.batch.leads;
        if leads {
            self.batch.ack_way = self.ack_way();
        }
        let way = self.batch.ack_way;
        let several = self.multipath.as_ref().filter(|_| !self.is_handshaking());
        let multipath = several.is_some();
        let echoes = several.is_some_and(|multipath| multipath.echoes);
        let path = self.paths.get_mut(id)?;
        let dcid = path.remote_cids.active().cid;
        let grease_fixed = self.config.grease && self.peer.grease_quic_bit;
        let mut open = match level {
            Level::OneRtt => {
                let keys = self.keys.one_rtt.as_mut()?;
                builder.fixed_bit = !(grease_fixed && self.rng.below(2) == 0);
                builder.open_short(id, dcid, path.spin.value(), keys, &path.space)?
            }
            _ => {
                let space = match level {
                    Level::Initial => self.spaces.initial.as_ref()?,
                    Level::Handshake => self.spaces.handshake.as_ref()?,
                    _ => &path.space,
                };
                let token: &[u8] = if level == Level::Initial {
                    &self.handshake.token
                } else {
                    &[]
                };
                // Before the handshake nothing is known of the peer, and what a former connection
                // knew may not be used. RFC 9287 s3.1.
                builder.fixed_bit =
                    !(grease_fixed && level == Level::Handshake && self.rng.below(2) == 0);
                builder.open_long(level, version, dcid, scid, token, space)?
            }
        };
        let mut writer = PacketWriter::new(
            builder.payload(&open)?,
            packet_type_of(level),
            &mut self.scratch.tokens,
            &mut self.stats.frames_sent,
            &mut self.observer,
            now,
        );
        let full = permit.is_full(level);
        let mut echoed = 0;
        let rtt = path.recovery.rtt();
        self.streams.set_time(now, || one_way_delay(rtt));
        // What a packet with a repair symbol would have for frames, even if this one, in a batch, has
        // less.
        let beyond = usize::from(path.mtu.datagram_size()).saturating_sub(datagram_size);
        let payload = writer.remaining() + beyond;
        let takes = load.on(id);
        // Padding would become part of a symbol, and its datagram may need some.
        let padding = self.config.fec.padding;
        // Nobody waits for frames of control alone, and they would be the end of a burst.
        let has_data = self.streams.has_data_for(takes)
            || self.config.fec.protect_datagrams && self.datagrams.has_frames_for(takes);
        let may_protect = full
            && load.takes_data()
            && has_data
            && level == Level::OneRtt
            && builder_is_empty
            && !self.fec.copying
            && !(padding && beyond > 0);
        let choices =
            may_protect && self.fec.sender.is_some() && self.streams.has_protection_choices();
        let next = choices
            .then(|| self.streams.next_protection(takes))
            .flatten();
        let (streams, messages) = (&mut self.streams, &self.messages);
        let sender = self.fec.sender.as_deref_mut().filter(|_| may_protect);
        let protector = sender.and_then(|sender| {
            let heeds_ends = sender.heeds_ends();
            if heeds_ends && streams.take_new_end() {
                sender.on_new_end();
            }
            let now_waits = || {
                let window = path.recovery.window();
                let waits = streams.waiting_bytes(window.saturating_mul(MOST_WINDOWS));
                (window, path.recovery.is_slow_start(), waits)
            };
            if !choices && !messages.in_use() && sender.leaves_plain(payload as u64, now_waits) {
                return None;
            }
            if !sender.has_room(payload) {
                return None;
            }
            let congestion_window = path.recovery.window();
            let outlook = Outlook {
                more_waits: streams.has_data(),
                ends_in: heeds_ends.then(|| streams.ends_in(takes)).flatten(),
                waiting_bytes: streams
                    .waiting_bytes(congestion_window.saturating_mul(MOST_WINDOWS)),
                messages: messages.outlook(now + one_way_delay(path.recovery.rtt()), streams),
                ..outlook(path, self.multipath.is_some())
            };
            let by_default = sender.protects(now, outlook);
            (by_default || choices).then_some(Protector {
                sender,
                by_default,
                next,
                padding,
            })
        });
        if level == Level::Initial || level == Level::Handshake {
            let (space, crypto, slot) = match level {
                Level::Initial => (self.spaces.initial.as_mut()?, &mut self.crypto.initial, 0),
                _ => (
                    self.spaces.handshake.as_mut()?,
                    &mut self.crypto.handshake,
                    1,
                ),
            };
            if space.received.has_unreported() {
                space.received.write_ack(now, None, 3, None, &mut writer);
            }
            if full {
                crypto.write(&mut writer);
                let owed = self.handshake_probes.get_mut(slot)?;
                if *owed > 0 {
                    if !writer.flags().ack_eliciting {
                        writer.push(&Frame::Ping);
                    }
                    *owed -= 1;
                    open.probe = true;
                }
            }
        } else {
            if level == Level::OneRtt {
                let acks = AckWriting {
                    exponent: super::ACK_DELAY_EXPONENT,
                    multipath,
                    way,
                    echoes,
                    timestamps: self.timestamps,
                };
                if full || permit == Permit::Validation {
                    let answers = full || path.recovery.can_send(MIN_INITIAL_DATAGRAM as u64);
                    open.validates_path = write_validation(
                        now,
                        path,
                        datagram_size,
                        answers,
                        &mut self.rng,
                        &mut writer,
                    );
                }
                if let Some(receiver) = &mut self.fec.receiver
                    && (receiver.ack_due() || path.space.received.has_unreported())
                {
                    // Before the ACK: what it tells lost may be recovered.
                    receiver.write_ack(&mut writer);
                }
                write_path_frames(now, path, &acks, full, &mut writer);
                if leads {
                    echoed = write_other_acks(now, id, &mut self.paths, &acks, &mut writer);
                }
                if leads && full && takes.free {
                    write_introductions(id, &mut self.paths, &mut writer);
                }
            }
            if full && !load.takes_data() {
                let path = self.paths.get_mut(id)?;
                open.probe = write_probe(path, self.peer.min_ack_delay_us, &mut writer);
            } else if full {
                if level == Level::OneRtt
                    && takes.free
                    && let Some(receiver) = &mut self.fec.receiver
                {
                    receiver.write_window(&mut writer);
                }
                let path = self.paths.get_mut(id)?;
                let protector = protector.filter(|_| !open.validates_path);
                let protects = protector.is_some();
                if asks_at_the_end && has_data {
                    writer.push(&Frame::ImmediateAck);
                    path.ack_frequency.asked_at = Some(now);
                }
                let datagrams =
                    self.config.fec.protect_datagrams && self.datagrams.has_frames_for(takes);
                if protects {
                    if let Some(multipath) = &mut self.multipath
                        && takes.free
                    {
                        multipath.write(&mut writer);
                    }
                    // A PING concerns the path: it stands before the symbol.
                    open.probe = write_probe(path, self.peer.min_ack_delay_us, &mut writer);
                    if !self.config.fec.protect_datagrams {
                        self.datagrams.write(takes, &mut writer);
                    }
                }
                if let Some(protector) = &protector {
                    protector.begin(&mut writer, payload, datagrams);
                }
                if level == Level::OneRtt && takes.free {
                    self.control.write(&mut writer);
                    self.crypto.data.write(&mut writer);
                    if let Some(multipath) = &mut self.multipath
                        && !protects
                    {
                        multipath.write(&mut writer);
                    }
                }
                if takes.free {
                    self.streams.write_control(&mut writer);
                }
                self.datagrams.write(takes, &mut writer);
                self.streams.write_data(takes, &mut writer);
                if let Some(protector) = protector {
                    protector.end(id, &mut writer, &mut open);
                }
                if level == Level::OneRtt && !protects {
                    open.probe = write_probe(path, self.peer.min_ack_delay_us, &mut writer);
                }
            }
        }
        let empty = writer.len() == echoed;
        if level == Level::OneRtt
            && !empty
            && !writer.flags().ack_eliciting
            && self
                .paths
                .get(id)
                .is_some_and(|path| path.space.should_elicit_ack())
        {
            // A pure receiver must hear now and then which of its ACKs arrived. RFC 9000 s13.2.4.
            writer.push(&Frame::Ping);
        }
        if empty {
            builder.abort(open);
            self.scratch.tokens.clear();
            return None;
        }
        open.finish(&writer);
        open.tokens = std::mem::take(&mut self.scratch.tokens);
        Some(open)
    }

    /// Protects a packet and records it as sent.
    pub(super) fn seal(
        &mut self,
        now: Instant,
        id: PathId,
        builder: &mut DatagramBuilder<'_>,
        mut open: OpenPacket,
        ecn: Ecn,
    ) {
        let Some(path) = self.paths.get_mut(id) else {
            return;
        };
        let level = open.level;
        let flags = open.flags();
        let (number, is_source) = (open.number(), open.is_source);
        let before = builder.len();
        let context = SealContext {
            now,
            rng: &mut self.rng,
            ecn,
        };
        let mut tokens = std::mem::take(&mut open.tokens);
        let result = match level {
            Level::OneRtt => match self.keys.one_rtt.as_mut() {
                Some(keys) => builder.seal_short(
                    open,
                    keys,
                    &mut path.space,
                    &mut path.recovery,
                    &mut tokens,
                    context,
                    &mut self.observer,
                ),
                None => Ok(()),
            },
            _ => {
                let (keys, space): (_, Option<&mut PacketNumberSpace>) = match level {
                    Level::Initial => (
                        self.keys.initial.as_ref().map(|keys| &keys.local),
                        self.spaces.initial.as_mut(),
                    ),
                    Level::Handshake => (
                        self.keys.handshake.as_ref().map(|keys| &keys.local),
                        self.spaces.handshake.as_mut(),
                    ),
                    _ => (self.keys.zero_rtt.as_ref(), Some(&mut path.space)),
                };
                match (keys, space) {
                    (Some(keys), Some(space)) => builder.seal_long(
                        open,
                        keys,
                        space,
                        &mut path.recovery,
                        &mut tokens,
                        context,
                        &mut self.observer,
                    ),
                    _ => Ok(()),
                }
            }
        };
        if matches!(level, Level::OneRtt | Level::ZeroRtt) {
            let contents = Contents {
                ack: flags.has_ack,
                data: flags.has_data,
                more: flags.has_more,
            };
            path.ack_stats.on_sent(contents, builder.len() - before);
            if flags.has_ack {
                self.on_acks_sent();
            }
        }
        tokens.clear();
        self.scratch.tokens = tokens;
        self.stats.packets_sent += 1;
        if let Err(error) = result {
            self.close_with(now, error);
            return;
        }
        if flags.ack_eliciting {
            self.restart_idle_on_send(now, id);
            if level == Level::OneRtt {
                let packet = Departure {
                    path: id,
                    number,
                    at: now,
                };
                self.note_departure(packet, builder.len() - before, flags, is_source);
            }
        }
        if level == Level::ZeroRtt {
            self.handshake.zero_rtt_sent = true;
        }
        if level == Level::Handshake && self.side.is_client() {
            // RFC 9001 s4.9.1: the first Handshake packet sent ends the client's Initial space.
            self.discard_initial_keys(now);
        }
    }
}
