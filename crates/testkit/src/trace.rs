//! What connections did, packet by packet, for assertions.
//!
//! Owns: [`Trace`], an observer that keeps every packet with its frames; [`Tap`], a wiretap on a
//! link; [`by_datagram`], which joins the two. Both grow without bound: for tests only.

use std::{
    fmt,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tautline_sim::{Direction, LinkId, PacketView, Verdict, World};
use tautline_transport::{
    error::ConnectionError,
    observe::{Abuse, ConnectionInfo, Event, SharedSinkFactory, Sink, SinkFactory},
    time::Instant,
    tls::Level,
    units::{Ecn, PacketNumber, Side, StreamId},
    wire::{Frame, Reader, Version},
};

/// A frame, as far as tests ask about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields repeat the frames' fields")]
pub enum FrameTrace {
    /// STREAM.
    Stream {
        id: StreamId,
        offset: u64,
        len: usize,
        fin: bool,
    },
    /// CRYPTO.
    Crypto { offset: u64, len: usize },
    /// ACK of any kind.
    Ack { largest: PacketNumber, ecn: bool },
    /// PATH_CHALLENGE.
    PathChallenge([u8; 8]),
    /// PATH_RESPONSE.
    PathResponse([u8; 8]),
    /// ACK_FREQUENCY.
    AckFrequency { threshold: u64, max_delay_us: u64 },
    /// REPAIR: how many source symbols it covers.
    Repair { count: u64 },
    /// CONNECTION_CLOSE.
    Close { code: u64, application: bool },
    /// A run of PADDING.
    Padding(usize),
    /// Any other frame, by its type.
    Other(u64),
}

impl FrameTrace {
    /// What is kept of `frame`.
    pub fn of(frame: &Frame<'_>) -> Self {
        match frame {
            Frame::Stream(stream) => Self::Stream {
                id: stream.id,
                offset: stream.offset,
                len: stream.data.len(),
                fin: stream.fin,
            },
            Frame::Crypto { offset, data } => Self::Crypto {
                offset: *offset,
                len: data.len(),
            },
            Frame::Ack(ack) => Self::Ack {
                largest: ack.largest,
                ecn: ack.ecn.is_some(),
            },
            Frame::PathChallenge(data) => Self::PathChallenge(*data),
            Frame::PathResponse(data) => Self::PathResponse(*data),
            Frame::AckFrequency {
                threshold,
                max_ack_delay_us,
                ..
            } => Self::AckFrequency {
                threshold: *threshold,
                max_delay_us: *max_ack_delay_us,
            },
            Frame::Repair(repair) => Self::Repair {
                count: repair.count,
            },
            Frame::ConnectionClose(close) => Self::Close {
                code: close.code,
                application: close.frame_type.is_none(),
            },
            Frame::Padding { len } => Self::Padding(*len),
            other => Self::Other(other.frame_type()),
        }
    }
}

/// One packet sent or received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketTrace {
    /// When.
    pub time: Instant,
    /// Its encryption level.
    pub level: Level,
    /// Its number.
    pub number: PacketNumber,
    /// Bytes with header and AEAD tag.
    pub bytes: usize,
    /// The ECN codepoint of its datagram.
    pub ecn: Ecn,
    /// Key updates before it.
    pub key_phase: u64,
    /// Its frames, in order.
    pub frames: Vec<FrameTrace>,
}

impl PacketTrace {
    /// Whether one of its frames is like this.
    pub fn has(&self, matches: impl FnMut(&FrameTrace) -> bool) -> bool {
        self.frames.iter().any(matches)
    }

    /// Bytes of its STREAM frames' data.
    pub fn stream_bytes(&self) -> usize {
        self.frames
            .iter()
            .map(|frame| match frame {
                FrameTrace::Stream { len, .. } => *len,
                _ => 0,
            })
            .sum()
    }
}

/// One connection.
#[derive(Clone, Debug)]
pub struct ConnectionTrace {
    /// Which end it is.
    pub side: Side,
    /// Packets sent, in order.
    pub sent: Vec<PacketTrace>,
    /// Packets opened, in order.
    pub received: Vec<PacketTrace>,
    /// Packets declared lost.
    pub lost: u64,
    /// Packets ignored, and why.
    pub dropped: Vec<&'static str>,
    /// Moves from one version to another.
    pub versions: Vec<(Version, Version)>,
    /// Key updates: when, to which phase, and whether the peer began.
    pub key_updates: Vec<(Instant, u64, bool)>,
    /// Sizes that path MTU discovery settled on, in order.
    pub mtus: Vec<u16>,
    /// What the peer did that it should not.
    pub abuse: Vec<Abuse>,
    /// How it ended.
    pub ended: Option<(Instant, ConnectionError)>,
    pending: Vec<FrameTrace>,
    key_phase: u64,
}

impl ConnectionTrace {
    fn new(side: Side) -> Self {
        Self {
            side,
            sent: Vec::new(),
            received: Vec::new(),
            lost: 0,
            dropped: Vec::new(),
            versions: Vec::new(),
            key_updates: Vec::new(),
            mtus: Vec::new(),
            abuse: Vec::new(),
            ended: None,
            pending: Vec::new(),
            key_phase: 0,
        }
    }

    /// Packets sent at one level.
    pub fn sent_at(&self, level: Level) -> impl Iterator<Item = &PacketTrace> {
        self.sent.iter().filter(move |packet| packet.level == level)
    }

    /// Frames sent, in order.
    pub fn frames_sent(&self) -> impl Iterator<Item = &FrameTrace> {
        self.sent.iter().flat_map(|packet| &packet.frames)
    }

    /// Frames received, in order.
    pub fn frames_received(&self) -> impl Iterator<Item = &FrameTrace> {
        self.received.iter().flat_map(|packet| &packet.frames)
    }

    fn on_event(&mut self, now: Instant, event: &Event<'_>) {
        match event {
            Event::FrameSent(frame) => self.pending.push(FrameTrace::of(frame)),
            Event::StreamFrameSent {
                id,
                offset,
                len,
                fin,
            } => self.pending.push(FrameTrace::Stream {
                id: *id,
                offset: *offset,
                len: *len,
                fin: *fin,
            }),
            Event::CryptoFrameSent { offset, len } => self.pending.push(FrameTrace::Crypto {
                offset: *offset,
                len: *len,
            }),
            Event::AckFrameSent {
                largest, encoded, ..
            } => {
                let ecn = match Frame::decode(&mut Reader::new(encoded)) {
                    Ok(Frame::Ack(ack)) => ack.ecn.is_some(),
                    _ => false,
                };
                self.pending.push(FrameTrace::Ack {
                    largest: *largest,
                    ecn,
                });
            }
            Event::PaddingSent { len } => self.pending.push(FrameTrace::Padding(*len)),
            Event::PacketSent {
                level,
                number,
                bytes,
                ecn,
                ..
            } => {
                let frames = std::mem::take(&mut self.pending);
                self.sent.push(PacketTrace {
                    time: now,
                    level: *level,
                    number: *number,
                    bytes: *bytes,
                    ecn: *ecn,
                    key_phase: self.key_phase,
                    frames,
                });
            }
            Event::PacketReceived {
                level,
                number,
                bytes,
                ecn,
                ..
            } => self.received.push(PacketTrace {
                time: now,
                level: *level,
                number: *number,
                bytes: *bytes,
                ecn: *ecn,
                key_phase: self.key_phase,
                frames: Vec::new(),
            }),
            Event::FrameReceived(frame) => {
                if let Some(packet) = self.received.last_mut() {
                    packet.frames.push(FrameTrace::of(frame));
                }
            }
            Event::PacketLost { .. } => self.lost += 1,
            Event::PacketDropped { details, .. } => self.dropped.push(details),
            Event::VersionChosen { from, to } => self.versions.push((*from, *to)),
            Event::KeysUpdated { phase, by_peer } => {
                self.key_phase = *phase;
                self.key_updates.push((now, *phase, *by_peer));
            }
            Event::MtuUpdated { new, .. } => self.mtus.push(*new),
            Event::Abuse { kind } => self.abuse.push(*kind),
            Event::ConnectionClosed { error, .. } => self.ended = Some((now, (*error).clone())),
            _ => {}
        }
    }
}

/// Keeps what the connections of a configuration do. Clones share it.
#[derive(Clone, Default)]
pub struct Trace(Arc<Mutex<Vec<ConnectionTrace>>>);

impl Trace {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// For [`tautline_transport::config::TransportConfig::observer`].
    pub fn observer(&self) -> Option<SharedSinkFactory> {
        Some(Arc::new(self.clone()))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<ConnectionTrace>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Connections so far.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether there was none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A copy of the `index`-th connection's trace.
    ///
    /// # Panics
    /// When there were fewer.
    pub fn connection(&self, index: usize) -> ConnectionTrace {
        self.lock()[index].clone()
    }

    /// Asks something of the `index`-th connection's trace.
    ///
    /// # Panics
    /// When there were fewer.
    pub fn with<R>(&self, index: usize, ask: impl FnOnce(&ConnectionTrace) -> R) -> R {
        ask(&self.lock()[index])
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Trace({} connections)", self.len())
    }
}

impl SinkFactory for Trace {
    fn build(&self, info: &ConnectionInfo) -> Option<Box<dyn Sink>> {
        let mut connections = self.lock();
        let index = connections.len();
        connections.push(ConnectionTrace::new(info.side));
        Some(Box::new(TraceSink {
            trace: self.clone(),
            index,
        }))
    }
}

struct TraceSink {
    trace: Trace,
    index: usize,
}

impl Sink for TraceSink {
    fn on_event(&mut self, now: Instant, event: &Event<'_>) {
        if let Some(connection) = self.trace.lock().get_mut(self.index) {
            connection.on_event(now, event);
        }
    }
}

/// A datagram as it was offered to a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TappedDatagram {
    /// When.
    pub time: Instant,
    /// Which way.
    pub direction: Direction,
    /// The sender, after a NAT.
    pub src: SocketAddr,
    /// The receiver, before a NAT.
    pub dst: SocketAddr,
    /// The ECN codepoint it came with.
    pub ecn: Ecn,
    /// The UDP payload.
    pub payload: Vec<u8>,
}

/// A wiretap on both directions of a link. Clones share what was heard.
#[derive(Clone, Debug, Default)]
pub struct Tap(Arc<Mutex<Vec<TappedDatagram>>>);

impl Tap {
    /// Listens on `link` from now on. Taps must be added before rules that drop packets.
    pub fn new(world: &mut World, link: LinkId) -> Self {
        let tap = Self::default();
        for direction in Direction::BOTH {
            let heard = Arc::clone(&tap.0);
            world.add_rule(link, direction, move |packet: &PacketView<'_>| {
                let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
                heard.push(TappedDatagram {
                    time: packet.now,
                    direction: packet.direction,
                    src: packet.src,
                    dst: packet.dst,
                    ecn: packet.ecn,
                    payload: packet.payload.to_vec(),
                });
                Verdict::Pass
            });
        }
        tap
    }

    /// Everything heard in one direction, in order.
    pub fn heard(&self, direction: Direction) -> Vec<TappedDatagram> {
        let heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        heard
            .iter()
            .filter(|datagram| datagram.direction == direction)
            .cloned()
            .collect()
    }

    /// Everything heard, in order.
    pub fn all(&self) -> Vec<TappedDatagram> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Forgets what was heard.
    pub fn clear(&self) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }
}

/// Joins what one connection sent with what a tap heard in its direction: each datagram with its
/// packets. Datagrams of others (Retry, Version Negotiation) must be left out by the caller.
///
/// # Panics
/// When the two do not fit.
pub fn by_datagram(
    datagrams: &[TappedDatagram],
    packets: &[PacketTrace],
) -> Vec<(TappedDatagram, Vec<PacketTrace>)> {
    let mut packets = packets.iter();
    datagrams
        .iter()
        .map(|datagram| {
            let mut inside = Vec::new();
            let mut bytes = 0;
            while bytes < datagram.payload.len() {
                let packet = packets
                    .next()
                    .unwrap_or_else(|| panic!("a datagram without packets at {:?}", datagram.time));
                bytes += packet.bytes;
                inside.push(packet.clone());
            }
            assert_eq!(bytes, datagram.payload.len(), "at {:?}", datagram.time);
            (datagram.clone(), inside)
        })
        .collect()
}
