//! What both worlds play: a cell of a plan, taken apart for real sockets.
//!
//! Owns: [`Task`]. Does not own: plans and scenes (`tautline_lab`).

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tautline_lab::{
    scene::{Flow, Scene},
    stack::{Ready, Tautline},
    workload::Workload,
};
use tautline_transport::config::TransportConfig;

use crate::{emulator::Wire, system::Ends};

/// One object over one connection, over one link or several.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    /// In the order in which the client takes them: the first carries the handshake.
    pub(crate) wires: Vec<Wire>,
    pub(crate) bytes: u64,
    /// What comes to them.
    pub(crate) workload: Workload,
    pub(crate) transport: TransportConfig,
    pub(crate) ready: Ready,
    pub(crate) limit: Duration,
    pub(crate) ends: Ends,
}

impl Task {
    /// What a scene asks for.
    ///
    /// # Errors
    /// A scene that cannot be played on sockets: the field and what may stand there.
    pub(crate) fn of(scene: &Scene) -> Result<Self> {
        let [flow] = scene.flows.as_slice() else {
            bail!("flow: one only");
        };
        let plain = flow.start.0.is_zero()
            && flow.stop.is_none()
            && flow.count == 1
            && flow.access_delay.0.is_zero();
        ensure!(
            plain,
            "flow.{}: one connection from the start, until it is done",
            flow.name
        );
        let options = flow.stack.as_ref().unwrap_or(&scene.solution);
        ensure!(
            options.stack == "tautline",
            "solution.stack: {:?} has no sockets here",
            options.stack
        );
        let transport = Tautline::default()
            .transport(options)
            .map_err(|error| anyhow::anyhow!("solution.{}: {}", error.option, error.problem))?;
        let homes = scene.homes(flow)?;
        let wires = homes.iter().map(|home| wire(scene, home, &flow.server));
        Ok(Self {
            wires: wires.collect::<Result<_>>()?,
            bytes: bytes_of(flow)
                .with_context(|| format!("flow.{}.workload: {}", flow.name, WORKLOADS))?,
            workload: flow.workload.clone(),
            transport,
            ready: options.ready.unwrap_or_default(),
            limit: scene.limit,
            ends: Ends::Early,
        })
    }

    /// The controller of the kernel's TCP that is of the same kind, by its name there.
    pub(crate) fn controller_of_the_kernel(&self) -> Option<&'static str> {
        match self.transport.congestion.name() {
            "cubic" => Some("cubic"),
            "newreno" => Some("reno"),
            // The version that Linux has.
            "bbr1" => Some("bbr"),
            _ => None,
        }
    }
}

/// The link from a client's place to the server's.
fn wire(scene: &Scene, home: &str, server: &str) -> Result<Wire> {
    let way = scene.network.way(home, server).unwrap_or_default();
    let [(number, tautline_sim::Direction::Forward)] = way.as_slice() else {
        bail!("network.links: one link from {home:?} to {server:?}, forward from there");
    };
    let wire = scene.network.wires.get(*number).context("no such link")?;
    ensure!(
        wire.changes.is_empty(),
        "network.changes: the emulated link does not change"
    );
    Ok(Wire {
        number: *number,
        config: wire.config.clone(),
    })
}

const WORKLOADS: &str = "a `bulk` download of a stated size on one stream, or `objects` with a \
                         count of 1 and a fixed size, without thinking";

fn bytes_of(flow: &Flow) -> Option<u64> {
    use tautline_lab::workload::{Bulk, Objects};

    match &flow.workload {
        Workload::Bulk(bulk) => {
            let bytes = bulk.bytes?;
            let plain = Bulk {
                bytes: Some(bytes),
                incremental: bulk.incremental,
                ..Bulk::default()
            };
            (*bulk == plain).then_some(bytes.0)
        }
        Workload::Objects(objects) => {
            let plain = Objects {
                parallel: objects.parallel,
                incremental: objects.incremental,
                ..Objects::new(1, objects.bytes)
            };
            let fixed = objects.bytes.min() == objects.bytes.max();
            (*objects == plain && fixed).then(|| objects.bytes.min())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tautline_lab::{
        plan::{Plan, ReadOptions},
        stack::Stacks,
    };

    use super::*;

    fn task(flow: &str) -> Result<Task> {
        let text = format!(
            "name = 'x'\ntitle = 'x'\n[network]\nlink = 'wifi'\n[[flow]]\nname = 'main'\n{flow}\n\
             [[solution]]\nname = 'a'\ncongestion = 'cubic'\n"
        );
        let stacks = Stacks::default();
        let plan = Plan::parse(&text, Path::new("."), &ReadOptions::default(), &stacks).unwrap();
        Task::of(&plan.scene(&plan.cell(0).unwrap(), &stacks).unwrap())
    }

    #[test]
    fn what_sockets_can_play() {
        let bulk = task("workload = { kind = 'bulk', bytes = '10 MB' }").unwrap();
        assert_eq!(bulk.bytes, 10_000_000);
        assert_eq!(bulk.transport.congestion.name(), "cubic");
        let object = task("workload = { kind = 'objects', bytes = '50 kB' }").unwrap();
        assert_eq!(object.bytes, 50_000);
        assert_eq!(object.wires.len(), 1);
        assert_eq!(object.controller_of_the_kernel(), Some("cubic"));
    }

    #[test]
    fn paths_are_links_in_the_order_of_the_client() {
        let text = "name = 'x'\ntitle = 'x'\n[network]\nqueue = '1 BDP'\n\
                    paths = [{ name = 'a', link = 'wifi' }, { name = 'b', link = 'lte' }]\n\
                    [[flow]]\nname = 'main'\nworkload = { kind = 'bulk', bytes = '1 MB' }\n\
                    [[solution]]\nname = 'from b'\nmultipath = 'auto'\npaths = ['b', 'a']\n\
                    ready = 'paths'\n[[solution]]\nname = 'single b'\npaths = 'b'\n";
        let stacks = Stacks::default();
        let plan = Plan::parse(text, Path::new("."), &ReadOptions::default(), &stacks).unwrap();
        let task = |solution| {
            let mut cells = plan.cells().filter(|cell| cell.solution == solution);
            Task::of(&plan.scene(&cells.next().unwrap(), &stacks).unwrap()).unwrap()
        };
        let numbers = |task: &Task| task.wires.iter().map(|w| w.number).collect::<Vec<_>>();
        assert_eq!(numbers(&task(0)), [1, 0]);
        assert_eq!(task(0).ready, Ready::Paths);
        assert_eq!(numbers(&task(1)), [1]);
    }

    #[test]
    fn what_they_cannot_is_said() {
        for (flow, part) in [
            ("workload = { kind = 'bulk' }", "stated size"),
            (
                "workload = { kind = 'bulk', bytes = '1 MB', direction = 'up' }",
                "download",
            ),
            (
                "workload = { kind = 'objects', bytes = '1 MB', count = 2 }",
                "count of 1",
            ),
            (
                "start = '1 s'\nworkload = { kind = 'bulk', bytes = '1 MB' }",
                "from the start",
            ),
        ] {
            let error = format!("{:#}", task(flow).unwrap_err());
            assert!(error.contains(part), "{flow}: {error}");
        }
    }
}
