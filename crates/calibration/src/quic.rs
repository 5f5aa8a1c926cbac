//! Tautline on sockets: the server in one place, the client in the other.
//!
//! The conversation is that of the plan's workload, whose halves run over sockets as in field runs
//! (`tautline_field::live`). So is the clock: from `connect` to the last byte at the application, or from the
//! request where a plan lets that wait for all paths. Several paths are opened as `get --paths` does it: the
//! handshake over the first, each other one as soon as that is done.

use std::{
    future::IntoFuture,
    net::SocketAddr,
    sync::{Arc, mpsc},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use tautline::{ClientConfig, Connection, Endpoint, LocalEnd, ServerConfig};
use tautline_field::{
    clock::RunClock,
    live::{Allowance, Seat, play as play_half},
};
use tautline_lab::{session::Half, stack::Ready};
use tautline_sim::tls;
use tautline_transport::time::Instant;
use tokio::{
    runtime::Runtime,
    sync::{oneshot, watch},
    task::JoinSet,
};

use crate::{
    clock::now,
    conversation,
    place::{self, Place},
    task::Task,
};

/// Plays a task. How long it took.
pub(crate) fn play(
    task: &Task,
    seed: u64,
    near: &Arc<Place>,
    far: &Arc<Place>,
    server_at: SocketAddr,
) -> Result<Duration> {
    let transport = Arc::new(task.transport.clone());
    let mut server = ServerConfig::new(Arc::new(tls::server(seed)));
    server.transport = Arc::clone(&transport);
    let mut client = ClientConfig::new(Arc::new(tls::client(seed.wrapping_add(1))));
    client.transport = transport;

    let ends = task.ends;
    let (at_server, at_client) = (task.clone(), task.clone());
    let serve = move |runtime: &Runtime, told: mpsc::SyncSender<()>, stopped| {
        serve(
            runtime,
            server,
            server_at,
            (&at_server, seed),
            &told,
            stopped,
        )
    };
    let fetch = move |runtime: &Runtime| fetch(runtime, client, server_at, (&at_client, seed));
    conversation::hold(ends, (near, far), serve, fetch)
}

/// An end that has no limit but the plan's, without samples.
fn seat(half: Box<dyn Half>, task: &Task, stop: watch::Receiver<bool>) -> Seat {
    Seat {
        half,
        clock: RunClock::from(now()),
        until: Instant::ZERO + task.limit,
        sample: Duration::ZERO,
        allowance: Allowance::NO_LIMIT,
        stop,
    }
}

fn serve(
    runtime: &Runtime,
    config: ServerConfig,
    at: SocketAddr,
    (task, seed): (&Task, u64),
    told: &mpsc::SyncSender<()>,
    stopped: oneshot::Receiver<()>,
) -> Result<()> {
    runtime.block_on(async {
        let endpoint = Endpoint::server(config, at)?;
        told.send(())?;
        let (_keep, stop) = watch::channel(false);
        let answering = async {
            while let Some(incoming) = endpoint.accept().await {
                let half = task.workload.program().server(seed);
                let seat = seat(half, task, stop.clone());
                let seen = play_half(incoming.into_future(), seat, || {}).await;
                if let Some(error) = seen.outcome.error {
                    // The client says what that means to it.
                    eprintln!("server: {error}");
                }
            }
        };
        tokio::select! {
            () = answering => {}
            _ = stopped => {}
        }
        Ok(())
    })
}

/// A path from each link but the first.
fn open_others(connection: &Connection, links: usize) -> JoinSet<Result<()>> {
    let mut opening = JoinSet::new();
    for link in 1..links {
        let connection = connection.clone();
        opening.spawn(async move {
            let end = LocalEnd::interface(place::device(u8::try_from(link)?));
            let path = connection.open_path(end, connection.remote_address());
            let path = path.await?;
            ensure!(path.warning.is_none(), "{:?}", path.warning);
            Ok(())
        });
    }
    opening
}

fn fetch(
    runtime: &Runtime,
    config: ClientConfig,
    server: SocketAddr,
    (task, seed): (&Task, u64),
) -> Result<Duration> {
    runtime.block_on(async {
        let endpoint = Endpoint::client(SocketAddr::from((place::near(0), 0)))?;
        let (_keep, stop) = watch::channel(false);
        let half = task.workload.program().client(seed);
        let seat = seat(half, task, stop);
        let mut opening = JoinSet::new();
        let connecting = async {
            let connection = endpoint.connect_with(config, server, "localhost")?.await?;
            opening = open_others(&connection, task.wires.len());
            if task.ready == Ready::Paths {
                while let Some(opened) = opening.join_next().await {
                    opened??;
                }
            }
            anyhow::Ok(connection)
        };
        let seen = play_half(connecting, seat, || {}).await;
        let outcome = seen.outcome;
        let Some(finished) = outcome.finished else {
            let limit = "not finished within the plan's limit".to_owned();
            bail!(outcome.error.unwrap_or(limit));
        };
        let (got, bytes) = (outcome.received_bytes, task.bytes);
        ensure!(got == bytes, "{got} of {bytes} bytes came");
        let began = match task.ready {
            Ready::Paths => outcome.connected.context("not connected")?,
            Ready::Connected => Instant::ZERO,
        };
        Ok(finished.saturating_since(began))
    })
}
