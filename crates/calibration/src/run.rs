//! One run in the real world: two places, a link between them, two ends that talk.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use anyhow::Result;

use crate::{
    emulator::{Emulator, Report},
    place::Place,
    quic,
    task::Task,
    tcp,
};

const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 2);
const PORT: u16 = 443;

/// Whose transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    /// Ours, as the task configures it.
    Tautline,
    /// The kernel's TCP with CUBIC.
    Kernel,
}

/// What a run gave.
#[derive(Debug)]
pub(crate) struct Run {
    /// From `connect` to the last byte.
    pub(crate) took: Result<Duration>,
    /// The link's view.
    pub(crate) report: Report,
}

/// Plays a task on sockets. Places are made anew, so that nothing of an earlier run is under way.
///
/// # Errors
/// When the run cannot begin; what goes wrong in it is in its result.
pub(crate) fn play(task: &Task, transport: Transport, seed: u64) -> Result<Run> {
    let near = Arc::new(Place::new(CLIENT)?);
    let far = Arc::new(Place::new(SERVER)?);
    let emulator = Emulator::start(Arc::clone(&near), Arc::clone(&far), &task.link, seed)?;
    let server_at = SocketAddr::from((SERVER, PORT));
    let took = match transport {
        Transport::Tautline => quic::play(task, seed, &near, &far, server_at),
        Transport::Kernel => tcp::play(task.bytes, task.limit, &near, &far, server_at),
    };
    Ok(Run {
        took,
        report: emulator.finish()?,
    })
}
