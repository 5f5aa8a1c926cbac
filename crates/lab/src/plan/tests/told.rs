//! Faults that plans have had, and the words in which they are told.

use super::*;

fn told(text: &str) -> String {
    let read = parse(text, &ReadOptions::default());
    read.expect_err("refused").to_string()
}

fn with(from: &str, to: &str) -> String {
    assert!(SMALL.contains(from), "{from}");
    SMALL.replacen(from, to, 1)
}

/// A key that there is not at the end of a factor's path is the path's fault, whatever its values.
#[test]
fn paths_that_end_nowhere_are_told_as_they_stand() {
    for (path, nearest) in [
        ("network.down.los", "loss"),
        ("flow.main.cuont", "count"),
        ("flow.main.workload.byts", "bytes"),
        ("solution.congestoin", "congestion"),
    ] {
        let words =
            format!("plan:26: design.factor.loss: \"{path}\" leads nowhere: there is no such key");
        let error = told(&with("\"network.loss\"", &format!("\"{path}\"")));
        assert!(error.starts_with(&words), "{error}");
        assert!(
            error.ends_with(&format!("; did you mean `{nearest}`?")),
            "{error}"
        );
        // The same key in a table of values.
        let values = format!("values = [\n  0,\n  {{ label = \"x\",\n    \"{path}\" = 1 }},\n]");
        let error = told(&with("values = [0, \"1 %\"]", &values));
        assert!(error.starts_with(&words.replace(":26:", ":30:")), "{error}");
    }
    // Where the path is right, the value's own key is to blame.
    let value = "values = [{ spred = \"1 ms\" }]";
    let text =
        with("\"network.loss\"", "\"network.jitter\"").replace("values = [0, \"1 %\"]", value);
    let error = told(&text);
    assert!(
        error.starts_with("plan:27: design.factor.loss: "),
        "{error}"
    );
    assert!(!error.contains("leads nowhere"), "{error}");
}

#[test]
fn files_that_are_missing_have_neighbours() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("unsorted.csv"), "x").unwrap();
    std::fs::write(folder.path().join("lte.trace"), "1\n2\n").unwrap();
    for (from, to, place, nearest) in [
        (
            "loss = 0",
            "trace = { file = \"lte.tarce\" }",
            "plan:7: network.up.trace: ",
            "lte.trace",
        ),
        (
            "{ kind = \"bulk\", bytes = \"1 MB\" }",
            "{ kind = \"messages\", trace = { file = \"unsortd.csv\" } }",
            "plan:11: flow.main.workload: ",
            "unsorted.csv",
        ),
    ] {
        let text = with(from, to).replace("network.loss", "network.delay");
        let text = text.replace("values = [0, \"1 %\"]", "values = [\"1 ms\"]");
        let text = text.replace("flow.main.workload.bytes", "network.queue");
        let text = text.replace("[\"10 kB\", \"1 MB\"]", "[\"1 BDP\"]");
        let read = Plan::parse(
            &text,
            folder.path(),
            &ReadOptions::default(),
            &Stacks::default(),
        );
        let error = read.unwrap_err().to_string();
        assert!(error.starts_with(place), "{error}");
        assert!(
            error.contains(&format!("did you mean `{nearest}`?")),
            "{error}"
        );
    }
}

#[test]
fn two_factors_of_one_path_are_refused() {
    let error = told(
        &with("\"flow.main.workload.bytes\"", "\"network.loss\"")
            .replace("[\"10 kB\", \"1 MB\"]", "[0, 0.1]"),
    );
    let words = "plan:31: design.factor.size: \"network.loss\" is set by the factor loss as well, which \
                 would have no effect";
    assert_eq!(error, words);
    // As a whole, too; but not what only some of the later one's values set.
    let labelled = "values = [{ label = \"a\", \"network\" = { link = \"lte\" } }]";
    let size = "path = \"flow.main.workload.bytes\"\nvalues = [\"10 kB\", \"1 MB\"]";
    let error = told(&with(size, labelled));
    assert!(
        error.starts_with("plan:31: design.factor.size: \"network.loss\""),
        "{error}"
    );
    let some = "values = [{ label = \"a\", \"network.queue\" = \"2 BDP\" },\n\
                { label = \"b\", \"network.loss\" = 0.5 }]";
    parse(&with(size, some), &ReadOptions::default()).unwrap();
}

#[test]
fn shares_are_percentages_wherever_they_stand() {
    let config = |network: &str| {
        let plan = parse(&with("loss = 0", network), &ReadOptions::default());
        let plan = plan.unwrap_or_else(|error| panic!("{network}: {error}"));
        let scene = plan.scene(&plan.cell(0).unwrap(), &Stacks::default());
        scene.unwrap().network.wires[0].config.clone()
    };
    for (percent, number) in [
        ("duplication = \"5 %\"", "duplication = 0.05"),
        (
            "corruption = { model = \"gilbert\", probability = \"5 %\", mean_burst = 3 }",
            "corruption = { model = \"gilbert\", probability = 0.05, mean_burst = 3 }",
        ),
        (
            "down = { corruption = { model = \"gilbert-elliott\", good_to_bad = \"1 %\", bad_to_good = \
             \"20 %\", loss_good = \"0 %\", loss_bad = \"50 %\" } }",
            "down = { corruption = { model = \"gilbert-elliott\", good_to_bad = 0.01, bad_to_good = 0.2, \
             loss_good = 0, loss_bad = 0.5 } }",
        ),
        (
            "reordering = { probability = \"5 %\", extra = \"1 ms\" }",
            "reordering = { probability = 0.05, extra = \"1 ms\" }",
        ),
        (
            "handover = { loss_duration = \"10 ms\", loss_probability = \"5 %\", every = \"2 s\" }",
            "handover = { loss_duration = \"10 ms\", loss_probability = 0.05, every = \"2 s\" }",
        ),
        (
            "gaps = [{ interval = \"1 s\", probability = \"5 %\", duration = { kind = \"quantiles\", \
             points = [{ share = \"0 %\", value = \"1 ms\" }, { share = \"100 %\", value = \"2 ms\" }] } }]",
            "gaps = [{ interval = \"1 s\", probability = 0.05, duration = { kind = \"quantiles\", \
             points = [{ share = 0, value = \"1 ms\" }, { share = 1, value = \"2 ms\" }] } }]",
        ),
        (
            "coding = { every = \"1 s\", correlation = \"5 s\", states = [{ factor = \"50 %\", loss = \"5 %\" }, \
             { factor = \"100 %\", loss = 0 }], lag = \"1 s\", lag_loss = \"5 %\" }",
            "coding = { every = \"1 s\", correlation = \"5 s\", states = [{ factor = 0.5, loss = 0.05 }, \
             { factor = 1.0, loss = 0 }], lag = \"1 s\", lag_loss = 0.05 }",
        ),
    ] {
        assert_eq!(config(percent), config(number), "{percent}");
    }
    let error = told(&with(
        "loss = 0",
        "down.reordering = { extra = \"1 ms\", probability = \"5\" }",
    ));
    let place = "plan:7: network.down.reordering.probability: 5 is not a share";
    assert!(error.starts_with(place), "{error}");
}

#[test]
fn what_is_missing_or_nothing_is_told() {
    let seeds = |seeds| ReadOptions {
        seeds: Some(seeds),
        ..ReadOptions::default()
    };
    let refused = |seeds| parse(SMALL, &seeds).unwrap_err().to_string();
    assert_eq!(
        refused(seeds(0)),
        "plan: --seeds: 0 is not between 1 and 100000"
    );
    let many = parse(SMALL, &seeds(100_000)).map(|plan| plan.len());
    assert_eq!(many, Ok(800_000));
    let wide = SMALL.replace("[0, \"1 %\"]", "[0, 0.1, 0.2, 0.3, 0.4, 0.5]");
    let error = parse(&wide, &seeds(100_000)).unwrap_err().to_string();
    assert!(error.starts_with("plan: --seeds: 2400000 cells"), "{error}");
    let error = told(&with("seeds = 3", "seeds = 0"));
    assert_eq!(error, "plan:35: run.seeds: 0 is not between 1 and 100000");
    let error = told(&with("values = [0, \"1 %\"]", "values = []"));
    let words = "plan:27: design.factor[0].values: the list is empty: nothing would vary";
    assert_eq!(error, words);
    assert_eq!(told(""), "plan:1: `name` is missing");
    assert_eq!(
        told("name = \"a\"\ntitle = \"b\""),
        "plan:1: there is no [[solution]]"
    );
}

#[test]
fn lists_say_what_they_expect() {
    let list = |points: &str| {
        let text =
            with("kind = \"grid\"", "kind = \"list\"").replace("values = [0, \"1 %\"]\n", "");
        let text = text.replace("values = [\"10 kB\", \"1 MB\"]\n", "");
        text.replace("[run]", &format!("{points}\n[run]"))
            .replace("\"design.factor.size.values\" = [\"10 kB\"]", "")
    };
    let plan = list(
        "[[design.point]]\nloss = 0\nsize = \"1 MB\"\n[[design.point]]\nloss = \"1 %\"\nsize = \"1 kB\"",
    );
    assert_eq!(
        parse(&plan, &ReadOptions::default()).unwrap().points.len(),
        2
    );
    for (text, words) in [
        (
            list(""),
            "plan:21: design: has no point: a list needs [[design.point]], one for each point, with a \
             value of every factor by its name (loss, size)",
        ),
        (
            list("[[design.point]]\nloss = 0"),
            "plan:32: design.point[0]: `size` is missing: a point is a table with a value of every factor \
             by its name (loss, size)",
        ),
        (
            list("[design.point]\nloss = 0"),
            "design.point: is not an array of tables: write [[design.point]]",
        ),
        (
            list("[[design.point]]\nloss = 0\nsize = 1").replace("path = \"network.loss\"\n", ""),
            "design.point[0].loss: nothing says what it sets: give the factor a `path`",
        ),
        (
            list("[[design.point]]\nloss = 0\nsize = 1").replace("\"list\"", "\"grid\""),
            "design.point: only a design of kind = \"list\" has points",
        ),
        (
            list("[[design.point]]\nloss = 0\nsize = 1")
                .replace("path = \"network.loss\"\n", "range = [0, 1]"),
            "design.factor[0].range: a list has no range to fill",
        ),
    ] {
        let error = told(&text);
        assert!(error.contains(words), "{error}\n{words}");
        assert!(error.starts_with("plan:"), "{error}");
    }
}

/// A trace takes the place of the rate of a named link, in one direction or in both, also later.
#[test]
fn a_trace_stands_over_a_named_link() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("t"), "1\n2\n").unwrap();
    let read = |network: &str| {
        let text = with("link = \"wifi\"\nloss = 0", network);
        Plan::parse(
            &text,
            folder.path(),
            &ReadOptions::default(),
            &Stacks::default(),
        )
    };
    let wire = |network: &str| {
        let plan = read(network).unwrap_or_else(|error| panic!("{network}: {error}"));
        let scene = plan.scene(&plan.cell(0).unwrap(), &Stacks::default());
        scene.unwrap().network.wires[0].clone()
    };
    let both = wire("link = \"lte\"\ntrace = { file = \"t\" }").config;
    assert!(both.forward.trace.is_some() && both.backward.trace.is_some());
    assert_eq!((both.forward.rate, both.backward.rate), (None, None));
    let down = wire("link = \"lte\"\ndown.trace = { file = \"t\" }").config;
    assert!(down.forward.trace.is_none() && down.forward.rate.is_some());
    assert!(down.backward.trace.is_some() && down.backward.rate.is_none());
    let later = wire("link = \"lte\"\nchanges = [{ at = \"1 s\", trace = { file = \"t\" } }]");
    assert!(later.config.forward.rate.is_some() && later.changes[0].1.forward.rate.is_none());
    let slow = wire("link = \"starlink\"\nrate = \"1 Mb/s\"").config;
    assert!(slow.forward.rate.is_some() && slow.forward.rate_wander.is_none());
    // What stands beside each other contradicts each other.
    let error = read("rate = \"1 Mb/s\"\ntrace = { file = \"t\" }").unwrap_err();
    assert!(
        error.problem.contains("cannot be combined with `rate`"),
        "{error}"
    );
}

#[test]
fn a_plan_says_which_link_is_measured() {
    let links = |run: &str| {
        let network = "[[network.links]]\nname = \"access\"\nbetween = [\"near\", \"middle\"]\nlink = \"wifi\"\n\
                       [[network.links]]\nname = \"core\"\nbetween = [\"middle\", \"far\"]\nlink = \"lte\"\n\
                       [[network.links]]\nname = \"spur\"\nbetween = [\"middle\", \"end\"]";
        with("[network]\nlink = \"wifi\"\nloss = 0", network)
            .replace("\"network.loss\"", "\"network.links.core.loss\"")
            .replace("seeds = 3", &format!("seeds = 3\n{run}"))
    };
    let link = |run: &str| {
        let plan = parse(&links(run), &ReadOptions::default()).unwrap();
        let scene = plan.scene(&plan.cell(0).unwrap(), &Stacks::default());
        scene.unwrap().link
    };
    assert_eq!(link(""), 0);
    assert_eq!((link("link = \"core\""), link("link = 1")), (1, 1));
    for (run, words) in [
        (
            "link = \"cor\"",
            "run.link: no link is called \"cor\"; did you mean `core`?",
        ),
        (
            "link = 3",
            "run.link: there is no link 3; they go from 0 to 2",
        ),
        (
            "link = \"spur\"",
            "run.link: no measured flow crosses this link",
        ),
        (
            "link = [1]",
            "run.link: not the name of a link, nor its position from 0",
        ),
    ] {
        let error = told(&links(run));
        assert!(
            error.starts_with("plan:44: ") && error.contains(words),
            "{error}"
        );
    }
    // What is measured of it is its own: LTE's queue is another than Wi-Fi's.
    let queued = |run: &str| {
        let plan = parse(&links(run), &ReadOptions::default()).unwrap();
        let cell = plan.cell(plan.len() - 1).unwrap();
        let stacks = Stacks::default();
        let scene = plan.scene(&cell, &stacks).unwrap();
        let record = crate::run::play(&scene, &stacks, cell.seed).unwrap();
        let metric = |name: &str| record.metric(name).unwrap();
        assert_eq!(metric("link_losses") > 0.0, scene.link == 1);
        (metric("queue_delay_ms"), metric("utilisation"))
    };
    assert_ne!(queued(""), queued("link = \"core\""));
}
