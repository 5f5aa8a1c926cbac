use super::*;

const SMALL: &str = r#"
name = "small"
title = "A small plan"

[network]
link = "wifi"
loss = 0

[[flow]]
name = "main"
workload = { kind = "bulk", bytes = "1 MB" }

[[solution]]
name = "cubic"
congestion = "cubic"

[[solution]]
name = "bbr3"
congestion = "bbr3"

[design]
kind = "grid"

[[design.factor]]
name = "loss"
path = "network.loss"
values = [0, "1 %"]

[[design.factor]]
name = "size"
path = "flow.main.workload.bytes"
values = ["10 kB", "1 MB"]

[run]
seeds = 3
limit = "60 s"

[smoke]
"run.seeds" = 1
"design.factor.size.values" = ["10 kB"]
"#;

fn parse(text: &str, options: &ReadOptions) -> Result<Plan, PlanError> {
    Plan::parse(text, Path::new("."), options, &Stacks::default())
}

#[test]
fn cells_are_every_combination() {
    let plan = parse(SMALL, &ReadOptions::default()).unwrap();
    assert_eq!(plan.len(), 4 * 2 * 3);
    let cells: Vec<Cell> = plan.cells().collect();
    assert_eq!(cells.len(), plan.len());
    // The same chance for every solution.
    let seeds = |solution: usize| -> Vec<u64> {
        let of = cells.iter().filter(|cell| cell.solution == solution);
        of.map(|cell| cell.seed).collect()
    };
    assert_eq!(seeds(0), seeds(1));
    let scene = plan.scene(&cells[23], &Stacks::default()).unwrap();
    let wire = &scene.network.wires[0];
    assert_eq!(
        wire.config.forward.loss,
        tautline_sim::LossModel::uniform(0.01)
    );
    assert_eq!(scene.solution.congestion.as_deref(), Some("bbr3"));
    assert_eq!(plan.points[3].levels[0].label, "1 %");
    assert_eq!(plan.points[3].levels[0].number, Some(1.0));
}

#[test]
fn smoke_makes_it_small() {
    let options = ReadOptions {
        smoke: true,
        ..ReadOptions::default()
    };
    assert_eq!(parse(SMALL, &options).unwrap().len(), 2 * 2);
}

#[test]
fn errors_name_line_reason_and_the_nearest_name() {
    for (from, to, line, field, nearest) in [
        ("loss = 0", "los = 0", 7, "network.up.los", Some("loss")),
        ("\"wifi\"", "\"wfii\"", 6, "network.link", Some("wifi")),
        (
            "bytes = \"1 MB\" }",
            "byts = \"1 MB\" }",
            11,
            "flow.main.workload",
            Some("bytes"),
        ),
        (
            "kind = \"bulk\"",
            "kind = \"blk\"",
            11,
            "flow.main",
            Some("bulk"),
        ),
        (
            "\"cubic\"\n\n",
            "\"cubik\"\n\n",
            15,
            "solution.congestion",
            Some("cubic"),
        ),
        ("seeds = 3", "seds = 3", 36, "run.seds", Some("seeds")),
        ("limit = \"60 s\"", "limit = \"60\"", 37, "run", None),
        ("[run]", "[rnu]", 35, "rnu", Some("run")),
        ("\"1 %\"]", "\"200 %\"]", 26, "design.factor.loss", None),
        (
            "network.loss\"",
            "netwrk.loss\"",
            26,
            "design.factor.loss",
            None,
        ),
        ("[design]", "[design", 22, "", None),
    ] {
        let text = SMALL.replacen(from, to, 1);
        assert_ne!(text, SMALL, "{from}");
        let error = parse(&text, &ReadOptions::default()).unwrap_err();
        let at = error.line.unwrap_or(0);
        assert!(at.abs_diff(line) <= 2, "{from} -> {to}: {error}");
        assert!(error.field.starts_with(field), "{from} -> {to}: {error}");
        assert_eq!(error.nearest.as_deref(), nearest, "{from} -> {to}: {error}");
    }
}

#[test]
fn a_space_filling_plan_fills_ranges() {
    let text = SMALL
        .replace("kind = \"grid\"", "kind = \"wsp\"\ncount = 40")
        .replace("values = [0, \"1 %\"]", "range = [0, 0.05]")
        .replace(
            "values = [\"10 kB\", \"1 MB\"]",
            "range = [1, 100]\nscale = \"log\"\nformat = \"{} kB\"\ndigits = 0",
        );
    let plan = parse(&text, &ReadOptions::default()).unwrap();
    assert_eq!(plan.points.len(), 40);
    let other = ReadOptions {
        draw: 7,
        ..ReadOptions::default()
    };
    let again = parse(&text, &other).unwrap();
    assert_ne!(plan.points, again.points);
    assert_ne!(plan.cell(0).unwrap().seed, again.cell(0).unwrap().seed);
    for point in &plan.points {
        let loss = point.levels[0].number.unwrap();
        let size = point.levels[1].number.unwrap();
        assert!((0.0..=0.05).contains(&loss) && (1.0..=100.0).contains(&size));
    }
}

#[test]
fn names_in_the_report_are_checked_too() {
    for (line, field, nearest) in [
        ("x = \"los\"", "report.x", "loss"),
        ("baseline = \"cubik\"", "report.baseline", "cubic"),
        (
            "metrics = [\"goodput_mbp\"]",
            "report.metrics",
            "goodput_mbps",
        ),
        (
            "paper = [{ source = \"s\", what = \"w\", metric = \"completion\", value = 1.0 }]",
            "report.paper[0].metric",
            "completion_s",
        ),
    ] {
        let text = format!("{SMALL}\n[report]\n{line}\n");
        let error = parse(&text, &ReadOptions::default()).unwrap_err();
        assert_eq!(error.field, field, "{line}: {error}");
        assert_eq!(error.nearest.as_deref(), Some(nearest), "{line}: {error}");
        assert!(error.line.unwrap_or(0) > 40, "{line}: {error}");
    }
}

#[test]
fn a_stack_of_another_program_is_told_with_its_command() {
    let text = SMALL.replace(
        "name = \"cubic\"\n",
        "name = \"cubic\"\nstack = \"quinn\"\n",
    );
    let error = parse(&text, &ReadOptions::default()).unwrap_err();
    assert!(error.field.ends_with("stack"), "{error}");
    assert!(error.problem.contains("cargo xtask lab-peers"), "{error}");
    assert_eq!(error.nearest, None);
}
