//! The measuring end.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use hdrhistogram::Histogram;
use tautline::{Connection, Profile};
use tokio::{
    task::JoinSet,
    time::{Instant, timeout},
};

use super::{
    ClientArgs,
    protocol::{ALPN, drain, write_zeros},
    report::{Bulk, Report, Requests},
};
use crate::{
    erasure::Asked,
    failure::{Failure, Outcome},
    options::client_endpoint,
    output::print,
};

/// Latencies are kept from 1 µs to this, to three digits.
const MAX_LATENCY: Duration = Duration::from_secs(600);
const GOODBYE: Duration = Duration::from_secs(1);

pub(super) async fn run(args: ClientArgs) -> Outcome {
    let (host, port) = host_and_port(&args.server)?;
    let mut transport = Profile::Bulk.config();
    args.transport.apply(&mut transport)?;
    args.paths.apply(&args.transport, &mut transport);
    let mut config = args.trust.tls()?.alpn([ALPN]).build()?;
    config.transport = Arc::new(transport);
    let endpoint = client_endpoint()?;
    endpoint.set_default_client_config(config);

    let start = Instant::now();
    let connected = args.paths.connect(&args.trust, &endpoint, host, port);
    let (connection, ledger) = connected.await?;
    let mut report = Report {
        server: args.server.clone(),
        congestion_controller: args.transport.cc.clone(),
        handshake_seconds: start.elapsed().as_secs_f64(),
        ..Report::default()
    };
    if args.download > 0 {
        report.download = Some(bulk(&connection, args.streams, 0, args.download).await?);
    }
    if args.upload > 0 {
        report.upload = Some(bulk(&connection, args.streams, args.upload, 0).await?);
    }
    if args.requests > 0 {
        report.requests = Some(requests(&connection, &args).await?);
    }
    if args.transport.fec.is_some() {
        report.erasure_correction = Some(Asked::on(&connection).figures());
    }
    if args.paths.wanted() {
        report.paths = ledger.figures();
    }
    report.smoothed_rtt_seconds = connection.rtt().as_secs_f64();
    connection.close(0, b"");
    let _ = timeout(GOODBYE, endpoint.wait_idle()).await;

    let json = serde_json::to_string_pretty(&report)
        .map_err(|error| Failure::new(format!("cannot write the report: {error}")))?;
    if let Some(path) = &args.json_file {
        std::fs::write(path, &json).map_err(|error| Failure::file("write", path, &error))?;
    }
    print(&if args.json {
        format!("{json}\n")
    } else {
        report.to_string()
    })
}

fn host_and_port(server: &str) -> Outcome<(&str, u16)> {
    let split = server.rsplit_once(':');
    let parsed = split.and_then(|(host, port)| Some((host, port.parse().ok()?)));
    parsed.filter(|(host, _)| !host.is_empty()).ok_or_else(|| {
        Failure::new(format!(
            "{server:?} is not HOST:PORT, for instance localhost:4434"
        ))
    })
}

/// One exchange; bytes that came back.
async fn exchange(connection: &Connection, up: u64, down: u64) -> Outcome<u64> {
    let (mut send, mut recv) = connection.open_bi().await?;
    send.write_all(&down.to_be_bytes()).await?;
    write_zeros(&mut send, up).await?;
    // Fails only with the connection, which reading tells.
    let _ = send.finish();
    let received = drain(&mut recv).await?;
    if received != down {
        return Err(Failure::new(format!(
            "asked for {down} bytes and got {received}"
        )));
    }
    Ok(received)
}

/// Moves bytes over several streams at once, shared evenly.
async fn bulk(connection: &Connection, streams: u16, up: u64, down: u64) -> Outcome<Bulk> {
    let start = Instant::now();
    let mut work = JoinSet::new();
    for index in 0..u64::from(streams) {
        let share = |bytes: u64| {
            let streams = u64::from(streams);
            bytes / streams + u64::from(index < bytes % streams)
        };
        let (connection, up, down) = (connection.clone(), share(up), share(down));
        work.spawn(async move { exchange(&connection, up, down).await });
    }
    join(&mut work).await?;
    Ok(Bulk::new(up + down, streams, start.elapsed()))
}

async fn requests(connection: &Connection, args: &ClientArgs) -> Outcome<Requests> {
    let left = Arc::new(AtomicU64::new(args.requests));
    let start = Instant::now();
    let mut work = JoinSet::new();
    for _ in 0..args.concurrency {
        let (connection, left) = (connection.clone(), Arc::clone(&left));
        let (up, down) = (args.request_size, args.response_size);
        work.spawn(async move {
            let mut latencies = new_histogram()?;
            let take = |left: u64| left.checked_sub(1);
            while left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
                .is_ok()
            {
                let start = Instant::now();
                exchange(&connection, up, down).await?;
                let micros = u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX);
                latencies.saturating_record(micros.max(1));
            }
            Ok(latencies)
        });
    }
    let mut all = new_histogram()?;
    for latencies in join(&mut work).await? {
        all.add(&latencies)
            .map_err(|error| Failure::new(error.to_string()))?;
    }
    Ok(Requests::new(&all, args.concurrency, start.elapsed()))
}

fn new_histogram() -> Outcome<Histogram<u64>> {
    let max = u64::try_from(MAX_LATENCY.as_micros()).unwrap_or(u64::MAX);
    Histogram::new_with_bounds(1, max, 3).map_err(|error| Failure::new(error.to_string()))
}

/// All results, or the first failure.
async fn join<T: Send + 'static>(work: &mut JoinSet<Outcome<T>>) -> Outcome<Vec<T>> {
    let mut all = Vec::new();
    while let Some(done) = work.join_next().await {
        all.push(done.map_err(|error| Failure::new(error.to_string()))??);
    }
    Ok(all)
}
