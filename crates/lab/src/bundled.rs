//! The plans that come with the laboratory.

/// A bundled plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bundled {
    /// Its name.
    pub name: &'static str,
    /// Its text.
    pub text: &'static str,
}

macro_rules! plans {
    ($($name:literal),* $(,)?) => {
        &[$(Bundled {
            name: $name,
            text: include_str!(concat!("../../../plans/", $name, ".toml")),
        }),*]
    };
}

/// All of them, in the order in which they are listed.
pub const PLANS: &[Bundled] = plans![
    "satcom-a1",
    "satcom-a2",
    "satcom-a3",
    "satcom-a4",
    "satcom-many",
    "satcom-share",
    "satcom-c1",
    "satcom-pep",
    "satcom-presets",
    "satcom-streams",
    "ifc",
    "ifc-links",
    "links",
    "rquic-networks",
    "quirl-200",
    "fec-quirl",
    "fec-auto",
    "fec-runs",
    "fec-generations",
    "fec-ackfreq",
    "fec-pages",
    "fec-padding",
    "fec-video",
    "fec-ifc",
    "fec-ifc-links",
    "fec-ifc-runs",
    "fec-rquic",
    "fec-bto",
    "fec-buffer",
    "fec-clean",
    "fec-limits",
    "fec-shared",
    "fec-short",
    "fec-bulk",
    "fec-bulk-runs",
    "fec-messages",
    "fec-starlink",
    "fec-fairness",
    "fec-held",
    "fec-thin",
    "fec-terms",
    "fec-uses",
    "fec-loaded",
    "mp-homogeneous",
    "mp-setups",
    "mp-bandwidth",
    "mp-rtt",
    "mp-unlike",
    "mp-pages",
    "mp-objects",
    "mp-video",
    "mp-priority",
    "mp-buffer",
    "mp-windows",
    "mp-failover",
    "mp-mobility",
    "mp-silence",
    "mp-fec",
    "mp-16",
    "mp-kernel",
    "mp-acks",
    "pages",
    "starlink",
    "video",
    "wired-100",
    "ablation",
    "calibration-bulk",
    "calibration-short",
];

/// The plan of that name.
pub fn by_name(name: &str) -> Option<&'static Bundled> {
    PLANS.iter().find(|plan| plan.name == name)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{
        campaign::run_cell,
        plan::{Plan, ReadOptions},
        stack::Stacks,
    };

    #[test]
    fn every_plan_reads_in_both_sizes() {
        for bundled in PLANS {
            for smoke in [false, true] {
                let options = ReadOptions {
                    smoke,
                    ..ReadOptions::default()
                };
                let plan = Plan::parse(bundled.text, Path::new("."), &options, &Stacks::default())
                    .unwrap_or_else(|error| panic!("{}: {error}", bundled.name));
                assert_eq!(plan.name, bundled.name);
                assert!(!plan.expect.is_empty(), "{}", bundled.name);
            }
        }
    }

    /// What documentation shows is a plan.
    #[test]
    fn the_plan_of_the_documentation_reads() {
        let text = include_str!("../../../docs/lab.md");
        let text = text.split("```toml\n").nth(1).unwrap();
        let text = text.split("```").next().unwrap();
        for smoke in [false, true] {
            let options = ReadOptions {
                smoke,
                ..ReadOptions::default()
            };
            Plan::parse(text, Path::new("."), &options, &Stacks::default()).unwrap();
        }
    }

    /// A few cells of each, so that a plan that cannot be played shows.
    #[test]
    fn smoke_cells_come_to_an_end() {
        let options = ReadOptions {
            smoke: true,
            ..ReadOptions::default()
        };
        let stacks = Stacks::default();
        for bundled in PLANS {
            let plan = Plan::parse(bundled.text, Path::new("."), &options, &stacks).unwrap();
            let step = plan.len().div_ceil(3).max(1);
            for index in (0..plan.len()).step_by(step) {
                let entry = run_cell(&plan, &plan.cell(index).unwrap(), &stacks);
                assert!(
                    ["ok", "limit"].contains(&entry.status.as_str()),
                    "{} cell {index}: {:?}",
                    bundled.name,
                    entry.reason
                );
            }
        }
    }
}
