use std::path::Path;

use crate::{
    plan::{Plan, ReadOptions},
    stack::{Part, Stacks},
};

/// Land, satellite, land, and a side way that is longer.
const PLAN: &str = r#"
name = "split"
title = "Proxies on the way"
[network]
links = [
  { name = "land", between = ["office", "gateway"], delay = "20 ms" },
  { name = "geo", between = ["gateway", "terminal"], delay = "300 ms" },
  { name = "home", between = ["terminal", "kitchen"], delay = "1 ms" },
  { name = "round", between = ["gateway", "village"], delay = "1 ms" },
  { name = "about", between = ["village", "terminal"], delay = "1 ms" },
]
[[flow]]
name = "main"
client = "kitchen"
server = "office"
workload = { kind = "bulk", bytes = "1 MB" }
[[solution]]
name = "one"
stack = "split-tcp"
KEYS
"#;

fn parse(text: &str) -> Result<Plan, String> {
    let (options, stacks) = (ReadOptions::default(), Stacks::default());
    Plan::parse(text, Path::new("."), &options, &stacks).map_err(|error| error.to_string())
}

/// The places and parts under these keys of the solution.
fn split(keys: &str) -> Option<(Vec<String>, Vec<Part>)> {
    let stacks = Stacks::default();
    let plan = parse(&PLAN.replace("KEYS", keys)).unwrap();
    let scene = plan.scene(&plan.cell(0).unwrap(), &stacks).unwrap();
    let split = scene.split(&scene.flows[0]).unwrap()?;
    let parts = (0..=split.places.len()).map(|index| split.part(index));
    let places = split.places.iter().map(|place| (*place).to_owned());
    Some((places.collect(), parts.collect()))
}

#[test]
fn the_network_gives_the_order() {
    assert_eq!(split(""), None);
    for keys in [
        "proxies = [\"gateway\", \"terminal\"]",
        "proxies = [\"terminal\", \"gateway\"]",
        "proxies = [\"terminal\", \"gateway\"]\nsatellite = \"geo\"",
    ] {
        let (places, parts) = split(keys).unwrap();
        assert_eq!(places, ["terminal", "gateway"], "{keys}");
        assert_eq!(parts, [Part::Land, Part::Satellite, Part::Land], "{keys}");
    }
}

#[test]
fn the_satellite_is_the_part_of_its_link() {
    for (keys, satellite, parts) in [
        ("proxies = \"gateway\"\nsatellite = \"geo\"", 0, 2),
        ("proxies = \"terminal\"\nsatellite = \"geo\"", 1, 2),
        // At the ends as well: those parts take no time.
        (
            "proxies = [\"office\", \"kitchen\", \"gateway\"]\nsatellite = \"land\"",
            2,
            4,
        ),
    ] {
        let (_, found) = split(keys).unwrap();
        assert_eq!(found.len(), parts, "{keys}");
        let at = found.iter().position(|part| *part == Part::Satellite);
        assert_eq!(at, Some(satellite), "{keys}");
    }
}

#[test]
fn what_cannot_stand_there_is_refused_with_its_line() {
    let refused = |text: &str, told: &[&str]| {
        let error = parse(text).expect_err(text);
        for part in told {
            assert!(error.contains(part), "{error}\n{part}");
        }
    };
    for (keys, told) in [
        (
            "proxies = [\n\"gateway\",\n\"terminl\"]",
            &[
                "plan:22: solution.one.proxies: no place is called \"terminl\"",
                "did you mean `terminal`?",
            ][..],
        ),
        (
            "proxies = [\"gateway\",\n\"village\"]",
            &[
                "plan:21: solution.one.proxies: \"village\" is not on the way of flow main, which \
                 passes kitchen, terminal, gateway, office",
            ],
        ),
        (
            "proxies = [\"gateway\", \"gateway\"]",
            &["plan:20: solution.one.proxies: \"gateway\" stands there twice"],
        ),
        (
            "proxies = \"gateway\"",
            &[
                "plan:20: solution.one.proxies: with one proxy it has to be said which link is the \
                 satellite's: satellite = one of geo, home, land",
            ],
        ),
        (
            "proxies = \"gateway\"\nsatellite = \"gio\"",
            &[
                "plan:21: solution.one.satellite: flow main crosses no link called \"gio\"",
                "did you mean `geo`?",
            ],
        ),
        (
            "proxies = \"gateway\"\nsatellite = \"round\"",
            &["plan:21: solution.one.satellite: flow main crosses no link called \"round\""],
        ),
        (
            "proxies = []",
            &["plan:20: solution.one.proxies: is empty; give at least one name"],
        ),
        (
            "land_congestion = \"cubic\"",
            &["plan:20: solution.one.land_congestion: the way has no parts unless"],
        ),
        (
            "satellite = \"geo\"",
            &["plan:20: solution.one.satellite: the way has no parts unless"],
        ),
        (
            "proxies = [\"gateway\", \"terminal\"]\nland_congestion = \"cubik\"",
            &[
                "plan:21: solution.one.land_congestion",
                "did you mean `cubic`?",
            ],
        ),
        (
            "proxies = [\"gateway\", \"terminal\"]\nland_congestion = \"fixed\"",
            &["plan:21: solution.one.land_congestion: nobody divides the capacity on land"],
        ),
    ] {
        refused(&PLAN.replace("KEYS", keys), told);
    }
    for keys in [
        "proxies = [\"gateway\", \"terminal\"]",
        "satellite = \"geo\"",
        "land_congestion = \"cubic\"",
    ] {
        let text = PLAN
            .replace("stack = \"split-tcp\"\n", "")
            .replace("KEYS", keys);
        let key = keys.split(' ').next().unwrap();
        let told = format!(
            "plan:19: solution.one.{key}: no proxy can split a connection of stack tautline; stack = \
             'split-tcp' has them"
        );
        refused(&text, &[&told]);
    }
}

#[test]
fn proxies_on_ways_of_equal_length_are_refused_together() {
    let text = PLAN
        .replace("\"village\", \"terminal\"", "\"village\", \"kitchen\"")
        .replace("KEYS", "proxies = [\"terminal\", \"village\"]");
    let error = parse(&text).unwrap_err();
    assert!(
        error.contains("are on different ways of flow main, and no packet passes both"),
        "{error}"
    );
}

#[test]
fn a_flow_of_its_own_stack_is_named() {
    let text = PLAN.replace("KEYS", "").replace(
        "server = \"office\"",
        "server = \"office\"\nstack = { stack = \"split-tcp\", proxies = [\"gatewy\"] }",
    );
    let error = parse(&text).unwrap_err();
    assert!(
        error.contains(
            "flow.main.stack.proxies: no place is called \"gatewy\"; did you mean `gateway`?"
        ),
        "{error}"
    );
}
