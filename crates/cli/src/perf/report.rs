//! Results, for people and as JSON.

use std::{fmt, time::Duration};

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::{erasure::ErasureCorrection, paths::PathFigures};

/// What was measured on one connection. Goodput counts stream bytes.
#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
    pub(super) server: String,
    /// Of this end; it governs uploads.
    pub(super) congestion_controller: String,
    pub(super) handshake_seconds: f64,
    pub(super) smoothed_rtt_seconds: f64,
    pub(super) download: Option<Bulk>,
    pub(super) upload: Option<Bulk>,
    pub(super) requests: Option<Requests>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) erasure_correction: Option<ErasureCorrection>,
    /// Where several were wanted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) paths: Vec<PathFigures>,
}

/// A transfer.
#[derive(Debug, Serialize)]
pub(super) struct Bulk {
    bytes: u64,
    streams: u16,
    seconds: f64,
    goodput_bytes_per_second: f64,
}

/// Many small exchanges. Latency: from opening the stream to the end of the response.
#[derive(Debug, Serialize)]
pub(super) struct Requests {
    count: u64,
    concurrency: u16,
    seconds: f64,
    requests_per_second: f64,
    latency_microseconds: Latencies,
}

#[derive(Debug, Serialize)]
struct Latencies {
    min: u64,
    mean: f64,
    p50: u64,
    p90: u64,
    p99: u64,
    p99_9: u64,
    max: u64,
}

/// Per second, for times that may be too short to measure.
fn rate(count: u64, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64().max(1e-9)
}

impl Bulk {
    pub(super) fn new(bytes: u64, streams: u16, time: Duration) -> Self {
        Self {
            bytes,
            streams,
            seconds: time.as_secs_f64(),
            goodput_bytes_per_second: rate(bytes, time),
        }
    }
}

impl Requests {
    pub(super) fn new(latencies: &Histogram<u64>, concurrency: u16, time: Duration) -> Self {
        let at = |quantile| latencies.value_at_quantile(quantile);
        Self {
            count: latencies.len(),
            concurrency,
            seconds: time.as_secs_f64(),
            requests_per_second: rate(latencies.len(), time),
            latency_microseconds: Latencies {
                min: latencies.min(),
                mean: latencies.mean(),
                p50: at(0.5),
                p90: at(0.9),
                p99: at(0.99),
                p99_9: at(0.999),
                max: latencies.max(),
            },
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = 1e3 * self.handshake_seconds;
        writeln!(
            f,
            "handshake  {millis:.1} ms, smoothed RTT {:.3} ms",
            1e3 * self.smoothed_rtt_seconds
        )?;
        for (what, bulk) in [("download", &self.download), ("upload", &self.upload)] {
            if let Some(bulk) = bulk {
                writeln!(
                    f,
                    "{what:10} {} bytes in {:.3} s over {} stream(s): {:.1} Mb/s",
                    bulk.bytes,
                    bulk.seconds,
                    bulk.streams,
                    bulk.goodput_bytes_per_second * 8e-6,
                )?;
            }
        }
        if let Some(requests) = &self.requests {
            let Latencies {
                p50,
                p90,
                p99,
                p99_9,
                max,
                ..
            } = requests.latency_microseconds;
            writeln!(
                f,
                "requests   {} in {:.3} s, {} at once: {:.0} per second\n\
                 latency    p50 {p50} µs, p90 {p90} µs, p99 {p99} µs, p99.9 {p99_9} µs, max {max} µs",
                requests.count,
                requests.seconds,
                requests.concurrency,
                requests.requests_per_second,
            )?;
        }
        if let Some(fec) = &self.erasure_correction {
            writeln!(f, "erasure    {fec}")?;
        }
        for path in &self.paths {
            writeln!(f, "{path}")?;
        }
        Ok(())
    }
}
