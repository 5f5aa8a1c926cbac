//! Name to stream scheduler: the CLI, plans and configuration pick by these names.

use std::sync::Arc;

use super::{
    SharedStreamSchedulerFactory, StreamScheduler, StreamSchedulerFactory, deadline::Deadline,
    fifo::Fifo, priority::ByPriority, round_robin::RoundRobin,
};

/// One built-in scheduler: its name and its constructor.
#[derive(Clone, Copy, Debug)]
struct BuiltIn {
    name: &'static str,
    build: fn() -> Box<dyn StreamScheduler>,
}

impl StreamSchedulerFactory for BuiltIn {
    fn name(&self) -> &'static str {
        self.name
    }

    fn build(&self) -> Box<dyn StreamScheduler> {
        (self.build)()
    }
}

/// To add a scheduler, add its line here.
const BUILT_IN: [BuiltIn; 4] = [
    BuiltIn {
        name: ByPriority::NAME,
        build: || Box::new(ByPriority::default()),
    },
    BuiltIn {
        name: RoundRobin::NAME,
        build: || Box::new(RoundRobin::default()),
    },
    BuiltIn {
        name: Fifo::NAME,
        build: || Box::new(Fifo::default()),
    },
    BuiltIn {
        name: Deadline::NAME,
        build: || Box::new(Deadline::default()),
    },
];

/// The scheduler used when none is chosen: `priority`.
pub fn default_factory() -> SharedStreamSchedulerFactory {
    Arc::new(BUILT_IN[0])
}

/// The scheduler of this name, if there is one.
pub fn by_name(name: &str) -> Option<SharedStreamSchedulerFactory> {
    let built_in = BUILT_IN.iter().find(|built_in| built_in.name == name)?;
    Some(Arc::new(*built_in))
}

/// Every name that [`by_name`] knows, the default first.
pub fn names() -> impl Iterator<Item = &'static str> {
    BUILT_IN.iter().map(|built_in| built_in.name)
}
