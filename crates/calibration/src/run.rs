//! One run in the real world: two places, links between them, two ends that talk.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::{Context, Result};

use crate::{
    emulator::{Emulator, Report},
    https,
    lateness::Lateness,
    place::{Place, SERVER, Side},
    quic,
    task::Task,
    tcp::{self, Kernel},
    witness::Witness,
};

const PORT: u16 = 443;

/// Whose transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    /// Ours, as the task configures it.
    Tautline,
    /// The kernel's: TCP over one link, MPTCP over several.
    Kernel,
    /// The same, with HTTP/2 over TLS on it.
    Https,
}

/// What a run gave.
#[derive(Debug)]
pub(crate) struct Run {
    /// From `connect`, or from the request, to the last byte.
    pub(crate) took: Result<Duration>,
    /// The links' view.
    pub(crate) report: Report,
    /// How late a thread of the ends' priority was woken meanwhile.
    pub(crate) waking: Lateness,
}

/// Plays a task on sockets. Places are made anew, so that nothing of an earlier run is under way.
///
/// # Errors
/// When the run cannot begin; what goes wrong in it is in its result.
pub(crate) fn play(task: &Task, transport: Transport, seed: u64) -> Result<Run> {
    let links = u8::try_from(task.wires.len()).context("too many links")?;
    let near = Arc::new(Place::new(Side::Near, links)?);
    let far = Arc::new(Place::new(Side::Far, links)?);
    let emulator = Emulator::start(Arc::clone(&near), Arc::clone(&far), &task.wires, seed)?;
    let witness = Witness::start(task.ends)?;
    let server_at = SocketAddr::from((SERVER, PORT));
    let took = match transport {
        Transport::Tautline => quic::play(task, seed, &near, &far, server_at),
        Transport::Kernel | Transport::Https => {
            let controller = task.controller_of_the_kernel();
            let controller = controller.context("the kernel's TCP has no such controller")?;
            let kernel = Kernel { controller, links };
            match transport {
                Transport::Https => https::play(task, kernel, seed, (&near, &far), server_at),
                _ => tcp::play(task, kernel, &near, &far, server_at),
            }
        }
    };
    Ok(Run {
        took,
        report: emulator.finish()?,
        waking: witness.finish(),
    })
}
