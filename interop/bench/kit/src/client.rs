//! The client: loads and what they measure.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use bytes::Bytes;
use clap::{Args, ValueEnum};
use tokio::task::JoinSet;

use crate::{
    Connection, Opener, RecvHalf, SendHalf, Stack, Usage, heap,
    identity::Identity,
    server::{control, say},
};

/// What to do.
#[derive(Args, Clone, Debug)]
pub struct Load {
    /// The server.
    pub server: SocketAddr,
    /// Which load.
    #[arg(value_enum)]
    pub kind: LoadKind,
    /// Megabytes (10^6) to download, in all.
    #[arg(long, default_value_t = 1_000)]
    pub mb: u64,
    /// Streams, connections, or requests at once.
    #[arg(long, default_value_t = 1)]
    pub at_once: usize,
    /// How long to repeat requests or handshakes.
    #[arg(long, default_value_t = 5.0)]
    pub seconds: f64,
}

/// A load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LoadKind {
    /// Download over `at_once` streams of one connection.
    Bulk,
    /// Connect and close, `at_once` at a time.
    Handshakes,
    /// Small requests on one connection, `at_once` at a time.
    Requests,
    /// Hold `at_once` idle connections.
    Idle,
    /// Connect and close 1,000 and then 10,000 times.
    Cycles,
}

/// Time for the last packets, acknowledgements and timers of closed connections.
const SETTLE: Duration = Duration::from_secs(3);

pub(crate) async fn run<S: Stack>(identity: &Identity, load: &Load) -> Result<()> {
    let start = Usage::now();
    let client = Arc::new(S::client(identity)?);
    let figures = match load.kind {
        LoadKind::Bulk => bulk::<S>(&client, load).await?,
        LoadKind::Handshakes => handshakes::<S>(client, load).await?,
        LoadKind::Requests => requests::<S>(&client, load).await?,
        LoadKind::Idle => return idle::<S>(&client, load).await,
        LoadKind::Cycles => return cycles::<S>(&client, load).await,
    };
    say(&format!("{{{figures},{}}}", Usage::now().since(start)))
}

async fn download<O: Opener>(opener: O, bytes: u64) -> Result<u64> {
    let (mut send, mut recv) = opener.open().await?;
    send.send(Bytes::copy_from_slice(&bytes.to_be_bytes()))
        .await?;
    send.finish()?;
    let mut total = 0;
    while let Some(bytes) = recv.recv(|_| {}).await? {
        total += bytes as u64;
    }
    Ok(total)
}

async fn bulk<S: Stack>(client: &S::Client, load: &Load) -> Result<String> {
    let connection = S::connect(client, load.server).await?;
    let streams = load.at_once.max(1) as u64;
    let each = load.mb * 1_000_000 / streams;
    let start = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..streams {
        tasks.spawn(download(connection.opener(), each));
    }
    let mut total = 0;
    while let Some(done) = tasks.join_next().await {
        total += done??;
    }
    let seconds = start.elapsed().as_secs_f64();
    if total != each * streams {
        bail!("{total} bytes came instead of {}", each * streams);
    }
    let counters = connection.counters();
    let comma = if counters.is_empty() { "" } else { "," };
    connection.close();
    Ok(format!(
        "\"bytes\":{total},\"seconds\":{seconds:.6}{comma}{counters}"
    ))
}

async fn handshakes<S: Stack>(client: Arc<S::Client>, load: &Load) -> Result<String> {
    let (server, start) = (load.server, Instant::now());
    let end = start + Duration::from_secs_f64(load.seconds);
    let mut tasks = JoinSet::new();
    for _ in 0..load.at_once {
        let client = Arc::clone(&client);
        tasks.spawn(async move {
            let mut count = 0u64;
            while Instant::now() < end {
                S::connect(&client, server).await?.close();
                count += 1;
            }
            anyhow::Ok(count)
        });
    }
    let mut total = 0;
    while let Some(done) = tasks.join_next().await {
        total += done??;
    }
    Ok(format!(
        "\"count\":{total},\"seconds\":{:.6}",
        start.elapsed().as_secs_f64()
    ))
}

async fn requests<S: Stack>(client: &S::Client, load: &Load) -> Result<String> {
    let connection = S::connect(client, load.server).await?;
    let start = Instant::now();
    let end = start + Duration::from_secs_f64(load.seconds);
    let mut tasks = JoinSet::new();
    for _ in 0..load.at_once {
        tasks.spawn(request_until(connection.opener(), end));
    }
    let mut latencies = Vec::new();
    while let Some(done) = tasks.join_next().await {
        latencies.append(&mut done??);
    }
    let seconds = start.elapsed().as_secs_f64();
    connection.close();
    latencies.sort_unstable();
    let at = |share: f64| {
        let index = (latencies.len() as f64 * share) as usize;
        latencies
            .get(index.min(latencies.len().saturating_sub(1)))
            .copied()
            .unwrap_or(0)
    };
    Ok(format!(
        "\"count\":{},\"seconds\":{seconds:.6},\"p50_us\":{},\"p99_us\":{},\"p999_us\":{}",
        latencies.len(),
        at(0.5),
        at(0.99),
        at(0.999),
    ))
}

async fn request_until<O: Opener>(opener: O, end: Instant) -> Result<Vec<u32>> {
    let mut latencies = Vec::new();
    loop {
        let start = Instant::now();
        if start >= end {
            return Ok(latencies);
        }
        let (mut send, mut recv) = opener.open().await?;
        send.send(Bytes::from_static(b"?")).await?;
        send.finish()?;
        let mut total = 0;
        while let Some(bytes) = recv.recv(|_| {}).await? {
            total += bytes;
        }
        if total != 32 {
            bail!("an answer of {total} bytes");
        }
        latencies.push(start.elapsed().as_micros() as u32);
    }
}

/// Prints live heap bytes and waits for a line, so that the server can be asked too.
async fn report(
    orders: &mut tokio::sync::mpsc::UnboundedReceiver<String>,
    connections: u64,
) -> Result<()> {
    tokio::time::sleep(SETTLE).await;
    say(&format!(
        "{{\"connections\":{connections},\"live\":{}}}",
        heap::live_bytes()
    ))?;
    orders.recv().await;
    Ok(())
}

async fn idle<S: Stack>(client: &S::Client, load: &Load) -> Result<()> {
    let mut orders = control();
    // The first connection fills caches; it is not counted.
    let warm = S::connect(client, load.server).await?;
    report(&mut orders, 0).await?;
    let mut held = Vec::with_capacity(load.at_once);
    for _ in 0..load.at_once {
        held.push(S::connect(client, load.server).await?);
    }
    report(&mut orders, load.at_once as u64).await?;
    drop((warm, held));
    Ok(())
}

async fn cycles<S: Stack>(client: &S::Client, load: &Load) -> Result<()> {
    let mut orders = control();
    for (already, until) in [(0, 1_000), (1_000, 10_000)] {
        for _ in already..until {
            S::connect(client, load.server).await?.close();
        }
        report(&mut orders, until).await?;
    }
    Ok(())
}
