//! Name to path scheduler: the CLI, plans and configuration pick by these names.

use std::sync::Arc;

use super::{
    Scheduler, SchedulerFactory, SharedSchedulerFactory,
    completion::{Auto, EarliestCompletion, Redundant},
    min_rtt::{Backup, MinRtt},
    round_robin::{RoundRobin, Weighted},
    waiting::{Blest, Ecf},
};

/// One built-in scheduler: its name and its constructor.
#[derive(Clone, Copy, Debug)]
struct BuiltIn {
    name: &'static str,
    build: fn() -> Box<dyn Scheduler>,
}

impl SchedulerFactory for BuiltIn {
    fn name(&self) -> &'static str {
        self.name
    }

    fn build(&self) -> Box<dyn Scheduler> {
        (self.build)()
    }
}

/// To add a scheduler, add its line here.
const BUILT_IN: [BuiltIn; 9] = [
    BuiltIn {
        name: Auto::NAME,
        build: || Box::new(Auto::default()),
    },
    BuiltIn {
        name: MinRtt::NAME,
        build: || Box::new(MinRtt),
    },
    BuiltIn {
        name: RoundRobin::NAME,
        build: || Box::new(RoundRobin::default()),
    },
    BuiltIn {
        name: Weighted::NAME,
        build: || Box::new(Weighted::default()),
    },
    BuiltIn {
        name: Redundant::NAME,
        build: || Box::new(Redundant),
    },
    BuiltIn {
        name: Backup::NAME,
        build: || Box::new(Backup),
    },
    BuiltIn {
        name: Ecf::NAME,
        build: || Box::new(Ecf::default()),
    },
    BuiltIn {
        name: Blest::NAME,
        build: || Box::new(Blest::default()),
    },
    BuiltIn {
        name: EarliestCompletion::NAME,
        build: || Box::new(EarliestCompletion),
    },
];

/// The scheduler used when none is chosen: `auto`.
pub fn default_factory() -> SharedSchedulerFactory {
    Arc::new(BUILT_IN[0])
}

/// The scheduler of this name, if there is one.
pub fn by_name(name: &str) -> Option<SharedSchedulerFactory> {
    let built_in = BUILT_IN.iter().find(|built_in| built_in.name == name)?;
    Some(Arc::new(*built_in))
}

/// Every name that [`by_name`] knows, the default first.
pub fn names() -> impl Iterator<Item = &'static str> {
    BUILT_IN.iter().map(|built_in| built_in.name)
}
