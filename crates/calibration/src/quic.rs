//! Tautline on sockets: the server in one place, the client in the other.
//!
//! The conversation is that of the laboratory's workloads: a request of 25 bytes, an answer of
//! filler. So is the clock: from `connect` to the last byte at the application, or from the request
//! where a plan lets that wait for all paths. Several paths are opened as `get --paths` does it: the
//! handshake over the first, each other one as soon as that is done.

use std::{
    net::SocketAddr,
    sync::{Arc, mpsc},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use tautline::{Bytes, ClientConfig, Connection, Endpoint, LocalEnd, ServerConfig};
use tautline_lab::stack::Ready;
use tautline_sim::tls;
use tokio::{runtime::Runtime, sync::oneshot, task::JoinSet, time::timeout};

use crate::{
    REQUEST_BYTES,
    clock::now,
    conversation::{self, FILLER},
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

    let (bytes, ends) = (task.bytes, task.ends);
    let serve = move |runtime: &Runtime, told: mpsc::SyncSender<()>, stopped| {
        serve(runtime, server, server_at, bytes, &told, stopped)
    };
    let task = task.clone();
    let fetch = move |runtime: &Runtime| fetch(runtime, client, server_at, &task);
    conversation::hold(ends, (near, far), serve, fetch)
}

fn serve(
    runtime: &Runtime,
    config: ServerConfig,
    at: SocketAddr,
    bytes: u64,
    told: &mpsc::SyncSender<()>,
    stopped: oneshot::Receiver<()>,
) -> Result<()> {
    runtime.block_on(async {
        let endpoint = Endpoint::server(config, at)?;
        told.send(())?;
        let answering = async {
            while let Some(incoming) = endpoint.accept().await {
                if let Err(error) = answer(incoming, bytes).await {
                    // The client says what that means to it.
                    eprintln!("server: {error:#}");
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

async fn answer(incoming: tautline::Incoming, bytes: u64) -> Result<()> {
    let connection = incoming.await?;
    let (mut send, mut recv) = connection.accept_bi().await?;
    recv.read_to_end(REQUEST_BYTES).await?;
    let mut left = bytes;
    while left > 0 {
        let take = usize::try_from(left).map_or(FILLER.len(), |n| n.min(FILLER.len()));
        send.write_chunk(Bytes::from_static(FILLER.get(..take).unwrap_or(&FILLER)))
            .await?;
        left -= take as u64;
    }
    send.finish()?;
    connection.closed().await;
    Ok(())
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
    task: &Task,
) -> Result<Duration> {
    let bytes = task.bytes;
    runtime.block_on(async {
        let endpoint = Endpoint::client(SocketAddr::from((place::near(0), 0)))?;
        let mut start = now();
        let work = async {
            let connection = endpoint.connect_with(config, server, "localhost")?.await?;
            let mut opening = open_others(&connection, task.wires.len());
            if task.ready == Ready::Paths {
                while let Some(opened) = opening.join_next().await {
                    opened??;
                }
                start = now();
            }
            let (mut send, mut recv) = connection.open_bi().await?;
            send.write_all(&[0; REQUEST_BYTES]).await?;
            send.finish()?;
            let mut got = 0;
            while let Some(chunk) = recv.read_chunk(usize::MAX).await? {
                got += chunk.len() as u64;
            }
            let took = now().saturating_duration_since(start);
            ensure!(got == bytes, "{got} of {bytes} bytes came");
            connection.close(0, b"");
            Ok(took)
        };
        let took = timeout(task.limit, work).await;
        took.context("not finished within the plan's limit")?
    })
}
