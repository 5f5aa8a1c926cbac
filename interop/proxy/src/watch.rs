//! What was seen.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
};

use crate::{
    faults::Direction,
    server_hello::{self, ServerHello},
    wire::{self, Kind, Packet, VERSION_1, VERSION_2},
};

/// Connection IDs of client Initials that are tried as the origin of a server's keys.
const MAX_ATTEMPTS: usize = 256;
const CHACHA20: u16 = 0x1303;

/// A connection ID that a client sent Initials to, and the CRYPTO data of the answers.
#[derive(Debug)]
struct Attempt {
    dcid: Vec<u8>,
    crypto: BTreeMap<u64, Vec<u8>>,
}

/// Observes the datagrams of both directions.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    counts: BTreeMap<String, u64>,
    attempts: Vec<Attempt>,
    hellos: BTreeSet<[u8; 32]>,
    /// Versions offered in Version Negotiation packets.
    offered_versions: BTreeSet<u32>,
    /// Length of the connection IDs that the server chose.
    server_cid_len: Option<usize>,
    /// The client's latest address and the connection ID that it sends to.
    client: Option<(SocketAddr, Vec<u8>)>,
}

impl Watch {
    pub(crate) fn count(&mut self, name: &str, count: u64) {
        *self.counts.entry(name.to_owned()).or_default() += count;
    }

    pub(crate) fn get(&self, name: &str) -> u64 {
        self.counts.get(name).copied().unwrap_or(0)
    }

    pub(crate) fn datagram(&mut self, direction: Direction, datagram: &[u8]) {
        let way = direction.name();
        self.count(&format!("datagrams_{way}"), 1);
        for packet in wire::packets(datagram) {
            let kind = match packet.kind {
                Kind::Initial => "initial",
                Kind::ZeroRtt => "zero_rtt",
                Kind::Handshake => "handshake",
                Kind::Retry => "retry",
                Kind::VersionNegotiation => "version_negotiation",
                Kind::Short => "short",
                Kind::Other => "other",
            };
            let version = match packet.version {
                VERSION_1 => "_v1",
                VERSION_2 => "_v2",
                _ => "",
            };
            self.count(&format!("{kind}{version}_{way}"), 1);
            match direction {
                Direction::ToServer => self.client_packet(&packet),
                Direction::ToClient => self.server_packet(&packet),
            }
        }
    }

    fn client_packet(&mut self, packet: &Packet<'_>) {
        if packet.kind != Kind::Initial {
            return;
        }
        if !packet.extra.is_empty() {
            self.count("initial_with_token", 1);
        }
        let known = self
            .attempts
            .iter()
            .any(|attempt| attempt.dcid == packet.destination);
        if !known && self.attempts.len() < MAX_ATTEMPTS {
            let dcid = packet.destination.to_vec();
            self.attempts.push(Attempt {
                dcid,
                crypto: BTreeMap::new(),
            });
        }
    }

    fn server_packet(&mut self, packet: &Packet<'_>) {
        match packet.kind {
            Kind::VersionNegotiation => {
                let versions = packet.extra.chunks_exact(4);
                let versions = versions.filter_map(|bytes| bytes.try_into().ok());
                self.offered_versions
                    .extend(versions.map(u32::from_be_bytes));
            }
            Kind::Initial | Kind::Handshake => self.server_cid_len = Some(packet.source.len()),
            _ => {}
        }
        if packet.kind == Kind::Initial {
            // The newest connection is the likeliest.
            let opened = self.attempts.iter_mut().rev().find_map(|attempt| {
                let pieces = server_hello::crypto(packet, &attempt.dcid)?;
                attempt.crypto.extend(pieces);
                Some(server_hello::find(&attempt.crypto))
            });
            if let Some(hello) = opened.flatten() {
                self.server_hello(&hello);
            }
        }
    }

    fn server_hello(&mut self, hello: &ServerHello) {
        if self.hellos.insert(hello.random) {
            self.count("handshakes", 1);
            self.count("resumed_handshakes", u64::from(hello.resumed));
            self.count(
                "chacha20_handshakes",
                u64::from(hello.cipher_suite == CHACHA20),
            );
        }
    }

    /// Where a client's datagram came from.
    pub(crate) fn client_address(&mut self, from: SocketAddr, datagram: &[u8]) {
        let Some(len) = self.server_cid_len else {
            return;
        };
        let Some(Packet {
            kind: Kind::Short,
            destination,
            ..
        }) = wire::packets(datagram).into_iter().next()
        else {
            return;
        };
        let Some(cid) = destination.get(..len) else {
            return;
        };
        if let Some((address, old)) = &self.client
            && *address != from
        {
            let new_cid = old != cid;
            self.count("client_moves", 1);
            self.count("client_moves_with_new_cid", u64::from(new_cid));
        }
        self.client = Some((from, cid.to_vec()));
    }

    pub(crate) fn print(&self) {
        for (name, count) in &self.counts {
            println!("FACT {name} {count}");
        }
        if !self.offered_versions.is_empty() {
            let versions = self
                .offered_versions
                .iter()
                .map(|version| format!("{version:#010x}"));
            println!(
                "NOTE offered_versions {}",
                versions.collect::<Vec<_>>().join(", ")
            );
        }
    }
}
