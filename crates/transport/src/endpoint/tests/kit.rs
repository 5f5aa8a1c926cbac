//! A server endpoint and the packets strangers send to it.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use bytes::BytesMut;
use rustls::pki_types::CertificateDer;

use crate::{
    config::{EndpointConfig, ServerConfig},
    endpoint::{DatagramEvent, DatagramMeta, Endpoint, Incoming, Transmit},
    error::TransportError,
    observe::{Counters, Observer},
    rng::Rng,
    time::Instant,
    tls::{
        self, ClientSessionFactory, DirectionalKeys, ExportError, KeyChange, Level,
        ServerSessionFactory, Session, StartError, initial_keys, open_in_place, seal_in_place,
    },
    units::{Ecn, FourTuple, PathId, Side},
    wire::{
        ConnectionId, Frame, Header, LongHeader, LongType, Reader, Version, Writer, encode_short,
        parse_header, patch_length,
    },
};

/// TLS that never says anything; Initial keys are the real ones.
#[derive(Debug)]
pub(super) struct NoTls;

impl ServerSessionFactory for NoTls {
    fn start(&self, _: Version, _: Vec<u8>) -> Result<Box<dyn Session>, StartError> {
        Ok(Box::new(Self))
    }
}

impl ClientSessionFactory for NoTls {
    fn start(&self, _: Version, name: &str, _: Vec<u8>) -> Result<Box<dyn Session>, StartError> {
        if name.contains(' ') {
            return Err(StartError::InvalidServerName(name.to_owned()));
        }
        Ok(Box::new(Self))
    }
}

impl Session for NoTls {
    fn read(&mut self, _: Level, _: &[u8]) -> Result<(), TransportError> {
        Ok(())
    }
    fn write(&mut self, _: &mut Vec<u8>) -> Option<KeyChange> {
        None
    }
    fn zero_rtt_keys(&self) -> Option<DirectionalKeys> {
        None
    }
    fn early_data_accepted(&self) -> Option<bool> {
        None
    }
    fn is_handshaking(&self) -> bool {
        true
    }
    fn alpn(&self) -> Option<&[u8]> {
        None
    }
    fn server_name(&self) -> Option<&str> {
        None
    }
    fn peer_certificates(&self) -> Option<Vec<CertificateDer<'static>>> {
        None
    }
    fn resumed(&self) -> bool {
        false
    }
    fn peer_transport_parameters(&self) -> Option<&[u8]> {
        None
    }
    fn remembered_parameters(&self) -> Option<Vec<u8>> {
        None
    }
    fn export_keying_material(
        &self,
        _: &mut [u8],
        _: &[u8],
        _: Option<&[u8]>,
    ) -> Result<(), ExportError> {
        Err(ExportError)
    }
    fn use_version(&mut self, _: Version) {}
}

pub(super) fn cid(bytes: &[u8]) -> ConnectionId {
    ConnectionId::new(bytes).unwrap()
}

pub(super) fn client_address(n: u16) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, (n >> 8) as u8], 40_000 + (n & 0xff)))
}

pub(super) fn from(remote: SocketAddr) -> DatagramMeta {
    let local = SocketAddr::from(([198, 51, 100, 1], 443));
    DatagramMeta {
        four_tuple: FourTuple { local, remote },
        ecn: Ecn::NotEct,
    }
}

/// A server under test.
pub(super) struct Server {
    pub(super) endpoint: Endpoint,
    pub(super) now: Instant,
    pub(super) counters: Counters,
    /// Bytes of the last answer.
    pub(super) answer: Vec<u8>,
}

impl Server {
    pub(super) fn new() -> Self {
        Self::with(EndpointConfig::default(), |_| {})
    }

    pub(super) fn with(config: EndpointConfig, change: impl FnOnce(&mut ServerConfig)) -> Self {
        let mut server = ServerConfig::new(Arc::new(NoTls));
        change(&mut server);
        let mut endpoint =
            Endpoint::new(Arc::new(config), Some(Arc::new(server)), Rng::from_u64(7));
        let counters = Counters::new();
        let now = Instant::from_nanos(1_000_000_000_000);
        let local = from(client_address(0)).four_tuple.local;
        endpoint.set_observer(now, local, Observer::new(Some(counters.sink())));
        Self {
            endpoint,
            now,
            counters,
            answer: Vec::new(),
        }
    }

    pub(super) fn after(&mut self, duration: Duration) {
        self.now += duration;
    }

    /// Delivers a datagram; every answer must be within the amplification limit.
    pub(super) fn receive(&mut self, remote: SocketAddr, data: &[u8]) -> DatagramEvent {
        let mut out = vec![0xee; 3];
        let event =
            self.endpoint
                .handle_datagram(self.now, from(remote), BytesMut::from(data), &mut out);
        self.answer = out.split_off(3);
        assert_eq!(out, [0xee; 3], "the caller's bytes were touched");
        match &event {
            DatagramEvent::Transmit(transmit) => {
                assert_eq!(transmit.len, self.answer.len());
                assert_eq!(transmit.four_tuple.remote, remote);
                assert!(transmit.len <= 3 * data.len(), "amplification");
            }
            _ => assert!(self.answer.is_empty(), "bytes without a Transmit"),
        }
        event
    }

    pub(super) fn incoming(&mut self, remote: SocketAddr, data: &[u8]) -> Incoming {
        match self.receive(remote, data) {
            DatagramEvent::Incoming(incoming) => incoming,
            other => panic!("expected an incoming connection, got {other:?}"),
        }
    }

    pub(super) fn transmit(&mut self, remote: SocketAddr, data: &[u8]) -> Transmit {
        match self.receive(remote, data) {
            DatagramEvent::Transmit(transmit) => transmit,
            other => panic!("expected an answer, got {other:?}"),
        }
    }

    /// Sends the Retry for a first Initial and returns (retry source ID, token).
    pub(super) fn retry(&mut self, remote: SocketAddr, data: &[u8]) -> (ConnectionId, Vec<u8>) {
        let incoming = self.incoming(remote, data);
        let odcid = incoming.original_dcid();
        let mut out = Vec::new();
        let transmit = self.endpoint.retry(self.now, incoming, &mut out).unwrap();
        assert_eq!(transmit.len, out.len());
        read_retry(&out, &odcid)
    }
}

/// Source ID and token of a Retry packet whose integrity tag is right.
pub(super) fn read_retry(packet: &[u8], odcid: &ConnectionId) -> (ConnectionId, Vec<u8>) {
    let Header::Retry {
        version,
        scid,
        token,
        tag,
        ..
    } = parse_header(packet, 8).unwrap()
    else {
        panic!("not a Retry");
    };
    let without_tag = &packet[..packet.len() - 16];
    assert_eq!(tls::retry_integrity_tag(version, odcid, without_tag), tag);
    (scid, token.to_vec())
}

/// A client's Initial.
#[derive(Clone)]
pub(super) struct InitialPacket {
    pub(super) version: Version,
    pub(super) dcid: ConnectionId,
    pub(super) scid: ConnectionId,
    pub(super) token: Vec<u8>,
    pub(super) len: usize,
}

impl InitialPacket {
    pub(super) fn to(dcid: ConnectionId) -> Self {
        Self {
            version: Version::V1,
            dcid,
            scid: cid(&[0xc1; 5]),
            token: Vec::new(),
            len: 1200,
        }
    }

    pub(super) fn numbered(n: u64) -> Self {
        Self::to(cid(&n.to_be_bytes()))
    }

    pub(super) fn with_token(dcid: ConnectionId, token: &[u8]) -> Self {
        Self {
            token: token.to_vec(),
            ..Self::to(dcid)
        }
    }

    /// The datagram: a PING and padding, sealed with the client's Initial keys.
    pub(super) fn datagram(&self) -> Vec<u8> {
        let keys = initial_keys(self.version, &self.dcid, Side::Client);
        let mut packet = vec![0; self.len];
        let header = LongHeader {
            ty: LongType::Initial,
            version: self.version,
            dcid: self.dcid,
            scid: self.scid,
            token: &self.token,
            fixed_bit: true,
        };
        let mut w = Writer::new(&mut packet);
        let length_offset = header.encode(&mut w, 0, 2).unwrap();
        let header_len = w.len();
        Frame::Ping.encode(&mut w);
        patch_length(&mut packet, length_offset, self.len - header_len + 2);
        let (head, payload) = packet.split_at_mut(header_len);
        seal_in_place(&*keys.local.packet, PathId::ZERO, 0, head, payload).unwrap();
        let (first, number) = head.split_first_mut().unwrap();
        let at = number.len() - 2;
        let sample = &payload[2..18];
        keys.local
            .header
            .encrypt_in_place(sample, first, &mut number[at..])
            .unwrap();
        packet
    }
}

/// The error code of the CONNECTION_CLOSE in a server's Initial for a client of this first ID.
pub(super) fn read_close(packet: &[u8], dcid: &ConnectionId) -> u64 {
    let mut packet = packet.to_vec();
    let Header::Initial {
        version,
        pn_offset,
        packet_len,
        ..
    } = parse_header(&packet, 8).unwrap()
    else {
        panic!("not an Initial");
    };
    assert_eq!(packet_len, packet.len());
    let keys = initial_keys(version, dcid, Side::Client);
    let (head, rest) = packet.split_at_mut(pn_offset);
    let (number, sampled) = rest.split_at_mut(4);
    keys.remote
        .header
        .decrypt_in_place(&sampled[..16], &mut head[0], number)
        .unwrap();
    let number_len = usize::from(head[0] & 3) + 1;
    let (header, payload) = packet.split_at_mut(pn_offset + number_len);
    let len = open_in_place(&*keys.remote.packet, PathId::ZERO, 0, header, payload).unwrap();
    match Frame::decode(&mut Reader::new(&payload[..len])).unwrap() {
        Frame::ConnectionClose(close) => close.code,
        other => panic!("expected CONNECTION_CLOSE, got {other:?}"),
    }
}

/// A 1-RTT packet nobody can open.
pub(super) fn short_packet(dcid: &ConnectionId, len: usize) -> Vec<u8> {
    let mut packet = vec![0x5a; len];
    encode_short(
        &mut Writer::new(&mut packet),
        dcid,
        false,
        false,
        0,
        1,
        true,
    );
    packet
}
