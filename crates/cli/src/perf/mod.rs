//! `tautline perf`: measure a network, or two stacks, with traffic of our own.
//!
//! Purpose: upload, download and request rates with latency percentiles.
//! Owns: the protocol (`protocol.rs`), both ends (`server.rs`, `client.rs`), the report
//! (`report.rs`).
//! Does not own: comparisons with other stacks (`cargo xtask bench`).
//! Spec: ours, in the spirit of draft-banks-quic-performance: a stream starts with the number of
//! bytes that the other end is to send back.

mod client;
mod protocol;
mod report;
mod server;

use std::{net::SocketAddr, path::PathBuf};

use clap::{Args, Subcommand};

use crate::{
    failure::Outcome,
    identity::IdentityOptions,
    options::{TransportOptions, TrustOptions, parse_bytes},
    paths::PathOptions,
};

/// Which end.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Answer perf clients until a signal
    Server(ServerArgs),
    /// Measure against a perf server
    Client(ClientArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ServerArgs {
    /// Address and UDP port (repeatable: the server is reached at each)
    #[arg(long, short, value_name = "ADDR:PORT", default_value = "[::]:4434")]
    listen: Vec<SocketAddr>,
    #[command(flatten)]
    identity: IdentityOptions,
    #[command(flatten)]
    transport: TransportOptions,
}

#[derive(Debug, Args)]
pub(crate) struct ClientArgs {
    /// HOST:PORT of the server
    #[arg(value_name = "HOST:PORT")]
    server: String,
    #[command(flatten)]
    trust: TrustOptions,
    #[command(flatten)]
    transport: TransportOptions,
    #[command(flatten)]
    paths: PathOptions,
    /// Bytes to download (suffixes k, M, G, Ki, Mi, Gi); 0 leaves it out
    #[arg(long, value_name = "BYTES", default_value = "100M", value_parser = parse_bytes)]
    download: u64,
    /// Bytes to upload; 0 leaves it out
    #[arg(long, value_name = "BYTES", default_value = "100M", value_parser = parse_bytes)]
    upload: u64,
    /// Streams that share a download or upload
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    streams: u16,
    /// Requests to make, each on a stream of its own; 0 leaves it out
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    requests: u64,
    /// Bytes of a request
    #[arg(long, value_name = "BYTES", default_value = "100", value_parser = parse_bytes)]
    request_size: u64,
    /// Bytes of a response
    #[arg(long, value_name = "BYTES", default_value = "1k", value_parser = parse_bytes)]
    response_size: u64,
    /// Requests under way at once
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..))]
    concurrency: u16,
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
    /// Write the JSON into this file too
    #[arg(long, value_name = "FILE")]
    json_file: Option<PathBuf>,
}

pub(crate) async fn run(command: Command) -> Outcome {
    match command {
        Command::Server(args) => server::run(args).await,
        Command::Client(args) => client::run(args).await,
    }
}
