//! `tautline get`: files over HTTP/3.
//!
//! Purpose: downloads that resume, several at once over one connection per server; what a server
//! rejects or gives up is asked for again.
//! Owns: what to fetch and where to put it (here, `target.rs`), part files (`part.rs`), the
//! transfer (`origin.rs`).
//! Does not own: reaching a host that has several addresses (`tautline`).
//! Called by: `main`; [`crate::interop`] uses [`Origin`].
//! Spec: RFC 9110, RFC 9114.

mod origin;
mod part;
mod target;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    pin::pin,
    sync::Arc,
    time::Duration,
};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use tautline::{Endpoint, TransportConfig};
use tokio::{
    sync::{Mutex, Semaphore},
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{
    checksum::Digest,
    erasure::Asked,
    failure::{Failure, Outcome},
    options::{TransportOptions, TrustOptions, client_endpoint},
    output::print,
    paths::{Ledger, PathOptions},
    signals::{asked_to_stop, outlive_file_size_limit},
};
use origin::Again;
pub(crate) use origin::{Job, Origin, Protocol};
pub(crate) use part::Out;
use target::OriginKey;
pub(crate) use target::Target;

/// Closing connections get this long to say goodbye.
const GOODBYE: Duration = Duration::from_secs(1);

/// How often a file is asked for, the first time included.
const MAX_ATTEMPTS: u32 = 4;
/// Before the second attempt; four times as long before each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// What to download and whom to trust.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to download: https://HOST[:PORT]/PATH (several at once)
    #[arg(required = true, value_name = "URL")]
    urls: Vec<Target>,
    /// Write to this file, or to standard output if it is - (one URL only) [default: the URL's
    /// last part]
    #[arg(long, short, value_name = "FILE", conflicts_with = "dir")]
    output: Option<PathBuf>,
    /// Write into this directory
    #[arg(long, short, value_name = "DIR")]
    dir: Option<PathBuf>,
    #[command(flatten)]
    trust: TrustOptions,
    #[command(flatten)]
    transport: TransportOptions,
    #[command(flatten)]
    paths: PathOptions,
    /// Fail unless the file has this SHA-256 checksum (one URL only)
    #[arg(long, value_name = "HEX")]
    sha256: Option<Digest>,
    /// Files under way at once
    #[arg(long, short = 'j', value_name = "N", default_value_t = 8,
          value_parser = clap::value_parser!(u16).range(1..))]
    parallel: u16,
    /// Ask by HTTP/0.9 (ALPN hq-interop) instead of HTTP/3; such downloads cannot resume
    #[arg(long)]
    http09: bool,
    /// No progress bars
    #[arg(long, short)]
    quiet: bool,
}

/// Downloads everything; fails if one download failed, after the others are done.
pub(crate) async fn run(args: Args) -> Outcome {
    outlive_file_size_limit();
    let jobs = plan(&args)?;
    let total = jobs.len();
    let protocol = if args.http09 {
        Protocol::Http09
    } else {
        Protocol::Http3
    };
    let mut transport = TransportConfig::default();
    args.transport.apply(&mut transport)?;
    args.paths.apply(&args.transport, &mut transport);
    let mut config = args.trust.tls()?.alpn([protocol.alpn()]).build()?;
    config.transport = Arc::new(transport);
    let endpoint = client_endpoint()?;
    endpoint.set_default_client_config(config);

    let mut origins = BTreeMap::<OriginKey, Vec<Job>>::new();
    for job in jobs {
        origins.entry(job.target.origin()).or_default().push(job);
    }
    let shared = Arc::new(Shared {
        endpoint: endpoint.clone(),
        trust: args.trust,
        paths: args.paths,
        ledgers: Mutex::default(),
        erasure: args.transport.fec.is_some().then(Mutex::default),
        protocol,
        progress: Progress::new(args.quiet),
        turns: Semaphore::new(args.parallel.into()),
    });
    let mut work = JoinSet::new();
    for (origin, jobs) in origins {
        work.spawn(from_origin(Arc::clone(&shared), origin, jobs));
    }
    let mut failures = Vec::new();
    let mut interrupted = false;
    let mut asked = pin!(asked_to_stop());
    loop {
        tokio::select! {
            failed = work.join_next() => match failed {
                Some(failed) => {
                    failures.extend(failed.map_err(|error| Failure::new(error.to_string()))?);
                }
                None => break,
            },
            told = asked.as_mut() => {
                told?;
                if interrupted {
                    return Err(Failure::interrupted("interrupted twice"));
                }
                interrupted = true;
                asked.set(asked_to_stop());
                // Every transfer breaks, and keeps what it has.
                endpoint.close(h3::error::Code::H3_REQUEST_CANCELLED.value(), b"interrupted");
            }
        }
    }
    for ledger in shared.ledgers.lock().await.drain(..) {
        for path in ledger.figures() {
            eprintln!("{path}");
        }
    }
    if let Some(erasure) = &shared.erasure {
        for ((host, port), asked) in erasure.lock().await.iter() {
            eprintln!("erasure    {host}:{port}: {}", asked.figures());
        }
    }
    // Whoever does not answer any more times out.
    let _ = timeout(GOODBYE, endpoint.wait_idle()).await;
    match (failures.len(), failures.pop()) {
        (0, _) | (_, None) => Ok(()),
        _ if interrupted => Err(Failure::interrupted(
            "interrupted; the same command goes on from what arrived of resumable files",
        )),
        (1, Some(failure)) => Err(failure),
        (count, Some(last)) => {
            failures
                .iter()
                .chain([&last])
                .for_each(|failure| eprintln!("tautline: {failure}"));
            Err(Failure::new(format!("{count} of {total} downloads failed")))
        }
    }
}

/// Says which URL becomes which file.
fn plan(args: &Args) -> Outcome<Vec<Job>> {
    if args.urls.len() > 1 && (args.output.is_some() || args.sha256.is_some()) {
        return Err(Failure::new("--output and --sha256 go with one URL only"));
    }
    if let Some(dir) = &args.dir {
        std::fs::create_dir_all(dir)
            .map_err(|error| Failure::file("make directory", dir, &error))?;
    }
    let mut taken = BTreeSet::new();
    let mut jobs = Vec::new();
    for target in &args.urls {
        let out = match &args.output {
            Some(path) if path.as_os_str() == "-" => Out::Stdout,
            Some(path) => Out::File(path.clone()),
            None => {
                let path = args
                    .dir
                    .clone()
                    .unwrap_or_default()
                    .join(target.file_name());
                Out::File(path)
            }
        };
        if let Out::File(path) = &out
            && !taken.insert(path.clone())
        {
            let path = path.display();
            return Err(Failure::new(format!("two of the URLs would become {path}")));
        }
        jobs.push(Job {
            target: target.clone(),
            out,
            expected: args.sha256,
        });
    }
    Ok(jobs)
}

/// What all downloads share.
struct Shared {
    endpoint: Endpoint,
    trust: TrustOptions,
    paths: PathOptions,
    /// Of all connections there were, if several paths are wanted.
    ledgers: Mutex<Vec<Ledger>>,
    /// All connections there were and their servers, if erasure correction is wanted.
    erasure: Option<Mutex<Vec<(OriginKey, Asked)>>>,
    protocol: Protocol,
    progress: Progress,
    /// For the files that may be under way at once.
    turns: Semaphore,
}

impl Shared {
    async fn connect(&self, key: &OriginKey) -> Outcome<Origin> {
        let (host, port) = key;
        let connected = self.paths.connect(&self.trust, &self.endpoint, host, *port);
        let (quic, ledger) = connected.await?;
        if self.paths.wanted() {
            self.ledgers.lock().await.push(ledger);
        }
        if let Some(erasure) = &self.erasure {
            let asked = (key.clone(), Asked::on(&quic));
            erasure.lock().await.push(asked);
        }
        Origin::new(quic, self.protocol).await
    }
}

/// Everything from one server; returns what failed.
async fn from_origin(shared: Arc<Shared>, key: OriginKey, jobs: Vec<Job>) -> Vec<Failure> {
    let server = match Server::reach(Arc::clone(&shared), key).await {
        Ok(server) => Arc::new(server),
        // Each of its files fails, and is counted.
        Err(failure) => {
            let failed = jobs.iter().map(|job| failure.clone().at(&job.target));
            return failed.collect();
        }
    };
    let mut work = JoinSet::new();
    for job in jobs {
        let (server, shared) = (Arc::clone(&server), Arc::clone(&shared));
        work.spawn(async move {
            let progress = &shared.progress;
            // The semaphore is never closed.
            let _turn = shared.turns.acquire().await;
            let bar = progress.bar(&job);
            let outcome = server.fetch(&job, &bar).await;
            progress.done(&bar);
            outcome
                .and_then(|digest| progress.report(&job, digest))
                .err()
                .map(|failure| failure.at(&job.target))
        });
    }
    let mut failures = Vec::new();
    while let Some(outcome) = work.join_next().await {
        failures.extend(outcome.unwrap_or_else(|error| Some(Failure::new(error.to_string()))));
    }
    server.origin.lock().await.close();
    failures
}

/// A server, and the connection to it that takes requests.
struct Server {
    shared: Arc<Shared>,
    key: OriginKey,
    origin: Mutex<Origin>,
}

impl Server {
    async fn reach(shared: Arc<Shared>, key: OriginKey) -> Outcome<Self> {
        let origin = Mutex::new(shared.connect(&key).await?);
        Ok(Self {
            shared,
            key,
            origin,
        })
    }

    /// Fetches a file, and asks again where RFC 9114 lets us: what the server rejected, gave up or
    /// left unanswered when it went away.
    async fn fetch(&self, job: &Job, bar: &ProgressBar) -> Outcome<Digest> {
        let mut attempts = 1;
        loop {
            let origin = self.origin.lock().await.clone();
            let broken = match origin.fetch(job, bar).await {
                Ok(digest) => return Ok(digest),
                Err(broken) => broken,
            };
            let Some(again) = broken.again.filter(|_| attempts < MAX_ATTEMPTS) else {
                return Err(broken.after(attempts));
            };
            sleep(FIRST_PAUSE * 4_u32.pow(attempts - 1)).await;
            attempts += 1;
            if again == Again::Elsewhere {
                let mut current = self.origin.lock().await;
                // Unless another download was faster.
                if current.is(&origin) {
                    let connected = self.shared.connect(&self.key).await;
                    *current = connected.map_err(|failure| broken.instead(failure))?;
                }
            }
        }
    }
}

/// Bars on the terminal.
struct Progress {
    bars: MultiProgress,
}

impl Progress {
    fn new(quiet: bool) -> Self {
        // indicatif draws nothing by itself where standard error is no terminal.
        let target = if quiet {
            ProgressDrawTarget::hidden()
        } else {
            ProgressDrawTarget::stderr()
        };
        Self {
            bars: MultiProgress::with_draw_target(target),
        }
    }

    fn bar(&self, job: &Job) -> ProgressBar {
        const TEMPLATE: &str =
            "{msg:24!} {wide_bar} {bytes:>10}/{total_bytes:10} {bytes_per_sec:>12} {eta:>4}";
        let style =
            ProgressStyle::with_template(TEMPLATE).unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = self.bars.add(ProgressBar::no_length().with_style(style));
        bar.set_message(job.target.file_name());
        bar
    }

    fn done(&self, bar: &ProgressBar) {
        bar.finish_and_clear();
        self.bars.remove(bar);
    }

    /// A line as `sha256sum` writes and checks it.
    fn report(&self, job: &Job, digest: Digest) -> Outcome {
        self.bars.suspend(|| match &job.out {
            Out::File(path) => print(&format!("{digest}  {}\n", path.display())),
            Out::Stdout => {
                eprintln!("{digest}  -");
                Ok(())
            }
        })
    }
}
