//! `tautline serve`: a directory over HTTP/3, HTTP/0.9 and HTTPS.
//!
//! Purpose: files for browsers and for `tautline get`, safe to leave running.
//! Owns: listening and stopping (here), what a path leads to (`files.rs`), what is answered
//! (`reply.rs`, `listing.rs`), how it is carried (`http3.rs`, `http09.rs`, `https.rs`).
//! Does not own: interop test cases ([`crate::interop`]), which reuse [`Server`].
//! Spec: RFC 9110, RFC 9114, RFC 7838.

mod dates;
mod descriptors;
pub(crate) mod files;
mod http09;
mod http3;
mod https;
mod listing;
mod patience;
mod reply;

use std::{
    future::pending,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use http::HeaderValue;
use tautline::{Connection, Endpoint, Incoming, TransportConfig};
use tokio::{
    sync::{Semaphore, watch},
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{
    erasure::Asked,
    failure::Outcome,
    http09 as hq,
    identity::{Identity, IdentityOptions},
    options::{TransportOptions, listen, listening},
    output::print,
    signals::asked_to_stop,
};
use files::Site;
use patience::Progress;

const DEFAULT_PORT: u16 = 4433;
/// What closes connections that nothing is wrong with. RFC 9114 s8.1.
const H3_NO_ERROR: u64 = 0x100;
/// What closes connections that there is no room for. RFC 9114 s8.1.
const H3_EXCESSIVE_LOAD: u64 = 0x107;
/// Requests of one QUIC connection that are answered at once; further ones wait for their turn.
const ANSWERS_AT_ONCE: usize = 32;
/// Requests of one QUIC connection that are kept at once, with up to 64 KiB of header fields each:
/// all that a client may have open, and some. A request that is taken back frees its stream, so that
/// the client may send another one, and yet stays until its turn has come.
const REQUESTS_AT_ONCE: usize = 128;
/// Closing connections get this long to say goodbye.
const GOODBYE: Duration = Duration::from_secs(3);

/// What to serve, where and how.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The directory to serve
    dir: PathBuf,
    /// Address and UDP port for QUIC, and TCP port for HTTPS [default: [::]:4433, or
    /// 0.0.0.0:4433 without IPv6]. Repeatable: QUIC is served at each, HTTPS at the first
    #[arg(long, short, value_name = "ADDR:PORT")]
    listen: Vec<SocketAddr>,
    #[command(flatten)]
    identity: IdentityOptions,
    #[command(flatten)]
    transport: TransportOptions,
    /// No HTTPS over TCP (browsers learn of HTTP/3 there, by the Alt-Svc field)
    #[arg(long)]
    no_tcp: bool,
    /// Make every client prove its address before the handshake (one round trip more)
    #[arg(long)]
    retry: bool,
    /// Serve and list names that start with a dot too
    #[arg(long)]
    hidden: bool,
    /// Do not list directories without an index.html
    #[arg(long)]
    no_listing: bool,
    /// Connections at once, over QUIC and over TCP each; further ones are refused
    #[arg(long, value_name = "N", default_value_t = 1000)]
    max_connections: usize,
    /// Seconds that a client may take for the handshake, for its first request, for sending a
    /// request, or without taking anything of its answers
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..))]
    patience: u64,
    /// Seconds that a client may stay without a further request; over QUIC, one that is not heard
    /// of at all is forgotten after 30
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..))]
    idle: u64,
    /// Seconds that running downloads get after SIGINT or SIGTERM; a second signal ends them
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    grace: u64,
    /// Print to standard error a line for each request, and at the end of each connection with
    /// erasure correction what that did
    #[arg(long, short)]
    verbose: bool,
}

/// What everything that answers requests shares.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) site: Site,
    /// For the next step of a client.
    pub(crate) patience: Duration,
    /// For a further request.
    pub(crate) idle: Duration,
    /// Turns true when it is time to go.
    pub(crate) stop: watch::Receiver<bool>,
    pub(crate) verbose: bool,
    /// For TCP clients.
    pub(crate) alt_svc: Option<HeaderValue>,
}

/// Runs until a signal.
pub(crate) async fn run(args: Args) -> Outcome {
    let max_open = descriptors::for_files(args.max_connections);
    let site = Site::new(&args.dir, args.hidden, !args.no_listing, max_open)?;
    let identity = args.identity.load()?;
    let mut transport = TransportConfig::default();
    args.transport.apply(&mut transport)?;
    transport.multipath = Some(args.transport.multipath());
    transport.handshake_timeout =
        Duration::from_secs(args.patience).min(transport.handshake_timeout);
    let mut config = identity
        .server_tls()
        .alpn([tautline_h3::ALPN, hq::ALPN])
        .build()?;
    config.transport = Arc::new(transport);
    config.max_connections = args.max_connections;
    // Beyond these, clients prove their address first: a flood of forged ones costs no more.
    config.max_incoming = (args.max_connections / 4).clamp(1, config.max_incoming);

    let endpoint = bind(&args.listen, &config)?;
    let local = endpoint.local_addr();
    let tcp = if args.no_tcp {
        None
    } else {
        Some(https::Listener::bind(local, &identity).await?)
    };
    announce(&site, &endpoint, &identity, tcp.is_some())?;
    if let Some(warning) = endpoint.socket_buffers().warning() {
        eprintln!("tautline: warning: {warning}");
    }

    let (stop, stopped) = watch::channel(false);
    let alt_svc = format!("h3=\":{}\"; ma=86400", local.port());
    let server = Arc::new(Server {
        site,
        patience: Duration::from_secs(args.patience),
        idle: Duration::from_secs(args.idle),
        stop: stopped,
        verbose: args.verbose,
        alt_svc: HeaderValue::from_str(&alt_svc).ok(),
    });
    let mut work = JoinSet::new();
    work.spawn(accept_quic(
        Arc::clone(&server),
        endpoint.clone(),
        args.max_connections,
        args.retry,
    ));
    if let Some(tcp) = tcp {
        work.spawn(tcp.serve(server, args.max_connections));
    }

    asked_to_stop().await?;
    eprintln!(
        "tautline: stopping; running downloads get {} s (again to stop at once)",
        args.grace
    );
    stop.send_replace(true);
    endpoint.stop_accepting();
    let all_done = async { while work.join_next().await.is_some() {} };
    tokio::select! {
        _ = timeout(Duration::from_secs(args.grace), all_done) => {}
        again = asked_to_stop() => again?,
    }
    endpoint.close(H3_NO_ERROR, b"the server stops");
    // If they do not listen, they time out by themselves.
    let _ = timeout(GOODBYE, endpoint.wait_idle()).await;
    Ok(())
}

fn bind(at: &[SocketAddr], config: &tautline::ServerConfig) -> Outcome<Endpoint> {
    if !at.is_empty() {
        return listen(config.clone(), at);
    }
    let any_v6 = SocketAddr::from((Ipv6Addr::UNSPECIFIED, DEFAULT_PORT));
    let any_v4 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, DEFAULT_PORT));
    Ok(Endpoint::server(config.clone(), any_v6)
        .or_else(|_| Endpoint::server(config.clone(), any_v4))?)
}

/// Tells on standard output where and who we are. The first line is for programs, too.
fn announce(site: &Site, endpoint: &Endpoint, identity: &Identity, tcp: bool) -> Outcome {
    let local = endpoint.local_addr();
    let host = match local {
        _ if local.ip().is_unspecified() || local.ip().is_loopback() => "localhost".to_owned(),
        SocketAddr::V4(v4) => v4.ip().to_string(),
        SocketAddr::V6(v6) => format!("[{}]", v6.ip()),
    };
    let (root, port) = (site.root().display(), local.port());
    let also = if tcp { " and HTTPS over TCP" } else { "" };
    let mut text = format!(
        "{}serving {root}\n  https://{host}:{port}/  (HTTP/3 over UDP{also})\n",
        listening(endpoint)
    );
    if let Some(fingerprint) = identity.fingerprint() {
        text += &format!("certificate SHA-256 {fingerprint}\n");
        if identity.self_signed {
            text += &format!(
                "  self-signed; get a file: tautline get --pin {fingerprint} https://{host}:{port}/FILE\n"
            );
        }
    }
    print(&text)
}

/// Takes clients in until the endpoint stops accepting, then waits for those it has.
pub(crate) async fn accept_quic(
    server: Arc<Server>,
    endpoint: Endpoint,
    max_connections: usize,
    retry: bool,
) {
    let room = Arc::new(Semaphore::new(max_connections.min(Semaphore::MAX_PERMITS)));
    let mut connections = JoinSet::new();
    loop {
        let incoming = tokio::select! {
            incoming = endpoint.accept() => incoming,
            Some(_) = connections.join_next() => continue,
        };
        let Some(incoming) = incoming else { break };
        if retry && !incoming.remote_address_validated() {
            // Fails only if it did that already.
            let _ = incoming.retry();
            continue;
        }
        // Clients that may not exist take nobody's place; the endpoint bounds how many there are.
        if incoming.remote_address_validated() && room.available_permits() == 0 {
            incoming.refuse();
            continue;
        }
        let room = Arc::clone(&room);
        drop(connections.spawn(one_client(Arc::clone(&server), incoming, room)));
    }
    while connections.join_next().await.is_some() {}
}

async fn one_client(server: Arc<Server>, incoming: Incoming, room: Arc<Semaphore>) {
    let remote = incoming.remote_address();
    let connection = match incoming.await {
        Ok(connection) => connection,
        Err(error) => {
            if server.verbose {
                eprintln!("{remote} handshake failed: {error}");
            }
            return;
        }
    };
    let Ok(_permit) = room.try_acquire_owned() else {
        connection.close(H3_EXCESSIVE_LOAD, b"the server is full");
        return;
    };
    let erasure = Asked::by_client(&connection).filter(|_| server.verbose);
    match connection.alpn().as_deref() {
        Some(hq::ALPN) => http09::serve(server, connection).await,
        _ => http3::serve(server, connection).await,
    }
    if let Some(asked) = erasure {
        eprintln!("{remote} erasure {}", asked.figures());
    }
}

impl Server {
    /// Resolves when it is time to go.
    pub(crate) async fn stopping(&self) {
        let mut stop = self.stop.clone();
        if stop.wait_for(|stop| *stop).await.is_err() {
            // Nobody is left who could stop us.
            pending::<()>().await;
        }
    }

    /// One line per request, if wanted.
    fn log(&self, remote: SocketAddr, protocol: &str, what: &str, outcome: &str) {
        if self.verbose {
            // What a client sends must not steer a terminal.
            eprintln!("{remote} {protocol} {} {outcome}", what.escape_debug());
        }
    }
}

/// Waits until the peer has all that was sent, the connection ends, or the peer takes nothing for
/// as long as patience lasts.
async fn delivered(server: &Server, connection: &Connection) {
    const LOOK_EVERY: Duration = Duration::from_millis(5);
    let all = async {
        while connection.close_reason().is_none()
            && connection.stream_stats().send_buffered_bytes > 0
        {
            sleep(LOOK_EVERY).await;
        }
    };
    // Who takes nothing any more gets no more.
    let _ = Progress::new(connection).wait(server.patience, all).await;
}

/// For [`crate::interop`]: a server of this site that is never told to stop.
pub(crate) fn plain_server(site: Site) -> (Arc<Server>, watch::Sender<bool>) {
    let (sender, stop) = watch::channel(false);
    let patience = Duration::from_secs(120);
    (
        Arc::new(Server {
            site,
            patience,
            idle: patience,
            stop,
            verbose: true,
            alt_svc: None,
        }),
        sender,
    )
}
