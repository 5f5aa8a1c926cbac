//! The results for programs. Same seed, same text.

use serde::Serialize;

use super::{Beside, Run, cell::Measured, pairs, requests};
use crate::failure::{Failure, Outcome};

#[derive(Serialize)]
struct Document<'a> {
    tautline: &'static str,
    seed: u64,
    file: File<'a>,
    fec: Option<&'a str>,
    transfers: Vec<Pair<'a>>,
    requests: requests::Answers<'a>,
    pairs: pairs::Answers<'a>,
}

/// A plain transfer, and the same with erasure correction.
#[derive(Serialize)]
struct Pair<'a> {
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
    link: &'a str,
    controller: &'a str,
    verified: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<&'a str>,
    time_seconds: Option<f64>,
    handshake_seconds: Option<f64>,
    delivered_bytes: u64,
    goodput_bits_per_second: Option<f64>,
    capacity_bits_per_second: f64,
    bound_r_bits_per_second: f64,
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

fn pair(Beside { plain, coded }: Beside<'_>) -> Pair<'_> {
    Pair {
        plain: transfer(plain),
        with_fec: coded.map(transfer),
    }
}

fn transfer(cell: &Measured) -> Transfer<'_> {
    Transfer {
        link: &cell.link,
        controller: &cell.controller,
        verified: cell.verified,
        problem: cell.problem.as_deref(),
        time_seconds: cell.completion.map(|time| time.as_secs_f64()),
        handshake_seconds: cell.handshake.map(|time| time.as_secs_f64()),
        delivered_bytes: cell.delivered,
        goodput_bits_per_second: cell.goodput(),
        capacity_bits_per_second: cell.capacity(),
        bound_r_bits_per_second: cell.bound(),
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
