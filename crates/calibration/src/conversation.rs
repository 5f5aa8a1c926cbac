//! Two ends that talk, each in a thread and a place of its own.
//!
//! Owns: the threads, who waits for whom, whose error is told. Does not own: what the ends say
//! (`quic.rs`, `tcp.rs`, `https.rs`).

use std::{
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use tokio::{
    runtime::{Builder, Runtime},
    sync::oneshot,
};

use crate::{place::Place, system::Ends};

/// What an answer is made of.
pub(crate) static FILLER: [u8; 64 * 1024] = [0x74; 64 * 1024];

/// How long `fetch` took near, of what `serve` serves far. `serve` says when it listens, and serves until
/// it is told to stop.
pub(crate) fn hold(
    ends: Ends,
    (near, far): (&Arc<Place>, &Arc<Place>),
    serve: impl FnOnce(&Runtime, mpsc::SyncSender<()>, oneshot::Receiver<()>) -> Result<()>
    + Send
    + 'static,
    fetch: impl FnOnce(&Runtime) -> Result<Duration> + Send + 'static,
) -> Result<Duration> {
    let (told, listening) = mpsc::sync_channel(1);
    let (stop, stopped) = oneshot::channel::<()>();
    let (near, far) = (Arc::clone(near), Arc::clone(far));
    let serving = spawn("server", move || {
        serve(&runtime(&far, ends)?, told, stopped)
    })?;
    // A server that failed has dropped its end, and its error is the one to tell.
    let fetched = match listening.recv() {
        Ok(()) => join(spawn("client", move || fetch(&runtime(&near, ends)?))?),
        Err(_) => Err(anyhow::anyhow!("the server did not listen")),
    };
    drop(stop);
    join(serving).context("server")?;
    fetched
}

/// An end's thread; its name is what it is called in errors.
pub(crate) fn spawn<T: Send + 'static>(
    name: &'static str,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<JoinHandle<Result<T>>> {
    Ok(thread::Builder::new().name(name.to_owned()).spawn(work)?)
}

/// What became of it.
pub(crate) fn join<T>(end: JoinHandle<Result<T>>) -> Result<T> {
    let name = end.thread().name().unwrap_or("other").to_owned();
    end.join()
        .unwrap_or_else(|_| bail!("the {name}'s thread failed"))
}

fn runtime(place: &Place, ends: Ends) -> Result<Runtime> {
    ends.favour();
    place.enter()?;
    Ok(Builder::new_current_thread().enable_all().build()?)
}
