use std::path::Path;

use tautline_sim::{LossModel, QueueSize};

use super::*;
use crate::reading::fields;

fn read(text: &str) -> Result<Network, NetworkError> {
    let inputs = Inputs::from(Path::new("."));
    Network::from_table(&text.parse::<Table>().unwrap(), &inputs)
}

#[test]
fn a_named_link_with_changes_of_its_own() {
    let network = read(
        "link = 'geo'\nqueue = '0.5 BDP'\nloss = '1 %'\n[up]\nrate = '3 Mb/s'\nloss = 0\n\
         [[changes]]\nat = '10 s'\ndown.rate = '5 Mb/s'",
    )
    .unwrap();
    let wire = &network.wires[0];
    assert_eq!(wire.config.backward.loss, LossModel::uniform(0.01));
    assert_eq!(wire.config.forward.loss, LossModel::None);
    assert_eq!(wire.config.forward.queue, QueueSize::Bdp(0.5));
    let rate = |config: &LinkConfig, up: bool| {
        let side = if up {
            &config.forward
        } else {
            &config.backward
        };
        side.rate.unwrap().bits_per_second()
    };
    assert_eq!(rate(&wire.config, true), 3_000_000);
    assert_eq!(rate(&wire.config, false), 20_000_000);
    let (at, later) = &wire.changes[0];
    assert_eq!(*at, Duration::from_secs(10));
    assert_eq!(
        (rate(later, true), rate(later, false)),
        (3_000_000, 5_000_000)
    );
}

#[test]
fn files_of_links_are_read_and_hashed() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.trace"), "1\n2\n").unwrap();
    let text = "[down]\ntrace = { file = 'a.trace' }\n[[changes]]\nat = '1 s'\nup.delay = '1 ms'";
    let table = text.parse::<Table>().unwrap();
    let network = Network::from_table(&table, &folder.path().into()).unwrap();
    let wire = &network.wires[0];
    assert_eq!(wire.files, [FileRecord::of("a.trace".into(), b"1\n2\n")]);
    assert!(wire.changes[0].1.backward.trace.is_some());
    let nowhere = Inputs::from(Path::new("/nowhere"));
    let error = Network::from_table(&table, &nowhere).unwrap_err();
    assert_eq!(error.field, "down.trace");
}

/// docs/lab.md has a row for every key, and no row for another.
#[test]
fn every_key_of_a_link_is_documented() {
    let text = include_str!("../../../../../docs/lab.md");
    let section = text.split("### Links").nth(1).unwrap();
    let section = section.split("\n### ").next().unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    let mut rows: Vec<&str> = rows.filter_map(|row| row.split('`').next()).collect();
    let mut known = fields::<DirectionConfig>().to_vec();
    rows.sort_unstable();
    known.sort_unstable();
    assert_eq!(rows, known);
    for name in links::names() {
        assert!(section.contains(&format!("`{name}`")), "{name}");
    }
    let inner = [
        fields::<tautline_sim::RateWander>(),
        fields::<tautline_sim::Turns>(),
        fields::<tautline_sim::AdaptiveCoding>(),
        fields::<tautline_sim::Grants>(),
        fields::<tautline_sim::Handover>(),
        fields::<tautline_sim::Silences>(),
        fields::<tautline_sim::Gaps>(),
        fields::<tautline_sim::Outage>(),
        fields::<tautline_sim::Jitter>(),
        fields::<tautline_sim::Reordering>(),
    ];
    for key in inner.concat() {
        assert!(section.contains(key), "{key}");
    }
}

#[test]
fn a_graph() {
    let network = read(
        "[[links]]\nname = 'a'\nbetween = ['home', 'pop']\nlink = 'leo'\n\
         [[links]]\nname = 'b'\nbetween = ['pop', 'cdn']\ndelay = '5 ms'",
    )
    .unwrap();
    assert_eq!(network.places().collect::<Vec<_>>(), ["cdn", "home", "pop"]);
}

#[test]
fn the_way_over_the_first_link_is_known() {
    let network = read(
        "[[links]]\nname = 'a'\nbetween = ['home', 'pop']\n\
         [[links]]\nname = 'b'\nbetween = ['pop', 'cdn']\n\
         [[links]]\nname = 'c'\nbetween = ['cdn', 'far']",
    )
    .unwrap();
    assert_eq!(network.crossing(0, "home", "far"), Some(Direction::Forward));
    assert_eq!(
        network.crossing(0, "cdn", "home"),
        Some(Direction::Backward)
    );
    for (from, to) in [("pop", "far"), ("home", "home"), ("far", "nowhere")] {
        assert_eq!(network.crossing(0, from, to), None, "{from} {to}");
    }
    assert_eq!(network.way("home", "far").map(|way| way.len()), Some(3));
    assert_eq!(network.way("home", "home"), Some(Vec::new()));
    assert_eq!(network.way("far", "nowhere"), None);
}

#[test]
fn errors_name_the_field() {
    for (text, field, part) in [
        ("link = 'goe'", "link", "goe"),
        ("qeue = '1 BDP'", "qeue", "no such key"),
        ("lniks = []", "lniks", "no such key"),
        ("dwon.rate = '1 Mb/s'", "dwon", "no such key"),
        ("down.rtae = '1 Mb/s'", "down.rtae", "no such key"),
        ("loss = 2", "loss", "share"),
        ("down.rate = '5 MB/s'", "down.rate", "rate"),
        (
            "jitter = {spread = '1 ms', ordr = 'fifo'}",
            "up.jitter.ordr",
            "ordr",
        ),
        ("down.mtu = 1227", "down.mtu", "1200"),
        ("changes = [{rate = '1 Mb/s'}]", "changes[0].at", "time"),
        (
            "changes = [{at = '1 s', raet = '1 Mb/s'}]",
            "changes[0].raet",
            "no such key",
        ),
        (
            "changes = [{at = '2 s', mtu = 1400}, {at = '2 s', mtu = 1300}]",
            "changes[1].at",
            "after",
        ),
        ("[[links]]\nname = 'a'", "links[0].between", "between"),
        (
            "[[links]]\nnmae = 'a'\nbetween = ['a', 'b']",
            "links[0].nmae",
            "no such key",
        ),
    ] {
        let error = read(text).unwrap_err();
        assert_eq!(error.field, field, "{text}: {error}");
        assert!(error.to_string().contains(part), "{text}: {error}");
    }
}

/// What is said beside them holds for all paths that do not say otherwise.
#[test]
fn paths_lie_side_by_side() {
    let network = read(
        "rate = '10 Mb/s'\ndelay = '20 ms'\nqueue = '1 BDP'\n\
         [[paths]]\nname = 'a'\n\
         [[paths]]\nname = 'b'\nrate = '5 Mb/s'\nup.loss = '1 %'\n\
         [[paths.changes]]\nat = '3 s'\ndown.outages = [{ start = '3 s', duration = '60 s' }]\n\
         [[paths]]\nname = 'c'\nlink = 'lte'\ndelay = '40 ms'\njitter = { spread = '30 ms', order = 'fifo' }",
    )
    .unwrap();
    assert_eq!(network.homes, ["a", "b", "c"]);
    assert_eq!(network.places().collect::<Vec<_>>(), ["a", "b", "c", "far"]);
    let up = |index: usize| &network.wires[index].config.forward;
    let rates = [0, 1, 2].map(|index| up(index).rate.unwrap().bits_per_second());
    assert_eq!(rates, [10_000_000, 5_000_000, 10_000_000]);
    assert_eq!(up(1).loss, LossModel::uniform(0.01));
    assert_eq!(network.wires[1].config.backward.loss, LossModel::None);
    // lte's own loss stays, its delay is the path's.
    assert_eq!(up(2).loss, LossModel::uniform(0.005));
    assert_eq!(up(2).delay, Duration::from_millis(40));
    assert_eq!(up(2).queue, QueueSize::Bdp(1.0));
    let (at, later) = &network.wires[1].changes[0];
    assert_eq!(*at, Duration::from_secs(3));
    assert_eq!(
        (later.forward.outages.len(), later.backward.outages.len()),
        (0, 1)
    );
    for (home, wire) in [("a", 0), ("b", 1), ("c", 2)] {
        assert_eq!(
            network.way(home, FAR),
            Some(vec![(wire, Direction::Forward)])
        );
    }
    assert_eq!(network.crossing(0, "b", FAR), None);
}

#[test]
fn faults_of_paths_are_told_by_their_names() {
    let many: String = (0..17).map(|n| format!("{{name = 'p{n}'}},")).collect();
    let many = format!("paths = [{many}]");
    for (text, field, part) in [
        ("paths = []", "paths", "array of tables"),
        ("paths = [3]", "paths[0]", "is not a table"),
        (&many, "paths", "17 paths; at most 16"),
        (
            "[[paths]]\nrate = '1 Mb/s'",
            "paths[0].name",
            "needs a name",
        ),
        ("[[paths]]\nname = 'a b'", "paths[0].name", "letters"),
        (
            "[[paths]]\nname = 'far'",
            "paths[0].name",
            "meaning of its own",
        ),
        (
            "[[paths]]\nname = 'all'",
            "paths[0].name",
            "meaning of its own",
        ),
        (
            "[[paths]]\nname = 'a'\n[[paths]]\nname = 'a'",
            "paths[1].name",
            "two paths are called",
        ),
        (
            "[[paths]]\nname = 'a'\nlink = 'ltee'",
            "paths.a.link",
            "ltee",
        ),
        (
            "[[paths]]\nname = 'a'\nrtae = 1",
            "paths.a.rtae",
            "no such key",
        ),
        (
            "[[paths]]\nname = 'a'\nbetween = ['a', 'b']",
            "paths.a.between",
            "no such key",
        ),
        (
            "[[paths]]\nname = 'a'\nup.rate = '1'",
            "paths.a.up.rate",
            "rate",
        ),
        ("loss = 3\n[[paths]]\nname = 'a'", "loss", "share"),
        (
            "[[links]]\nname = 'a'\nbetween = ['a', 'b']\n[[paths]]\nname = 'a'",
            "paths",
            "beside `links`",
        ),
    ] {
        let error = read(text).unwrap_err();
        assert_eq!(error.field, field, "{text}: {error}");
        assert!(error.to_string().contains(part), "{text}: {error}");
    }
}
