//! Two paths between Tautline and noq over two emulated links of 20 Mb/s; bytes are compared, and one
//! path is abandoned half-way.
//!
//! Everything is one process: relays in threads of their own play the simulator's links in real time
//! (`relay.rs`), the stacks meet through them (`stacks.rs`). Prints Markdown; ends with status 1 when
//! a bar fails.

mod relay;
mod stacks;
mod transfer;

use std::{
    net::Ipv4Addr,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use relay::{Carried, Relay};
use stacks::Stack;

const USAGE: &str = "\
interop-multipath [options]

  --mb N            megabytes (10^6) per transfer (default 100)
  --rate N          Mb/s of each link (default 20)
  --rtt N           ms of each link (default 20)
  --scheduler NAME  path scheduler of Tautline (default auto)
  --only N          only this run, counted from 1
  --no-abandon      keep both paths to the end";

/// Each of two equal paths must carry this much while both are there, where Tautline sends.
const LEAST_SHARE: f64 = 0.4;
/// Where noq sends, each path must carry this many bytes.
const LEAST_BYTES: u64 = 100_000;
/// A transfer that stands still for this long has failed.
const PATIENCE: Duration = Duration::from_secs(20);

struct Options {
    bytes: u64,
    rate: u64,
    rtt: Duration,
    scheduler: String,
    only: Option<usize>,
    abandons: bool,
}

fn options() -> Result<Options> {
    let mut options = Options {
        bytes: 100_000_000,
        rate: 20_000_000,
        rtt: Duration::from_millis(20),
        scheduler: "auto".to_owned(),
        only: None,
        abandons: true,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().context("an option lacks its value");
        match argument.as_str() {
            "--mb" => options.bytes = value()?.parse::<u64>()? * 1_000_000,
            "--rate" => options.rate = value()?.parse::<u64>()? * 1_000_000,
            "--rtt" => options.rtt = Duration::from_millis(value()?.parse()?),
            "--scheduler" => options.scheduler = value()?,
            "--only" => options.only = Some(value()?.parse()?),
            "--no-abandon" => options.abandons = false,
            _ => bail!("{USAGE}"),
        }
    }
    Ok(options)
}

/// Who is which end, and who sends.
#[derive(Clone, Copy)]
struct Run {
    client: Stack,
    server: Stack,
    download: bool,
}

impl Run {
    fn sender(self) -> Stack {
        if self.download {
            self.server
        } else {
            self.client
        }
    }
}

const RUNS: [Run; 4] = [
    Run {
        client: Stack::Noq,
        server: Stack::Tautline,
        download: true,
    },
    Run {
        client: Stack::Tautline,
        server: Stack::Noq,
        download: false,
    },
    Run {
        client: Stack::Tautline,
        server: Stack::Noq,
        download: true,
    },
    Run {
        client: Stack::Noq,
        server: Stack::Tautline,
        download: false,
    },
];

/// What came of a run.
struct Figures {
    /// Bytes over each link, from the sender, until the path was abandoned, and at the end.
    half_way: [u64; 2],
    end: [u64; 2],
    seconds: f64,
}

impl Figures {
    fn share(&self) -> f64 {
        let [first, second] = self.half_way.map(|bytes| bytes as f64);
        first.min(second) / (first + second).max(1.0)
    }
}

fn main() -> ExitCode {
    let outcome = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(anyhow::Error::from)
        .and_then(|runtime| runtime.block_on(run_all()));
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("interop-multipath: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run_all() -> Result<bool> {
    let options = options()?;
    println!(
        "| client | server | sender | s | bytes over path 0, path 1 until one is abandoned | smaller \
         share | afterwards | bytes compared | bar |\n|---|---|---|--:|--:|--:|--:|:-:|:-:|"
    );
    let mut all = true;
    for (index, run) in RUNS.into_iter().enumerate() {
        if options.only.is_some_and(|only| only != index + 1) {
            continue;
        }
        let [client, server, sender] = [run.client, run.server, run.sender()].map(Stack::name);
        let row = format!("| {client} | {server} | {sender} |");
        match play(&options, run, index).await {
            Ok(figures) => {
                let good = match run.sender() {
                    Stack::Tautline => figures.share() >= LEAST_SHARE,
                    Stack::Noq => figures.half_way.iter().all(|bytes| *bytes >= LEAST_BYTES),
                };
                all &= good;
                let ([a, b], [c, d]) = (figures.half_way, figures.end);
                println!(
                    "{row} {:.1} | {a}, {b} | {:.1} % | {}, {} | ✓ | {} |",
                    figures.seconds,
                    100.0 * figures.share(),
                    c - a,
                    d - b,
                    if good { "✓" } else { "✗" },
                );
            }
            Err(error) => {
                all = false;
                println!("{row} | | | | ✗ {error:#} | ✗ |");
            }
        }
    }
    Ok(all)
}

async fn play(options: &Options, run: Run, index: usize) -> Result<Figures> {
    let identity = tautline::tls::self_signed(["localhost"])?;
    let (address, _server) = run.server.serve(&identity, &options.scheduler)?;
    let relay = |last: u8| {
        let link = relay::link(options.rate, options.rtt);
        Relay::start(Ipv4Addr::new(127, 0, 0, last), address, link, last.into())
    };
    let relays = [relay(11)?, relay(12)?];
    let remotes = [relays[0].address, relays[1].address];
    let connecting = run.client.connect(&identity, &options.scheduler, remotes);
    let client = tokio::time::timeout(PATIENCE, connecting)
        .await
        .context("no connection with two paths in time")??;
    let progress = Arc::new(AtomicU64::new(0));
    let carried = relays.map(|relay| relay.carried);
    let base = read(&carried, run.download);
    let count = || {
        let now = read(&carried, run.download);
        [now[0] - base[0], now[1] - base[1]]
    };
    let start = Instant::now();
    let watching = async {
        let mut half_way = None;
        let (mut last, mut since) = (0, Instant::now());
        loop {
            tokio::time::sleep(Duration::from_millis(5)).await;
            let done = progress.load(Ordering::Relaxed);
            if done > last {
                (last, since) = (done, Instant::now());
            } else if since.elapsed() > PATIENCE && done < options.bytes {
                return Err(anyhow::anyhow!("it stands still after {done} bytes"));
            }
            if half_way.is_none() && done >= options.bytes / 2 {
                half_way = Some(count());
                if options.abandons {
                    client.abandon(index.is_multiple_of(2))?;
                }
            }
            if let Some(half_way) = half_way
                && done >= options.bytes
            {
                return Ok(half_way);
            }
        }
    };
    let transfer = async {
        let whole = client.transfer(run.download, options.bytes, &progress);
        whole.await.context("transfer")
    };
    let (half_way, ()) = tokio::try_join!(watching, transfer)?;
    let figures = Figures {
        half_way,
        end: count(),
        seconds: start.elapsed().as_secs_f64(),
    };
    client.end().await;
    Ok(figures)
}

/// Bytes over each link, towards the client or the server.
fn read(carried: &[Arc<Carried>; 2], to_client: bool) -> [u64; 2] {
    [0, 1].map(|index| carried[index].towards(to_client))
}
