//! TLS without secrets, for fuzzing and for tests that forge packets.
//!
//! Purpose: a handshake of five tiny messages and an AEAD that encrypts nothing, so that mutated
//! inputs get past cryptography and into the rooms behind it.
//! Owns: [`NullClient`], [`NullServer`], the null keys ([`packet_key`], [`header_key`]).
//! Does not own: any security whatsoever.
//! Called by: fuzz targets, tests.
//!
//! The client sends a well-formed ClientHello (server name, ALPN, transport parameters), as a
//! server reads it before it has a session. Every message has TLS's header, type (8 bits) and
//! length (24 bits), but bodies of our own:
//!
//! ```text
//! client  Initial    1  ClientHello (RFC 8446 s4.1.2), all zero random
//! server  Initial    2  early data accepted (8 bits, 0 or 1)
//! server  Handshake  8  ALPN length (8 bits), ALPN, transport parameters (to the end)
//! server  Handshake 20  empty
//! client  Handshake 20  empty
//! server  1-RTT      4  empty: the client may send early data next time
//! ```
//!
//! Packets travel in clear, followed by a 16-byte tag: one byte that names the key, in Initial
//! packets one that marks the connection ID which keys derive from, and zeros (zeros only with
//! [`NullTag::Zero`], where any key opens any packet; path and packet number at the end with
//! [`NullTag::Numbered`]). Headers are not masked.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use rustls::{Error, pki_types::CertificateDer, quic::Tag};
use tautline_transport::{
    error::{Code, TransportError},
    tls::{
        ClientSessionFactory, DirectionalKeys, ExportError, HeaderProtectionKey, KeyChange, Keys,
        Level, NextKeys, PacketKey, ServerSessionFactory, Session, StartError, TAG_LEN,
        client_hello,
    },
    units::Side,
    wire::{ConnectionId, Version},
};

const CLIENT_HELLO: u8 = 1;
const SERVER_HELLO: u8 = 2;
const NEW_SESSION_TICKET: u8 = 4;
const ENCRYPTED_EXTENSIONS: u8 = 8;
const FINISHED: u8 = 20;

const EARLY_DATA_EXTENSION: u16 = 42;
const UNEXPECTED_MESSAGE: u8 = 10;
const DECODE_ERROR: u8 = 50;
const NO_APPLICATION_PROTOCOL: u8 = 120;

/// Bytes of one message that are buffered at most.
const MAX_MESSAGE_BYTES: usize = client_hello::MAX_CLIENT_HELLO_BYTES;

/// What a packet's tag looks like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NullTag {
    /// The first byte names level, direction and key phase: a wrong key opens nothing.
    #[default]
    Keyed,
    /// The path and the packet number besides, as with real keys: a packet whose number is taken for another is not
    /// authentic.
    Numbered,
    /// All zeros: any key opens any packet.
    Zero,
}

/// The number that stands for a key in its tags: level, sender and key phase.
fn key_number(level: Level, sender: Side, phase: u64) -> u8 {
    let direction = u8::from(sender.is_server());
    match level {
        Level::Initial => 1 + direction,
        Level::ZeroRtt => 3,
        Level::Handshake => 4 + direction,
        // Phases repeat after 60; nobody has that many alive.
        Level::OneRtt => 8 + 2 * u8::try_from(phase % 60).unwrap_or(0) + direction,
    }
}

/// How many packets a key may seal, and fail to open. RFC 9001 s6.6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NullLimits {
    /// Packets sealed.
    pub confidentiality: u64,
    /// Packets that did not open.
    pub integrity: u64,
}

impl Default for NullLimits {
    // AES-GCM's limits, so that the rules about them stay reachable.
    fn default() -> Self {
        Self {
            confidentiality: 1 << 23,
            integrity: 1 << 52,
        }
    }
}

/// What the keys of a session have in common.
#[derive(Clone, Copy, Debug, Default)]
struct Style {
    tag: NullTag,
    limits: NullLimits,
}

/// A key that seals by appending its number.
struct NullPacketKey {
    tag: [u8; TAG_LEN],
    numbered: bool,
    limits: NullLimits,
}

impl NullPacketKey {
    fn tag(&self, path: u32, number: u64) -> [u8; TAG_LEN] {
        let mut tag = self.tag;
        if self.numbered {
            tag[4..8].copy_from_slice(&path.to_be_bytes());
            tag[8..].copy_from_slice(&number.to_be_bytes());
        }
        tag
    }

    fn check<'a>(&self, path: u32, number: u64, payload: &'a mut [u8]) -> Result<&'a [u8], Error> {
        let (plain, tag) = payload
            .split_last_chunk::<TAG_LEN>()
            .ok_or(Error::DecryptError)?;
        if *tag == self.tag(path, number) {
            Ok(plain)
        } else {
            Err(Error::DecryptError)
        }
    }
}

impl PacketKey for NullPacketKey {
    fn encrypt_in_place(&self, number: u64, _: &[u8], _: &mut [u8]) -> Result<Tag, Error> {
        Ok(Tag::from(self.tag(0, number).as_slice()))
    }

    fn encrypt_in_place_for_path(
        &self,
        path: u32,
        number: u64,
        _: &[u8],
        _: &mut [u8],
    ) -> Result<Tag, Error> {
        Ok(Tag::from(self.tag(path, number).as_slice()))
    }

    fn decrypt_in_place<'a>(
        &self,
        number: u64,
        _: &[u8],
        payload: &'a mut [u8],
    ) -> Result<&'a [u8], Error> {
        self.check(0, number, payload)
    }

    fn decrypt_in_place_for_path<'a>(
        &self,
        path: u32,
        number: u64,
        _: &[u8],
        payload: &'a mut [u8],
    ) -> Result<&'a [u8], Error> {
        self.check(path, number, payload)
    }

    fn tag_len(&self) -> usize {
        TAG_LEN
    }

    fn confidentiality_limit(&self) -> u64 {
        self.limits.confidentiality
    }

    fn integrity_limit(&self) -> u64 {
        self.limits.integrity
    }
}

/// A header key that masks nothing.
struct NullHeaderKey;

impl HeaderProtectionKey for NullHeaderKey {
    fn encrypt_in_place(&self, _: &[u8], _: &mut u8, _: &mut [u8]) -> Result<(), Error> {
        Ok(())
    }

    fn decrypt_in_place(&self, _: &[u8], _: &mut u8, _: &mut [u8]) -> Result<(), Error> {
        Ok(())
    }

    fn sample_len(&self) -> usize {
        16
    }
}

/// The key that `sender` seals packets of `level` with; `phase` counts key updates (1-RTT only).
pub fn packet_key(tag: NullTag, level: Level, sender: Side, phase: u64) -> Box<dyn PacketKey> {
    let limits = NullLimits::default();
    styled_key(Style { tag, limits }, level, sender, phase)
}

fn styled_key(style: Style, level: Level, sender: Side, phase: u64) -> Box<dyn PacketKey> {
    let mut bytes = [0; TAG_LEN];
    if style.tag != NullTag::Zero {
        bytes[0] = key_number(level, sender, phase);
    }
    Box::new(NullPacketKey {
        tag: bytes,
        numbered: style.tag == NullTag::Numbered,
        limits: style.limits,
    })
}

/// The key that leaves headers as they are.
pub fn header_key() -> Box<dyn HeaderProtectionKey> {
    Box::new(NullHeaderKey)
}

fn directional(style: Style, level: Level, sender: Side) -> DirectionalKeys {
    DirectionalKeys {
        header: header_key(),
        packet: styled_key(style, level, sender, 0),
    }
}

/// Both directions of `level` as `side` sees them.
pub fn keys(tag: NullTag, level: Level, side: Side) -> Keys {
    let limits = NullLimits::default();
    styled_keys(Style { tag, limits }, level, side)
}

fn styled_keys(style: Style, level: Level, side: Side) -> Keys {
    Keys {
        local: directional(style, level, side),
        remote: directional(style, level, side.peer()),
    }
}

/// Initial keys of both directions, which `dcid` marks. RFC 9001 s5.2.
fn initial_keys(tag: NullTag, dcid: &ConnectionId, side: Side) -> Keys {
    let directional = |sender| {
        let mut bytes = [0; TAG_LEN];
        if tag != NullTag::Zero {
            bytes[0] = key_number(Level::Initial, sender, 0);
            let mix = |mark: u8, byte: &u8| mark.rotate_left(3) ^ byte;
            bytes[1] = dcid.as_slice().iter().fold(0, mix);
        }
        DirectionalKeys {
            header: header_key(),
            packet: Box::new(NullPacketKey {
                tag: bytes,
                numbered: tag == NullTag::Numbered,
                limits: NullLimits::default(),
            }),
        }
    };
    Keys {
        local: directional(side),
        remote: directional(side.peer()),
    }
}

struct NullNextKeys {
    style: Style,
    side: Side,
    phase: u64,
}

impl NextKeys for NullNextKeys {
    fn next(&mut self) -> Option<(Box<dyn PacketKey>, Box<dyn PacketKey>)> {
        self.phase += 1;
        let key = |sender| styled_key(self.style, Level::OneRtt, sender, self.phase);
        Some((key(self.side), key(self.side.peer())))
    }
}

/// Server parameters by name, remembered for early data.
type Remembered = Arc<Mutex<BTreeMap<String, Vec<u8>>>>;

/// Starts null clients.
#[derive(Clone, Debug)]
pub struct NullClient {
    /// Protocols offered, favourite first.
    pub alpn: Vec<Vec<u8>>,
    /// Whether a second connection to a name sends early data.
    pub early_data: bool,
    /// How packets end.
    pub tag: NullTag,
    /// How long keys last, but for Initial keys.
    pub limits: NullLimits,
    /// Extra bytes in an ignored extension, to make the ClientHello span several packets.
    pub padding_bytes: u16,
    remembered: Remembered,
}

impl NullClient {
    /// Offers `alpn` and early data.
    pub fn new(alpn: &[u8]) -> Self {
        Self {
            alpn: vec![alpn.to_vec()],
            early_data: true,
            tag: NullTag::default(),
            limits: NullLimits::default(),
            padding_bytes: 0,
            remembered: Remembered::default(),
        }
    }

    fn client_hello(&self, server_name: &str, params: &[u8], early_data: bool) -> Vec<u8> {
        let mut extensions = Vec::new();
        let mut extension = |id: u16, content: &[u8]| {
            extensions.extend_from_slice(&id.to_be_bytes());
            extensions.extend_from_slice(&vector16(content));
        };
        let name = [&[0], vector16(server_name.as_bytes()).as_slice()].concat();
        extension(0, &vector16(&name));
        let protocols: Vec<u8> = self
            .alpn
            .iter()
            .flat_map(|protocol| vector8(protocol))
            .collect();
        extension(16, &vector16(&protocols));
        extension(0x39, params);
        if early_data {
            extension(EARLY_DATA_EXTENSION, &[]);
        }
        if self.padding_bytes > 0 {
            extension(21, &vec![0; usize::from(self.padding_bytes)]);
        }
        // Version, random, no session ID, one suite, no compression.
        let mut body = vec![0x03, 0x03];
        body.extend_from_slice(&[0; 32]);
        body.extend_from_slice(&[0, 0, 2, 0x13, 0x01, 1, 0]);
        body.extend_from_slice(&vector16(&extensions));
        message(CLIENT_HELLO, &body)
    }
}

impl ClientSessionFactory for NullClient {
    fn start(
        &self,
        _: Version,
        server_name: &str,
        params: Vec<u8>,
    ) -> Result<Box<dyn Session>, StartError> {
        let remembered = self
            .remembered
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let remembered = remembered
            .get(server_name)
            .filter(|_| self.early_data)
            .cloned();
        let hello = self.client_hello(server_name, &params, remembered.is_some());
        let mut session = NullSession::new(Side::Client, self.tag, self.limits);
        session.early_data_offered = remembered.is_some();
        session.server_name = Some(server_name.to_owned());
        session.offered_alpn.clone_from(&self.alpn);
        session.remembered = remembered;
        session.memory = Some(Arc::clone(&self.remembered));
        session.say(hello, None);
        Ok(Box::new(session))
    }

    fn initial_keys(&self, _: Version, dcid: &ConnectionId, side: Side) -> Keys {
        initial_keys(self.tag, dcid, side)
    }
}

/// Starts null servers.
#[derive(Clone, Debug)]
pub struct NullServer {
    /// Protocols taken, favourite first.
    pub alpn: Vec<Vec<u8>>,
    /// Whether early data is accepted.
    pub early_data: bool,
    /// How packets end.
    pub tag: NullTag,
    /// How long keys last, but for Initial keys.
    pub limits: NullLimits,
}

impl NullServer {
    /// Takes `alpn` and early data.
    pub fn new(alpn: &[u8]) -> Self {
        Self {
            alpn: vec![alpn.to_vec()],
            early_data: true,
            tag: NullTag::default(),
            limits: NullLimits::default(),
        }
    }
}

impl ServerSessionFactory for NullServer {
    fn start(&self, _: Version, params: Vec<u8>) -> Result<Box<dyn Session>, StartError> {
        let mut session = NullSession::new(Side::Server, self.tag, self.limits);
        session.offered_alpn.clone_from(&self.alpn);
        session.early_data_offered = self.early_data;
        session.own_params = params;
        Ok(Box::new(session))
    }

    fn initial_keys(&self, _: Version, dcid: &ConnectionId, side: Side) -> Keys {
        initial_keys(self.tag, dcid, side)
    }
}

/// Which message comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expect {
    ClientHello,
    ServerHello,
    EncryptedExtensions,
    Finished,
    Ticket,
    Nothing,
}

struct NullSession {
    side: Side,
    style: Style,
    expect: Expect,
    incoming: Vec<u8>,
    /// Bytes to say, and the level whose keys follow them.
    outgoing: VecDeque<(Vec<u8>, Option<Level>)>,
    offered_alpn: Vec<Vec<u8>>,
    own_params: Vec<u8>,
    alpn: Option<Vec<u8>>,
    server_name: Option<String>,
    peer_params: Option<Vec<u8>>,
    /// Client: early data is offered. Server: early data would be accepted.
    early_data_offered: bool,
    early_data_accepted: Option<bool>,
    remembered: Option<Vec<u8>>,
    memory: Option<Remembered>,
    complete: bool,
}

impl NullSession {
    fn new(side: Side, tag: NullTag, limits: NullLimits) -> Self {
        let expect = if side.is_client() {
            Expect::ServerHello
        } else {
            Expect::ClientHello
        };
        Self {
            side,
            style: Style { tag, limits },
            expect,
            incoming: Vec::new(),
            outgoing: VecDeque::new(),
            offered_alpn: Vec::new(),
            own_params: Vec::new(),
            alpn: None,
            server_name: None,
            peer_params: None,
            early_data_offered: false,
            early_data_accepted: None,
            remembered: None,
            memory: None,
            complete: false,
        }
    }

    fn say(&mut self, message: Vec<u8>, then: Option<Level>) {
        self.outgoing.push_back((message, then));
    }

    fn read_level(&self) -> Level {
        match self.expect {
            Expect::ClientHello | Expect::ServerHello => Level::Initial,
            Expect::EncryptedExtensions | Expect::Finished => Level::Handshake,
            Expect::Ticket | Expect::Nothing => Level::OneRtt,
        }
    }

    fn on_message(&mut self, kind: u8, whole: &[u8], body: &[u8]) -> Result<(), TransportError> {
        match (self.expect, kind) {
            (Expect::ClientHello, CLIENT_HELLO) => self.on_client_hello(whole),
            (Expect::ServerHello, SERVER_HELLO) => {
                let accepted = body == [1];
                self.early_data_accepted = self.early_data_offered.then_some(accepted);
                self.expect = Expect::EncryptedExtensions;
                self.say(Vec::new(), Some(Level::Handshake));
                Ok(())
            }
            (Expect::EncryptedExtensions, ENCRYPTED_EXTENSIONS) => {
                self.on_encrypted_extensions(body)
            }
            (Expect::Finished, FINISHED) => {
                self.complete = true;
                if self.side.is_client() {
                    self.expect = Expect::Ticket;
                    self.say(message(FINISHED, &[]), Some(Level::OneRtt));
                } else {
                    self.expect = Expect::Nothing;
                    self.say(message(NEW_SESSION_TICKET, &[]), None);
                }
                Ok(())
            }
            (Expect::Ticket, NEW_SESSION_TICKET) => {
                if let (Some(memory), Some(name), Some(params)) =
                    (&self.memory, &self.server_name, &self.peer_params)
                {
                    let mut memory = memory.lock().unwrap_or_else(PoisonError::into_inner);
                    memory.insert(name.clone(), params.clone());
                }
                Ok(())
            }
            _ => Err(alert(UNEXPECTED_MESSAGE, "handshake message out of turn")),
        }
    }

    fn on_client_hello(&mut self, whole: &[u8]) -> Result<(), TransportError> {
        let hello = client_hello::parse(whole)?
            .ok_or_else(|| alert(DECODE_ERROR, "ClientHello incomplete"))?;
        let params = hello.require_transport_parameters()?.to_vec();
        let alpn = self
            .offered_alpn
            .iter()
            .find(|own| hello.alpn.contains(own))
            .cloned();
        let alpn = alpn.ok_or_else(|| alert(NO_APPLICATION_PROTOCOL, "no protocol in common"))?;
        let accepted = self.early_data_offered && hello.early_data;

        self.early_data_accepted = hello.early_data.then_some(accepted);
        self.server_name = hello.server_name;
        self.peer_params = Some(params);
        self.expect = Expect::Finished;
        self.say(
            message(SERVER_HELLO, &[u8::from(accepted)]),
            Some(Level::Handshake),
        );
        let mut flight = message(
            ENCRYPTED_EXTENSIONS,
            &[vector8(&alpn), self.own_params.clone()].concat(),
        );
        flight.extend_from_slice(&message(FINISHED, &[]));
        self.alpn = Some(alpn);
        self.say(flight, Some(Level::OneRtt));
        Ok(())
    }

    fn on_encrypted_extensions(&mut self, body: &[u8]) -> Result<(), TransportError> {
        let (&alpn_len, rest) = body
            .split_first()
            .ok_or_else(|| alert(DECODE_ERROR, "extensions"))?;
        let (alpn, params) = rest
            .split_at_checked(usize::from(alpn_len))
            .ok_or_else(|| alert(DECODE_ERROR, "extensions"))?;
        if !self.offered_alpn.iter().any(|own| own == alpn) {
            return Err(alert(NO_APPLICATION_PROTOCOL, "protocol not offered"));
        }
        self.alpn = Some(alpn.to_vec());
        self.peer_params = Some(params.to_vec());
        self.expect = Expect::Finished;
        Ok(())
    }
}

impl Session for NullSession {
    fn read(&mut self, level: Level, data: &[u8]) -> Result<(), TransportError> {
        if data.is_empty() {
            return Ok(());
        }
        if level != self.read_level() {
            return Err(TransportError::protocol_violation(
                "CRYPTO data at the wrong level",
            ));
        }
        self.incoming.extend_from_slice(data);
        while let Some(&[kind, a, b, c]) = self.incoming.first_chunk::<4>() {
            let len = 4 + (usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c));
            if len > MAX_MESSAGE_BYTES {
                return Err(alert(DECODE_ERROR, "handshake message too long"));
            }
            if self.incoming.len() < len {
                break;
            }
            let rest = self.incoming.split_off(len);
            let whole = std::mem::replace(&mut self.incoming, rest);
            self.on_message(kind, &whole, whole.get(4..).unwrap_or_default())?;
            if !self.incoming.is_empty() && level != self.read_level() {
                return Err(TransportError::protocol_violation(
                    "CRYPTO data beyond its level",
                ));
            }
        }
        Ok(())
    }

    fn write(&mut self, out: &mut Vec<u8>) -> Option<KeyChange> {
        while let Some((message, then)) = self.outgoing.pop_front() {
            out.extend_from_slice(&message);
            match then {
                Some(Level::Handshake) => {
                    return Some(KeyChange::Handshake(styled_keys(
                        self.style,
                        Level::Handshake,
                        self.side,
                    )));
                }
                Some(_) => {
                    let next = NullNextKeys {
                        style: self.style,
                        side: self.side,
                        phase: 0,
                    };
                    return Some(KeyChange::OneRtt {
                        keys: styled_keys(self.style, Level::OneRtt, self.side),
                        secrets: Box::new(next),
                    });
                }
                None => {}
            }
        }
        None
    }

    fn zero_rtt_keys(&self) -> Option<DirectionalKeys> {
        let available = match self.side {
            Side::Client => self.early_data_offered,
            Side::Server => self.early_data_accepted == Some(true),
        };
        available.then(|| directional(self.style, Level::ZeroRtt, Side::Client))
    }

    fn early_data_accepted(&self) -> Option<bool> {
        match self.side {
            Side::Client if !self.complete => None,
            _ => self.early_data_accepted,
        }
    }

    fn is_handshaking(&self) -> bool {
        !self.complete
    }

    fn alpn(&self) -> Option<&[u8]> {
        self.alpn.as_deref()
    }

    fn server_name(&self) -> Option<&str> {
        self.server_name.as_deref()
    }

    fn peer_certificates(&self) -> Option<Vec<CertificateDer<'static>>> {
        None
    }

    fn resumed(&self) -> bool {
        self.early_data_accepted == Some(true)
    }

    fn peer_transport_parameters(&self) -> Option<&[u8]> {
        let known = self.side.is_server() || self.complete;
        self.peer_params.as_deref().filter(|_| known)
    }

    fn remembered_parameters(&self) -> Option<Vec<u8>> {
        self.remembered.clone()
    }

    fn export_keying_material(
        &self,
        out: &mut [u8],
        _: &[u8],
        _: Option<&[u8]>,
    ) -> Result<(), ExportError> {
        out.fill(0);
        if self.complete {
            Ok(())
        } else {
            Err(ExportError)
        }
    }

    fn use_version(&mut self, _: Version) {}
}

impl fmt::Debug for NullSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NullSession")
            .field("side", &self.side)
            .field("expect", &self.expect)
            .finish_non_exhaustive()
    }
}

fn alert(alert: u8, reason: &'static str) -> TransportError {
    TransportError::new(Code::crypto(alert), reason)
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let len = u32::try_from(body.len()).unwrap_or(u32::MAX).to_be_bytes();
    let mut message = vec![kind];
    message.extend_from_slice(&len[1..]);
    message.extend_from_slice(body);
    message
}

fn vector8(content: &[u8]) -> Vec<u8> {
    let len = u8::try_from(content.len()).unwrap_or(u8::MAX);
    [&[len], content].concat()
}

fn vector16(content: &[u8]) -> Vec<u8> {
    let len = u16::try_from(content.len())
        .unwrap_or(u16::MAX)
        .to_be_bytes();
    [len.as_slice(), content].concat()
}
