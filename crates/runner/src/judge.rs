//! Whether a run shows what its case is about, from the traces of both ends of the wire.
//!
//! Owns: one function per kind of case. Each returns facts for the table or what was missing.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail, ensure};
use tautline_transport::units::Ecn;

use crate::{
    case::{Case, Family},
    dissect::{Kind, Packet, Shown, Trace},
    keys::{Level, VERSION_1, VERSION_2},
    tls,
    wire::Way,
};

/// The traces of a run.
#[derive(Debug)]
pub(crate) struct Evidence {
    /// At the client's end of the wire.
    pub(crate) left: Trace,
    /// At the server's.
    pub(crate) right: Trace,
}

/// Sent by the client or by the server, as it left them.
impl Evidence {
    fn by_client(&self) -> impl Iterator<Item = &Packet> {
        self.left.sent(Way::ToServer)
    }

    fn by_server(&self) -> impl Iterator<Item = &Packet> {
        self.right.sent(Way::ToClient)
    }
}

/// What was seen, in a few words; an error names what was missing.
pub(crate) fn judge(case: &Case, seen: &Evidence) -> Result<String> {
    everything_opens(seen)?;
    versions(case, seen)?;
    let handshakes = handshakes(seen);
    ensure!(
        handshakes == case.handshakes(),
        "{handshakes} handshakes instead of {}",
        case.handshakes()
    );
    let retries = seen
        .by_server()
        .filter(|packet| packet.kind == Kind::Retry)
        .count();
    ensure!(
        case.name == "retry" || retries == 0,
        "{retries} Retry packets"
    );
    match case.name {
        "longrtt" => long_rtt(seen),
        "chacha20" => chacha20(seen),
        "multiplexing" => multiplexing(seen),
        "retry" => retry(seen, retries),
        "resumption" => resumption(seen),
        "zerortt" => zero_rtt(seen),
        "blackhole" => blackhole(seen),
        "keyupdate" => key_update(seen),
        "ecn" => ecn(seen),
        "amplificationlimit" => amplification(seen),
        "handshakeloss" | "transferloss" => lost(seen),
        "handshakecorruption" | "transfercorruption" => corrupted(seen),
        "ipv6" => ipv6(seen),
        "v2" => version_2(seen),
        "rebind-port" | "rebind-addr" => rebinding(case, seen),
        "connectionmigration" => migration(case, seen),
        _ => Ok(format!("{handshakes} handshake")),
    }
}

/// With both ends' secrets, what they send holds no riddles. Only a stateless reset (which answers
/// a packet for a connection that is over, or whose connection ID was changed on the way) looks
/// like a packet and opens with no key; its connection ID is none of those in use.
fn everything_opens(seen: &Evidence) -> Result<()> {
    for (trace, way) in [(&seen.left, Way::ToServer), (&seen.right, Way::ToClient)] {
        let opened = trace.sent(way).filter(|packet| packet.opened);
        let known: BTreeSet<&Vec<u8>> = opened.map(|packet| &packet.dcid).collect();
        let sealed = trace.sent(way).find(|packet| {
            let reset = packet.is(Level::OneRtt) && !known.contains(&packet.dcid);
            matches!(packet.kind, Kind::Encrypted(_)) && !packet.opened && !reset
        });
        if let Some(packet) = sealed {
            bail!(
                "a packet does not open: {way:?} {:?} in datagram {}",
                packet.kind,
                packet.datagram
            );
        }
    }
    Ok(())
}

fn versions(case: &Case, seen: &Evidence) -> Result<()> {
    let long = seen
        .by_client()
        .chain(seen.by_server())
        .filter(|packet| packet.version != 0);
    let versions: BTreeSet<u32> = long.map(|packet| packet.version).collect();
    let expected: &[u32] = if case.name == "v2" {
        &[VERSION_1, VERSION_2]
    } else {
        &[VERSION_1]
    };
    ensure!(
        versions.iter().eq(expected),
        "versions {versions:#x?} on the wire"
    );
    Ok(())
}

/// Distinct ServerHellos.
fn handshakes(seen: &Evidence) -> usize {
    let streams = seen.right.messages(Level::Initial, Way::ToClient);
    let hellos = streams.iter().flatten().filter_map(tls::server_random);
    hellos.collect::<BTreeSet<_>>().len()
}

fn long_rtt(seen: &Evidence) -> Result<String> {
    let starts =
        |packet: &&Packet| packet.is(Level::Initial) && packet.frames.contains(&Shown::Crypto(0));
    let hellos = seen.by_client().filter(starts).count();
    ensure!(hellos >= 2, "{hellos} ClientHellos");
    Ok(format!("{hellos} ClientHellos"))
}

fn chacha20(seen: &Evidence) -> Result<String> {
    let streams = seen.left.messages(Level::Initial, Way::ToServer);
    let mut offers = streams.iter().flatten().filter_map(tls::offered_suites);
    let offered = offers.next().context("no ClientHello")?;
    ensure!(offered == [0x1303], "the client offers {offered:#x?}");
    Ok("0x1303 alone".into())
}

fn multiplexing(seen: &Evidence) -> Result<String> {
    let streams = seen.right.messages(Level::Handshake, Way::ToClient);
    let mut limits = streams
        .iter()
        .flatten()
        .filter_map(tls::initial_max_streams_bidi);
    let limit = limits.next().context("no EncryptedExtensions")?;
    ensure!(limit <= 1000, "initial_max_streams_bidi is {limit}");
    Ok(format!("initial_max_streams_bidi {limit}"))
}

fn retry(seen: &Evidence, retries: usize) -> Result<String> {
    ensure!(retries >= 1, "no Retry");
    let retry = seen
        .by_server()
        .find(|packet| packet.kind == Kind::Retry)
        .context("no Retry")?;
    let initials: Vec<_> = seen
        .by_client()
        .filter(|packet| packet.is(Level::Initial))
        .collect();
    let with_token = initials.iter().find(|packet| !packet.token.is_empty());
    let with_token = with_token.context("no Initial with a token")?;
    ensure!(
        with_token.token == retry.token,
        "the Initial carries another token"
    );
    ensure!(
        with_token.dcid == retry.scid,
        "the Initial goes to another connection ID"
    );
    let numbers: Vec<u64> = initials.iter().map(|packet| packet.number).collect();
    ensure!(
        numbers.windows(2).all(|pair| pair[0] < pair[1]),
        "packet numbers start over: {numbers:?}"
    );
    Ok(format!("token of {} B", retry.token.len()))
}

fn resumption(seen: &Evidence) -> Result<String> {
    const CERTIFICATE: u8 = 11;
    let streams = seen.right.messages(Level::Handshake, Way::ToClient);
    let with = streams
        .iter()
        .filter(|stream| stream.iter().any(|message| message.kind == CERTIFICATE));
    let with = with.count();
    ensure!(
        (streams.len(), with) == (2, 1),
        "{with} of {} handshakes with a Certificate",
        streams.len()
    );
    Ok("1 of 2 handshakes with a Certificate".into())
}

fn zero_rtt(seen: &Evidence) -> Result<String> {
    let bytes = |level| {
        let packets = seen.by_client().filter(|packet| packet.is(level));
        packets.map(|packet| packet.protected_len).sum::<usize>()
    };
    let (early, late) = (bytes(Level::ZeroRtt), bytes(Level::OneRtt));
    ensure!(early > 0, "no 0-RTT packet");
    ensure!(late <= 5000, "{late} B of 1-RTT by the client");
    Ok(format!(
        "{early} B of 0-RTT, {late} B of 1-RTT by the client"
    ))
}

fn blackhole(seen: &Evidence) -> Result<String> {
    let took = seen.left.duration().as_secs_f64();
    ensure!(took > 7.0, "over before the link came back: {took:.1} s");
    Ok(format!("{took:.1} s"))
}

fn key_update(seen: &Evidence) -> Result<String> {
    let count = |packets: &mut dyn Iterator<Item = &Packet>| {
        packets
            .filter(|packet| packet.is(Level::OneRtt) && packet.phase == 1)
            .count()
    };
    let client = count(&mut seen.by_client());
    let server = count(&mut seen.by_server());
    ensure!(
        client > 0 && server > 0,
        "packets in key phase 1: client {client}, server {server}"
    );
    Ok(format!(
        "in key phase 1: client {client}, server {server} packets"
    ))
}

fn ecn(seen: &Evidence) -> Result<String> {
    for trace in [&seen.left, &seen.right] {
        for (index, datagram) in trace.datagrams.iter().enumerate() {
            ensure!(
                datagram.ecn == Ecn::Ect0,
                "datagram {index} carries {:?}",
                datagram.ecn
            );
        }
    }
    let counted = |mut packets: Box<dyn Iterator<Item = &Packet> + '_>| {
        packets.any(|packet| packet.frames.contains(&Shown::Ack { ecn: true }))
    };
    ensure!(
        counted(Box::new(seen.by_client())),
        "no ACK with ECN counts by the client"
    );
    ensure!(
        counted(Box::new(seen.by_server())),
        "no ACK with ECN counts by the server"
    );
    Ok("ECT(0) on all, ACKs with counts both ways".into())
}

fn amplification(seen: &Evidence) -> Result<String> {
    let levels = [Level::Initial, Level::Handshake];
    let crypto: usize = levels
        .iter()
        .map(|&level| seen.right.crypto_bytes(level, Way::ToClient))
        .sum();
    ensure!(crypto >= 7500, "{crypto} B of handshake data only");
    let handshake = |packet: &&Packet| packet.is(Level::Handshake);
    let validated = seen.right.sent(Way::ToServer).find(handshake);
    let validated = validated
        .context("no Handshake packet reached the server")?
        .datagram;
    let (mut received, mut sent, mut worst) = (0usize, 0usize, 0f64);
    for datagram in seen.right.datagrams.get(..validated).unwrap_or_default() {
        match datagram.way {
            Way::ToServer => received += datagram.payload.len(),
            Way::ToClient => sent += datagram.payload.len(),
        }
        worst = worst.max(sent as f64 / received.max(1) as f64);
    }
    ensure!(worst <= 3.0, "{worst:.2} times what reached the server");
    let lost = lost_towards_server(seen);
    ensure!(
        lost >= 6,
        "{lost} datagrams of the client lost instead of 6"
    );
    Ok(format!(
        "{crypto} B of handshake data, at most {worst:.2} times"
    ))
}

fn lost_towards_server(seen: &Evidence) -> usize {
    count(&seen.left, Way::ToServer).saturating_sub(count(&seen.right, Way::ToServer))
}

fn count(trace: &Trace, way: Way) -> usize {
    trace
        .datagrams
        .iter()
        .filter(|datagram| datagram.way == way)
        .count()
}

fn lost(seen: &Evidence) -> Result<String> {
    let to_client =
        count(&seen.right, Way::ToClient).saturating_sub(count(&seen.left, Way::ToClient));
    let to_server = lost_towards_server(seen);
    ensure!(
        to_client > 0 && to_server > 0,
        "lost: {to_server} to the server, {to_client} to the client"
    );
    Ok(format!(
        "lost {to_server} of {} to the server, {to_client} of {} to the client",
        count(&seen.left, Way::ToServer),
        count(&seen.right, Way::ToClient)
    ))
}

/// Changed on the way: what arrived was not sent.
fn corrupted(seen: &Evidence) -> Result<String> {
    let changed = |way, from: &Trace, to: &Trace| {
        let payloads = |trace: &Trace| -> BTreeSet<Vec<u8>> {
            let datagrams = trace
                .datagrams
                .iter()
                .filter(|datagram| datagram.way == way);
            datagrams.map(|datagram| datagram.payload.clone()).collect()
        };
        let sent = payloads(from);
        payloads(to)
            .iter()
            .filter(|payload| !sent.contains(*payload))
            .count()
    };
    let to_server = changed(Way::ToServer, &seen.left, &seen.right);
    let to_client = changed(Way::ToClient, &seen.right, &seen.left);
    ensure!(
        to_client > 0 && to_server > 0,
        "changed: {to_server} to the server, {to_client} to the client"
    );
    Ok(format!(
        "changed {to_server} of {} to the server, {to_client} of {} to the client",
        count(&seen.left, Way::ToServer),
        count(&seen.right, Way::ToClient)
    ))
}

fn ipv6(seen: &Evidence) -> Result<String> {
    let mut datagrams = seen.right.datagrams.iter().chain(&seen.left.datagrams);
    ensure!(
        datagrams.all(|datagram| datagram.src.is_ipv6()),
        "IPv4 on the wire"
    );
    Ok("IPv6 alone".into())
}

fn version_2(seen: &Evidence) -> Result<String> {
    let first = seen.by_client().next().context("nothing sent")?;
    ensure!(
        first.is(Level::Initial) && first.version == VERSION_1,
        "the client starts with {:#x}",
        first.version
    );
    let mut initials = seen.by_server().filter(|packet| packet.is(Level::Initial));
    ensure!(
        initials.all(|packet| packet.version == VERSION_2),
        "an Initial of v1 by the server"
    );
    let mut handshakes = seen
        .by_client()
        .chain(seen.by_server())
        .filter(|packet| packet.is(Level::Handshake));
    ensure!(
        handshakes.all(|packet| packet.version == VERSION_2),
        "a Handshake packet of v1"
    );
    Ok("v1 to v2".into())
}

/// The server's first packet on each new path carries a PATH_CHALLENGE that the client answers.
/// Returns how many paths there were.
fn challenged_paths(seen: &Evidence) -> Result<usize> {
    let answered: BTreeSet<[u8; 8]> = seen
        .right
        .sent(Way::ToServer)
        .flat_map(Packet::responses)
        .collect();
    let mut paths = BTreeSet::new();
    for packet in seen.by_server() {
        let Some(datagram) = seen.right.datagram_of(packet) else {
            continue;
        };
        let path = (datagram.src, datagram.dst);
        if !paths.insert(path) || paths.len() == 1 {
            continue;
        }
        let challenge = packet.challenges().next();
        let challenge = challenge
            .with_context(|| format!("no PATH_CHALLENGE first on {} -> {}", path.0, path.1))?;
        ensure!(
            answered.contains(&challenge),
            "the PATH_CHALLENGE to {} is not answered",
            path.1
        );
    }
    Ok(paths.len())
}

fn rebinding(case: &Case, seen: &Evidence) -> Result<String> {
    let paths = challenged_paths(seen)?;
    ensure!(paths >= 2, "{paths} paths");
    let clients: BTreeSet<_> = seen
        .right
        .datagrams
        .iter()
        .filter(|d| d.way == Way::ToServer)
        .map(|d| d.src)
        .collect();
    let ips: BTreeSet<_> = clients.iter().map(|client| client.ip()).collect();
    let expected = if case.name == "rebind-addr" {
        clients.len()
    } else {
        1
    };
    ensure!(
        ips.len() == expected,
        "{} addresses on {} paths",
        ips.len(),
        clients.len()
    );
    Ok(format!("{paths} paths, all challenged and answered"))
}

fn migration(case: &Case, seen: &Evidence) -> Result<String> {
    let paths = challenged_paths(seen)?;
    let mut by_place: BTreeMap<std::net::SocketAddr, Vec<&Packet>> = BTreeMap::new();
    let mut order = Vec::new();
    for packet in seen.by_client() {
        let Some(datagram) = seen.left.datagram_of(packet) else {
            continue;
        };
        let place = by_place.entry(datagram.dst).or_default();
        if place.is_empty() {
            order.push(datagram.dst);
        }
        place.push(packet);
    }
    let [old, new] = order.as_slice() else {
        bail!("the client sent to {} addresses", order.len());
    };
    let family = if new.is_ipv4() {
        Family::V4
    } else {
        Family::V6
    };
    ensure!(case.preferred == Some(family), "the client moved to {new}");
    let ids = |place| -> BTreeSet<&Vec<u8>> {
        let packets = by_place.get(place).into_iter().flatten();
        packets.map(|packet| &packet.dcid).collect()
    };
    ensure!(
        ids(old).is_disjoint(&ids(new)),
        "a connection ID of {old} is used at {new} too"
    );
    let moved = by_place.get(new).map_or(0, Vec::len);
    let stayed = by_place.get(old).map_or(0, Vec::len);
    ensure!(
        moved > stayed,
        "{stayed} packets to {old}, only {moved} to {new}"
    );
    let last = seen
        .by_client()
        .last()
        .and_then(|packet| seen.left.datagram_of(packet));
    ensure!(
        last.is_some_and(|datagram| datagram.dst == *new),
        "the client went back"
    );
    Ok(format!(
        "{paths} paths; {stayed} packets to {old}, then {moved} to {new}"
    ))
}

#[cfg(test)]
mod tests;
