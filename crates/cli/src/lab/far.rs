//! `tautline lab far`.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use tautline_field::{
    far::{Far, Limits},
    token,
};
use tautline_lab::quantity::Span;
use tokio::time::timeout;

use crate::{
    failure::{Failure, Outcome},
    identity::IdentityOptions,
    options::{listening, parse_some_bytes},
    output::print,
    signals::asked_to_stop,
};

/// Closing connections get this long to say goodbye.
const GOODBYE: Duration = Duration::from_secs(2);

/// How to wait.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Address and UDP port, the only one that has to be let through
    #[arg(long, short, value_name = "ADDR:PORT", default_value = "[::]:4435")]
    listen: SocketAddr,

    /// The word by which peers are known, and this end by them [default: a random one]
    #[arg(long, value_name = "WORD", value_parser = parse_token)]
    token: Option<String>,

    /// Peers at once; each has one run at a time
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    peers: u16,

    /// Application bytes of a run at most, each way (suffixes k, M, G, Ki, Mi, Gi)
    #[arg(long, value_name = "BYTES", default_value = "4G", value_parser = parse_some_bytes)]
    max_bytes: u64,

    /// How long a run lasts at most, for instance "90 s"
    #[arg(long, value_name = "DURATION", default_value = "3600 s", value_parser = parse_pause)]
    max_duration: Duration,

    #[command(flatten)]
    identity: IdentityOptions,
}

/// A word of some length; short ones can be guessed.
pub(super) fn parse_token(text: &str) -> Result<String, String> {
    match text.len() {
        8..=200 => Ok(text.to_owned()),
        _ => Err("a token has 8 to 200 characters, which nobody guesses".to_owned()),
    }
}

/// A time as plans write it.
pub(super) fn parse_pause(text: &str) -> Result<Duration, String> {
    text.parse::<Span>().map(|span| span.0)
}

pub(super) async fn run(args: Args) -> Outcome {
    let identity = Arc::new(args.identity.load()?);
    let fingerprint = identity.fingerprint();
    let token = match args.token {
        Some(token) => token,
        None => token().map_err(|_| Failure::new("this system gives no randomness"))?,
    };
    let limits = Limits {
        peers: usize::from(args.peers),
        bytes: args.max_bytes,
        duration: args.max_duration,
    };
    let of_it = Arc::clone(&identity);
    let far = Far::bind(args.listen, token.clone(), limits, move || {
        of_it.server_tls()
    });
    let far = far.map_err(|error| Failure::new(error.to_string()))?;
    print(&listening(far.endpoint()))?;
    if let Some(fingerprint) = fingerprint {
        print(&format!("certificate SHA-256 {fingerprint}\n"))?;
    }
    let port = far.endpoint().local_addr().port();
    print(&format!(
        "token {token}\non the other machine: tautline lab field PLAN --far HOST:{port} --token {token}\n"
    ))?;
    if let Some(warning) = far.endpoint().socket_buffers().warning() {
        eprintln!("tautline: warning: {warning}");
    }
    tokio::select! {
        () = far.serve(|line| eprintln!("tautline: {line}")) => {
            return Err(Failure::new("the endpoint stopped"));
        }
        stopped = asked_to_stop() => stopped?,
    }
    far.endpoint().close(0, b"the far end stops");
    let _ = timeout(GOODBYE, far.endpoint().wait_idle()).await;
    Ok(())
}
