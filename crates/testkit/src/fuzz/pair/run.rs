//! What each operation does.

use std::{net::SocketAddr, time::Duration};

use bytes::Bytes;
use tautline_transport::{
    connection::EndpointEvent,
    multipath::PathStatus,
    stream::{Protection, sched::Priority},
    time::Instant,
    units::{Dir, Ecn, FourTuple, PathId, Side},
};

use super::{
    Op, World,
    model::{Ended, receive_messages},
    setup::shared,
    world::{Datagram, End, LATENCY, side_of, slot},
};

/// Longest wait, as an exponent of microseconds: 67 s.
const MAX_WAIT_EXPONENT: u8 = 26;
/// Simulated time of a script after which timeouts are nobody's fault.
const PATIENCE: Duration = Duration::from_secs(3);
/// Longest forged packet.
const MAX_FORGED: usize = 1400;

const fn dir_of(bit: u8) -> Dir {
    if bit & 1 == 0 { Dir::Bi } else { Dir::Uni }
}

impl World {
    /// Runs one operation, and unless in a batch, what follows from it.
    pub(crate) fn run(&mut self, op: &Op, batch: &mut u8) {
        match *op {
            Op::Run { rounds } => self.rounds(rounds % 32),
            Op::Batch { count } => {
                *batch = count % 16;
                return;
            }
            Op::Rebind { .. } | Op::Nat { .. } => self.move_client(op),
            Op::Wait { exponent } => {
                let micros = 1u64 << (exponent % (MAX_WAIT_EXPONENT + 1));
                self.wait(Duration::from_micros(micros));
            }
            Op::NextTimer {} => {
                if let Some(at) = self.next_timer() {
                    self.wait(at.saturating_since(self.now));
                }
            }
            Op::Connect {} => self.connect(),
            Op::Decide { how } => {
                if !self.hosts[1].incoming.is_empty() {
                    let incoming = self.hosts[1].incoming.remove(0);
                    self.decide(incoming, how);
                }
            }
            _ if self.run_on_network(op) => {}
            _ => self.run_on_end(op),
        }
        match batch {
            0 => self.settle(),
            left => *left -= 1,
        }
    }

    fn wait(&mut self, time: Duration) {
        self.now += time;
        let since_start = self
            .now
            .saturating_since(Instant::from_nanos(1_000_000_000));
        self.may_fail |= since_start > PATIENCE;
    }

    /// Delivers what is under way, lets both ends read, and passes time.
    fn rounds(&mut self, rounds: u8) {
        for _ in 0..rounds {
            self.settle();
            self.wait(LATENCY);
            self.settle();
            for side in [Side::Client, Side::Server] {
                for datagram in std::mem::take(&mut self.under_way[slot(side)]) {
                    self.arrive(side, datagram);
                }
            }
            self.read_all();
        }
    }

    /// Every application reads all it can.
    pub(super) fn read_all(&mut self) {
        let check = !self.forged;
        for end in self.hosts.iter_mut().flat_map(|host| &mut host.ends) {
            end.streams.read_all(&mut end.connection, check);
            receive(end, check);
            receive_messages(&mut end.connection, check);
        }
    }

    fn move_client(&mut self, op: &Op) {
        match *op {
            Op::Nat { mapping } => self.addresses.map(mapping % 4),
            _ => {
                self.addresses.move_client();
                let now = self.now;
                for end in &mut self.hosts[0].ends {
                    let local = self.addresses.client(end.index);
                    end.connection.rebind(now, local);
                }
            }
        }
        self.may_fail |= self.setup.is_routed_by_address();
        // A server that has not confirmed the handshake goes on with the first address.
        self.may_fail |= self.hosts[0].ends.iter().any(|end| !end.connected);
        self.may_fail |= self.hosts[1].ends.iter().any(|end| !end.connected);
    }

    /// Operations on datagrams. False for all others.
    fn run_on_network(&mut self, op: &Op) -> bool {
        match *op {
            Op::Deliver { to, place } => {
                if let Some(datagram) = self.take(to, place) {
                    self.arrive(side_of(to), datagram);
                }
            }
            Op::Drop { to, place } => {
                self.take(to, place);
            }
            Op::DropAll { to } => self.under_way[slot(side_of(to))].clear(),
            Op::Duplicate { to, place } => {
                if let Some(datagram) = self.look(to, place).cloned() {
                    self.arrive(side_of(to), datagram);
                }
            }
            Op::Mutate {
                to,
                place,
                offset,
                xor,
            } => {
                if let Some(datagram) = self.look(to, place) {
                    let at = usize::from(offset) % datagram.bytes.len();
                    datagram.bytes[at] ^= xor;
                    self.on_forged();
                }
            }
            Op::Truncate { to, place, keep } => {
                if let Some(datagram) = self.look(to, place) {
                    let len = usize::from(keep) % datagram.bytes.len();
                    datagram.bytes.truncate(len.max(1));
                    self.on_forged();
                }
            }
            Op::Mark { to, place, ecn } => {
                if let Some(datagram) = self.look(to, place) {
                    datagram.ecn = Ecn::from_bits(ecn);
                }
            }
            _ => return self.run_forgery(op),
        }
        true
    }

    /// Operations that invent datagrams. False for all others.
    fn run_forgery(&mut self, op: &Op) -> bool {
        let zero_tag = self.setup.is_shared(shared::ZERO_TAGS);
        let (to, from, bytes) = match op {
            Op::Inject {
                to,
                level,
                number,
                phase,
                bits,
                frames,
            } => {
                let frames = frames
                    .get(..frames.len().min(MAX_FORGED))
                    .unwrap_or_default();
                let sniffed = &self.sniffed[slot(side_of(*to))];
                let shape = (*level, *number, *phase, *bits);
                (*to, 0, sniffed.forge(side_of(*to), zero_tag, shape, frames))
            }
            Op::Ack {
                to,
                level,
                phase,
                ahead,
                below,
            } => {
                let side = side_of(*to);
                let sent = &self.sniffed[slot(side.peer())];
                let frame = sent.ack(*level, *ahead, *below);
                let sniffed = &self.sniffed[slot(side)];
                let shape = (*level, 0, *phase, 0);
                (*to, 0, sniffed.forge(side, zero_tag, shape, &frame))
            }
            Op::Raw { to, from, bytes } => (*to, *from, bytes.clone()),
            Op::RawShort { to, from, bytes } => {
                let dcid = self.sniffed[slot(side_of(*to))].dcid;
                let first = bytes.first().map_or(0x40, |first| 0x40 | first & 0x3f);
                let rest = bytes.get(1..).unwrap_or_default();
                (*to, *from, [&[first], dcid.as_slice(), rest].concat())
            }
            Op::Retry { good, token } => {
                let (client, server) = (&self.sniffed[0], &self.sniffed[1]);
                (0, 0, server.retry(client, *good != 0, token))
            }
            Op::NegotiateVersion { versions } => (0, 0, self.sniffed[1].negotiation(versions)),
            _ => return false,
        };
        self.on_forged();
        let to = side_of(to);
        self.deliver_forged(to, from, bytes);
        true
    }

    /// Delivers bytes from the peer's address, or if `from` is not 0 from another.
    pub(crate) fn deliver_forged(&mut self, to: Side, from: u8, bytes: Vec<u8>) {
        let from_client = self.addresses.route(
            Side::Client,
            FourTuple {
                local: self.addresses.client(0),
                remote: super::setup::SERVER.into(),
            },
        );
        let Some(at_server) = from_client else { return };
        let mut four_tuple = match to {
            Side::Server => at_server,
            Side::Client => FourTuple {
                local: self.addresses.client(0),
                remote: at_server.local,
            },
        };
        if from != 0 {
            let port = four_tuple.remote.port();
            four_tuple
                .remote
                .set_port(port.wrapping_add(1000 + u16::from(from)));
        }
        let datagram = Datagram {
            due: self.now,
            four_tuple,
            ecn: Ecn::NotEct,
            bytes,
        };
        self.arrive(to, datagram);
    }

    /// From now on contents may be wrong.
    pub(crate) fn on_forged(&mut self) {
        self.forged = true;
        self.may_fail = true;
    }

    fn look(&mut self, to: u8, place: u8) -> Option<&mut Datagram> {
        let queue = &mut self.under_way[slot(side_of(to))];
        let place = usize::from(place).checked_rem(queue.len())?;
        queue.get_mut(place)
    }

    fn take(&mut self, to: u8, place: u8) -> Option<Datagram> {
        let queue = &mut self.under_way[slot(side_of(to))];
        let place = usize::from(place).checked_rem(queue.len())?;
        queue.remove(place)
    }

    /// Calls of the application.
    fn run_on_end(&mut self, op: &Op) {
        if let Op::Forget { on } = *op {
            self.forget(on);
            return;
        }
        let (now, check) = (self.now, !self.forged);
        let on = match *op {
            Op::Open { on, .. }
            | Op::Accept { on, .. }
            | Op::Write { on, .. }
            | Op::Finish { on, .. }
            | Op::Reset { on, .. }
            | Op::ResetAt { on, .. }
            | Op::Stop { on, .. }
            | Op::Read { on, .. }
            | Op::ReadUnordered { on, .. }
            | Op::Prioritize { on, .. }
            | Op::Send { on, .. }
            | Op::Receive { on }
            | Op::SendMessage { on, .. }
            | Op::ReceiveMessages { on }
            | Op::NextMessage { on, .. }
            | Op::OpenPath { on, .. }
            | Op::AbandonPath { on, .. }
            | Op::PathStatus { on, .. }
            | Op::FecWindow { on, .. }
            | Op::Protect { on, .. }
            | Op::Close { on, .. }
            | Op::UpdateKeys { on }
            | Op::Ping { on }
            | Op::AllowStreams { on, .. } => on,
            _ => return,
        };
        let Some(end) = self.end(on) else { return };
        match *op {
            Op::Close { code, .. } => {
                end.closed_by_script = true;
                let reason = Bytes::from(vec![b'x'; usize::from(code) * 8]);
                end.connection.close(now, u64::from(code), reason);
            }
            Op::Send { len, .. } => {
                let _ = end
                    .connection
                    .send_datagram(message(usize::from(len % 2000)));
            }
            Op::Receive { .. } => receive(end, check),
            Op::SendMessage {
                len,
                within,
                behind,
                ..
            } => {
                let End {
                    connection,
                    messages,
                    ..
                } = end;
                messages.send(connection, now, len, within, behind);
                self.expect_messages();
            }
            Op::OpenPath { from, .. } => {
                let connection = &mut end.connection;
                let port = connection.local_address().port();
                let to = FourTuple {
                    local: SocketAddr::from(([10, 0, 2, from], port)),
                    remote: connection.remote_address(),
                };
                let _ = connection.open_path(now, to);
            }
            Op::AbandonPath { path, code, .. } => {
                let path = PathId(u32::from(path % 10));
                let done = end.connection.abandon_path(now, path, code.into());
                if done.is_ok() {
                    // Both ends may give up the last two at once.
                    self.may_fail = true;
                }
            }
            Op::PathStatus { path, status, .. } => {
                let path = PathId(u32::from(path % 10));
                let status = match status & 1 {
                    0 => PathStatus::Available,
                    _ => PathStatus::Backup,
                };
                let _ = end.connection.set_path_status(path, status);
            }
            Op::FecWindow { symbols, .. } => end.connection.set_fec_window(symbols.into()),
            Op::ReceiveMessages { .. } => {
                end.connection.receive_messages();
                end.streams.takes_messages = true;
                receive_messages(&mut end.connection, check);
            }
            Op::NextMessage { within, .. } => {
                let within = std::time::Duration::from_millis(within.into());
                end.connection.next_message_at(Some(now + within));
            }
            Op::UpdateKeys { .. } => {
                let _ = end.connection.initiate_key_update(now);
            }
            Op::Ping { .. } => end.connection.ping(),
            Op::AllowStreams { dir, count, .. } => {
                let count = u64::from(count);
                end.connection
                    .set_max_concurrent_streams(dir_of(dir), count);
            }
            _ => run_on_stream(end, op, check),
        }
    }

    fn forget(&mut self, on: u8) {
        let host = self.host(side_of(on));
        let Some(index) = usize::from(on >> 1).checked_rem(host.ends.len()) else {
            return;
        };
        let end = host.ends.swap_remove(index);
        host.endpoint
            .handle_connection_event(end.handle, EndpointEvent::Drained);
        self.may_fail = true;
    }
}

/// An application datagram that tells its own length.
fn message(len: usize) -> Bytes {
    Bytes::from(vec![len as u8; len])
}

/// Takes all application datagrams.
fn receive(end: &mut End, check: bool) {
    while let Some(datagram) = end.connection.recv_datagram() {
        assert!(
            !check || datagram == message(datagram.len()),
            "datagram of another length"
        );
    }
}

fn run_on_stream(end: &mut End, op: &Op, check: bool) {
    let End {
        connection,
        streams,
        ..
    } = end;
    match *op {
        Op::Open { dir, .. } => {
            if let Some(id) = connection.open_stream(dir_of(dir)) {
                streams.learn(id);
            }
        }
        Op::Accept { dir, .. } => {
            if let Some(id) = connection.accept_stream(dir_of(dir)) {
                streams.learn(id);
            }
        }
        Op::Write { stream, len, .. } => {
            let id = streams.pick(stream);
            streams.write(connection, id, len);
        }
        Op::Finish { stream, .. } => {
            let id = streams.pick(stream);
            if connection.finish(id).is_ok() {
                streams.written.entry(id).or_default().finished = true;
            }
        }
        Op::Reset { stream, code, .. } => {
            let id = streams.pick(stream);
            if connection.reset(id, u64::from(code)).is_ok() {
                streams.written.entry(id).or_default().reset = Some(0);
            }
        }
        Op::ResetAt {
            stream, code, size, ..
        } => {
            let id = streams.pick(stream);
            let size = u64::from(size);
            if connection.reset_at(id, u64::from(code), size).is_ok() {
                let written = streams.written.entry(id).or_default();
                let promised = size.min(written.len);
                written.reset = Some(written.reset.unwrap_or(promised).min(promised));
            }
        }
        Op::Stop { stream, code, .. } => {
            let id = streams.pick(stream);
            if connection.stop(id, u64::from(code)).is_ok() {
                let read = streams.read.entry(id).or_default();
                read.ended.get_or_insert(Ended::Stopped);
            }
        }
        Op::Read { stream, max, .. } => {
            let id = streams.pick(stream);
            streams.read(connection, id, usize::from(max).max(1), check);
        }
        Op::ReadUnordered { stream, max, .. } => {
            let id = streams.pick(stream);
            streams.read_unordered(connection, id, usize::from(max).max(1), check);
        }
        Op::Prioritize {
            stream, urgency, ..
        } => {
            let priority = Priority {
                urgency: urgency >> 1,
                incremental: urgency & 1 == 1,
            };
            connection.set_priority(streams.pick(stream), priority);
        }
        Op::Protect { stream, how, .. } => {
            let protection = match how % 3 {
                0 => Protection::default(),
                1 => Protection::Always,
                _ => Protection::Never,
            };
            connection.set_protection(streams.pick(stream), protection);
        }
        _ => {}
    }
}
