//! What both worlds play: a cell of a plan, taken apart for real sockets.
//!
//! Owns: [`Task`]. Does not own: plans and scenes (`tautline_lab`).

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tautline_lab::{
    scene::{FAR, Flow, NEAR, Scene},
    stack::Tautline,
    workload::Workload,
};
use tautline_sim::LinkConfig;
use tautline_transport::config::TransportConfig;

/// One object over one connection over one link.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) link: LinkConfig,
    pub(crate) bytes: u64,
    pub(crate) transport: TransportConfig,
    pub(crate) limit: Duration,
}

impl Task {
    /// What a scene asks for.
    ///
    /// # Errors
    /// A scene that cannot be played on sockets: the field and what may stand there.
    pub(crate) fn of(scene: &Scene) -> Result<Self> {
        let [wire] = scene.network.wires.as_slice() else {
            bail!("network.links: one link between {NEAR:?} and {FAR:?} only");
        };
        ensure!(
            wire.changes.is_empty(),
            "network.changes: the emulated link does not change"
        );
        let [flow] = scene.flows.as_slice() else {
            bail!("flow: one only");
        };
        let plain = flow.start.0.is_zero()
            && flow.stop.is_none()
            && flow.count == 1
            && flow.access_delay.0.is_zero()
            && flow.homes(&scene.network) == [NEAR]
            && flow.server == FAR;
        ensure!(
            plain,
            "flow.{}: one connection from {NEAR:?} to {FAR:?} from the start, until it is done",
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
        Ok(Self {
            link: wire.config.clone(),
            bytes: bytes_of(flow)
                .with_context(|| format!("flow.{}.workload: {}", flow.name, WORKLOADS))?,
            transport,
            limit: scene.limit,
        })
    }
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
