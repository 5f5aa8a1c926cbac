//! The results for programs. Same seed, same text.

use serde::Serialize;

use super::{Beside, Run, apps::SenderView, cell::Measured, pairs, requests, runs::Runs};
use crate::failure::{Failure, Outcome};

#[derive(Serialize)]
struct Document<'a> {
    tautline: &'static str,
    seed: u64,
    /// Runs of each transfer, with seeds from `seed` on.
    seeds: usize,
    file: File<'a>,
    fec: Option<&'a str>,
    transfers: Vec<Pair<'a>>,
    requests: requests::Answers<'a>,
    pairs: pairs::Answers<'a>,
}

/// A plain transfer, and the same with erasure correction: medians, and the runs that they are of.
#[derive(Serialize)]
struct Pair<'a> {
    link: &'a str,
    controller: &'a str,
    capacity_bits_per_second: f64,
    bound_r_bits_per_second: f64,
    #[serde(flatten)]
    plain: Medians,
    #[serde(skip_serializing_if = "Option::is_none")]
    with_fec: Option<Medians>,
    /// With erasure correction / without, of the same seed.
    #[serde(skip_serializing_if = "Option::is_none")]
    time_ratio: Option<f64>,
    runs: Vec<OfSeed<'a>>,
}

/// A failed run is worse than all others; `null` is what lies among such.
#[derive(Serialize)]
struct Medians {
    /// All runs.
    verified: bool,
    time_seconds: Option<f64>,
    goodput_bits_per_second: Option<f64>,
    utilisation: Option<f64>,
    packets_lost: Option<f64>,
    packets_dropped: Option<f64>,
    retransmitted_bytes: Option<f64>,
    repair_symbols_sent: Option<f64>,
}

#[derive(Serialize)]
struct OfSeed<'a> {
    seed: u64,
    #[serde(flatten)]
    plain: Transfer<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    with_fec: Option<Transfer<'a>>,
}

#[derive(Serialize)]
struct File<'a> {
    name: &'a str,
    bytes: u64,
    sha256: String,
}

/// Rates in bits per second; packets and bytes are those of the server, recovered and wasted those of
/// the client.
#[derive(Serialize)]
struct Transfer<'a> {
    verified: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<&'a str>,
    time_seconds: Option<f64>,
    handshake_seconds: Option<f64>,
    delivered_bytes: u64,
    goodput_bits_per_second: Option<f64>,
    utilisation: Option<f64>,
    #[serde(flatten)]
    sender: Option<Sender>,
    packets_recovered: u64,
    repair_symbols_wasted: u64,
    dropped_by_queue: u64,
    dropped_by_loss: u64,
    dropped_by_mtu: u64,
    sha256: Option<String>,
    trace_sha256: Option<&'a str>,
}

#[derive(Serialize)]
struct Sender {
    packets_sent: u64,
    packets_lost: u64,
    packets_lost_spuriously: u64,
    probe_timeouts: u64,
    retransmitted_bytes: u64,
    udp_payload_bytes: u64,
    repair_symbols_sent: u64,
    smoothed_rtt_seconds: f64,
    datagram_bytes: u16,
}

/// The document, with a line end.
pub(super) fn text(run: &Run) -> Outcome<String> {
    let document = Document {
        tautline: env!("CARGO_PKG_VERSION"),
        seed: run.seed,
        seeds: run.seeds,
        file: File {
            name: &run.payload.name,
            bytes: run.payload.len(),
            sha256: run.payload.digest.to_string(),
        },
        fec: run.fec.as_deref(),
        transfers: run.pairs().map(pair).collect(),
        requests: requests::answers(&run.requests),
        pairs: pairs::answers(&run.pairs),
    };
    serde_json::to_string_pretty(&document)
        .map(|text| text + "\n")
        .map_err(|error| Failure::new(format!("cannot write JSON: {error}")))
}

fn pair(pair: Beside<'_>) -> Pair<'_> {
    let first = pair.plain.first;
    Pair {
        link: &first.link,
        controller: &first.controller,
        capacity_bits_per_second: first.capacity(),
        bound_r_bits_per_second: first.bound(),
        plain: medians(pair.plain),
        with_fec: pair.coded.map(medians),
        time_ratio: pair.ratio(),
        runs: pair.by_seed().map(of_seed).collect(),
    }
}

fn of_seed<'a>((plain, coded): (&'a Measured, Option<&'a Measured>)) -> OfSeed<'a> {
    OfSeed {
        seed: plain.seed,
        plain: transfer(plain),
        with_fec: coded.map(transfer),
    }
}

fn medians(runs: Runs<'_>) -> Medians {
    let sent = |figure: fn(&SenderView) -> u64| runs.count(|run| run.sender.as_ref().map(figure));
    Medians {
        verified: runs.succeeded(),
        time_seconds: runs.seconds(),
        goodput_bits_per_second: runs.goodput(),
        utilisation: runs.utilisation(),
        packets_lost: sent(|sender| sender.path.recovery.packets_lost),
        packets_dropped: runs.count(|run| Some(run.wire.dropped.total())),
        retransmitted_bytes: sent(|sender| sender.streams.retransmitted_bytes),
        repair_symbols_sent: sent(|sender| sender.fec.repairs_sent),
    }
}

fn transfer(cell: &Measured) -> Transfer<'_> {
    Transfer {
        verified: cell.verified,
        problem: cell.problem.as_deref(),
        time_seconds: cell.seconds(),
        handshake_seconds: cell.handshake.map(|time| time.as_secs_f64()),
        delivered_bytes: cell.delivered,
        goodput_bits_per_second: cell.goodput(),
        utilisation: cell.utilisation(),
        sender: cell.sender.map(|view| Sender {
            packets_sent: view.connection.packets_sent,
            packets_lost: view.path.recovery.packets_lost,
            packets_lost_spuriously: view.path.recovery.spurious_losses,
            probe_timeouts: view.path.recovery.ptos,
            retransmitted_bytes: view.streams.retransmitted_bytes,
            udp_payload_bytes: view.connection.bytes_sent,
            repair_symbols_sent: view.fec.repairs_sent,
            smoothed_rtt_seconds: view.path.rtt.as_secs_f64(),
            datagram_bytes: view.path.mtu,
        }),
        packets_recovered: cell.receiver_fec.recovered,
        repair_symbols_wasted: cell.receiver_fec.wasted,
        dropped_by_queue: cell.wire.dropped.queue,
        dropped_by_loss: cell.wire.dropped.loss,
        dropped_by_mtu: cell.wire.dropped.mtu,
        sha256: cell.digest.map(|digest| digest.to_string()),
        trace_sha256: cell.trace.as_deref(),
    }
}
