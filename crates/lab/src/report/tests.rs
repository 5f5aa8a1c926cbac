//! Reports of results made by hand.

use std::path::Path;

use super::*;
use crate::{
    campaign::MadeBy,
    metric::METRICS,
    plan::{Cell, ReadOptions, ReportOptions},
    stack::Stacks,
    table::{Column, Kind, Table, Value},
};

const HEAD: &str = r#"
name = "made"
title = "Made <script>alert(1)</script> & \"up\""
about = "About <b>nothing</b>."
expect = ["a is <faster> than b"]
[network]
link = "wifi"
[[flow]]
name = "main"
workload = { kind = "bulk", bytes = "10 kB" }
[[solution]]
name = "plain<i>"
[[solution]]
name = "cubic"
congestion = "cubic"
[[solution]]
name = "bbr3"
congestion = "bbr3"
"#;

const GRID: &str = r#"
[[design.factor]]
name = "loss"
path = "network.loss"
values = [0, "1 %", "2 %"]
[[design.factor]]
name = "size"
path = "flow.main.workload.bytes"
values = ["10 kB", "100 kB", "1000 kB"]
"#;

const REPORT: &str = r#"
[report]
baseline = "cubic"
metrics = ["completion_s", "goodput_mbps", "overhead", "on_time"]
x = "size"
found = ["a was <not> faster than b"]
[[report.paper]]
source = "002 Fig. 6.<1>"
what = "download time"
metric = "completion_s"
solution = "bbr3"
point = { loss = "1 %", size = "10 kB" }
value = 2.5
[[report.paper]]
source = "002 nowhere"
what = "of a point that is not here"
metric = "completion_s"
point = { loss = "7 %" }
value = 1
"#;

/// A plan whose report may name what is not there: reading a plan refuses that, a program that
/// changes [`Plan::report`] does not.
fn plan(design: &str, seeds: u64, report: &str) -> Plan {
    #[derive(serde::Deserialize)]
    struct Section {
        #[serde(default)]
        report: ReportOptions,
    }
    let text = format!("{HEAD}{design}\n[run]\nseeds = {seeds}\n");
    let options = ReadOptions::default();
    let mut plan = Plan::parse(&text, Path::new("."), &options, &Stacks::default()).unwrap();
    plan.report = toml::from_str::<Section>(report).unwrap().report;
    plan
}

fn columns(names: &[(&str, Kind)]) -> Vec<Column> {
    names
        .iter()
        .map(|(name, kind)| Column::new(*name, *kind, ""))
        .collect()
}

/// Results whose metrics are `value` and whose rows are as `status` says; `None` is no row.
fn results(
    plan: &Plan,
    value: impl Fn(&Cell, &str) -> Option<f64>,
    status: impl Fn(&Cell) -> Option<(&'static str, &'static str)>,
) -> Results {
    let mut cells = Table {
        columns: columns(&[
            ("cell", Kind::Integer),
            ("status", Kind::Text),
            ("reason", Kind::Text),
            ("flag", Kind::Text),
        ]),
        rows: Vec::new(),
    };
    cells.columns.extend(METRICS.iter().map(|metric| Column {
        unit: metric.unit.to_owned(),
        paper: metric.paper.to_owned(),
        ..Column::new(metric.name, Kind::Number, metric.formula)
    }));
    let mut flows = Table {
        columns: columns(&[
            ("cell", Kind::Integer),
            ("connection", Kind::Integer),
            ("flow", Kind::Text),
        ]),
        rows: Vec::new(),
    };
    let mut series = Table {
        columns: columns(&[
            ("cell", Kind::Integer),
            ("connection", Kind::Integer),
            ("time_s", Kind::Number),
            ("received_bytes", Kind::Integer),
            ("rtt_ms", Kind::Number),
            ("window_bytes", Kind::Integer),
        ]),
        rows: Vec::new(),
    };
    let mut items = Table {
        columns: columns(&[("cell", Kind::Integer), ("delay_ms", Kind::Number)]),
        rows: Vec::new(),
    };
    let mut missing = 0;
    for cell in plan.cells() {
        let Some((status, reason)) = status(&cell) else {
            missing += 1;
            continue;
        };
        let number = Value::integer(cell.index as u64);
        let mut row = vec![
            number.clone(),
            Value::text(status),
            Value::text(reason),
            Value::text(""),
        ];
        let of = |metric: &crate::metric::CellMetric| Value::number(value(&cell, metric.name));
        row.extend(METRICS.iter().map(of));
        cells.rows.push(row);
        for connection in 0..2u64 {
            let connection = Value::integer(connection);
            flows.rows.push(vec![
                number.clone(),
                connection.clone(),
                Value::text("<flow>"),
            ]);
            for step in 0..50u64 {
                series.rows.push(vec![
                    number.clone(),
                    connection.clone(),
                    Value::Number(step as f64 / 10.0),
                    Value::integer(step * step * 100),
                    Value::number((step > 2).then_some(25.0 + step as f64)),
                    Value::integer(12_000 + step * 1200),
                ]);
            }
        }
        let delay = Value::number(value(&cell, "completion_s"));
        items.rows.push(vec![number, delay]);
    }
    Results {
        cells,
        flows,
        series,
        items,
        missing,
        made_by: MadeBy::this(&Stacks::default()),
    }
}

fn usual(cell: &Cell, metric: &str) -> Option<f64> {
    let base = 1.0 + cell.point as f64 + 0.1 * cell.repetition as f64;
    match metric {
        "on_time" => None,
        "completion_s" if cell.index == 4 => None,
        "goodput_mbps" => Some(8.0 / base),
        _ => Some(base * (1.0 + 0.2 * cell.solution as f64)),
    }
}

fn fine(_: &Cell) -> Option<(&'static str, &'static str)> {
    Some(("ok", ""))
}

/// Every element closed, in order; every `&` an entity.
fn check_markup(text: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        check_entities(&rest[..at]);
        let end = rest[at..].find('>').expect("a tag that ends") + at;
        let tag = &rest[at + 1..end];
        rest = &rest[end + 1..];
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        check_entities(tag);
        let name = tag.split_whitespace().next().unwrap_or_default();
        if name.starts_with('!') || name == "meta" || tag.ends_with('/') {
            continue;
        }
        match name.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name)),
            None => open.push(name),
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

fn check_entities(text: &str) {
    for after in text.split('&').skip(1) {
        let entity = after.split(';').next().unwrap_or_default();
        assert!(
            ["amp", "lt", "gt", "quot", "#39"].contains(&entity),
            "&{entity}"
        );
    }
}

fn check(report: &Report) -> String {
    let html = report.to_html();
    check_markup(&html);
    for external in ["http", "src=", "href=", "@import", "url(", "<script"] {
        assert!(!html.contains(external), "{external}");
    }
    for picture in report.pictures() {
        let svg = picture.to_svg();
        check_markup(&svg);
        assert!(!svg.contains("var("), "{}", picture.file);
        // Words aside, no number is odd.
        for odd in ["NaN", "\"inf", " inf", "-inf"] {
            assert!(!svg.contains(odd), "{odd} in {}", picture.file);
        }
    }
    html
}

#[test]
fn everything_is_shown() {
    let plan = plan(GRID, 3, REPORT);
    let results = results(&plan, usual, |cell| match cell.index {
        4 => Some(("limit", "flow main has not finished after 600 s")),
        7 => Some(("error", "flow <main>: idle timeout")),
        8 => Some(("panic", "a fault")),
        80 => None,
        _ => Some(("ok", "")),
    });
    let report = document(&plan, &results);
    let html = check(&report);
    for text in [
        "completion_s (s)",
        "goodput_mbps (Mb/s)",
        "overhead",
        "No cell has a value of it.",
        "flow main has not finished after 600 s",
        "flow &lt;main&gt;: idle timeout",
        "a fault",
        "80 of 81 cells have a row; 77 ended ok, 3 did not. 1 have not run yet",
        "002 Fig. 6.&lt;1&gt;",
        "no such point",
        "tautline lab run made",
        "download completion time (DCT, 003)",
        "a is &lt;faster&gt; than b",
        "a was &lt;not&gt; faster than b",
        "plain&lt;i&gt;",
        "1000 resamples",
    ] {
        assert!(html.contains(text), "{text}");
    }
    let files: Vec<&str> = report.pictures().map(|p| p.file.as_str()).collect();
    for file in [
        "completion_s-over-size",
        "completion_s-ecdf",
        "completion_s-ratio",
        "completion_s-heat",
        "items-ecdf",
        "series-goodput",
        "series-rtt",
        "series-window",
    ] {
        assert!(files.contains(&file), "{file}: {files:?}");
    }
    let markdown = report.to_markdown("figures");
    for text in [
        "# Made &lt;script&gt;",
        "| loss | size |",
        "](figures/completion_s-heat.svg)",
        "flow &lt;main&gt;: idle timeout",
        "tautline lab run made",
    ] {
        assert!(markdown.contains(text), "{text}");
    }
    // Point 1 (0 %, 100 kB) has cell 12..15 of `cubic`: 2.0, 2.1 and 2.2 times 1.2.
    assert!(markdown.contains("2.520 [2.400, 2.640]"), "{markdown}");
}

#[test]
fn the_papers_figure_stands_beside_ours() {
    let plan = plan(GRID, 3, REPORT);
    let results = results(&plan, |_, _| Some(5.0), fine);
    let markdown = document(&plan, &results).to_markdown("figures");
    let row = markdown
        .lines()
        .find(|line| line.contains("002 Fig. 6.&lt;1&gt;"))
        .unwrap();
    let expected = "| 002 Fig. 6.&lt;1&gt; | download time | completion_s | bbr3, loss 1 %, size \
                    10 kB | 2.500 | 5 [5, 5] | 2 | 3 |";
    assert_eq!(row, expected);
}

#[test]
fn what_did_not_finish_is_slower_than_what_did() {
    let plan = plan("", 3, REPORT);
    // One of three cells is missing under the first solution, two under the second.
    let value = |cell: &Cell, _: &str| {
        let lost = match cell.solution {
            0 => cell.repetition == 0,
            1 => cell.repetition <= 1,
            _ => false,
        };
        (!lost).then_some(1.0 + cell.repetition as f64)
    };
    let markdown = document(&plan, &results(&plan, value, fine)).to_markdown("figures");
    let of = |metric: &str| {
        let section = markdown.split(&format!("## {metric}")).nth(1).unwrap();
        let row = section.lines().find(|l| l.starts_with("| the only one |"));
        row.unwrap().to_owned()
    };
    // 2, 3 and never: the middle is 3. 3, never, never: there is none.
    let completion = of("completion_s");
    assert!(
        completion.contains("**3 [2, none] (2 of 3)** | **- (1 of 3)** | 2 [1, 3] |"),
        "{completion}"
    );
    // Of other metrics a missing value says nothing.
    let goodput = of("goodput_mbps");
    assert!(
        goodput.contains("**2.500 [2, 3] (2 of 3)** | **3 (1 of 3)**"),
        "{goodput}"
    );
}

#[test]
fn pairs_are_of_the_same_point_and_repetition() {
    let plan = plan(GRID, 3, REPORT);
    // Repetitions differ a hundredfold, which pairs do not see.
    let value = |cell: &Cell, _: &str| {
        Some(10f64.powi(cell.repetition as i32) * if cell.solution == 2 { 0.5 } else { 1.0 })
    };
    let markdown = document(&plan, &results(&plan, value, fine)).to_markdown("figures");
    let row = markdown
        .lines()
        .find(|line| line.starts_with("| bbr3 | 27 |"))
        .unwrap();
    assert!(
        row.starts_with("| bbr3 | 27 | 0.5000 [0.5000, 0.5000] |"),
        "{row}"
    );
    assert!(row.contains("100.0 %"), "{row}");
}

#[test]
fn the_same_results_give_the_same_files() {
    let plan = plan(GRID, 2, REPORT);
    let results = results(&plan, usual, fine);
    let root = tempfile::tempdir().unwrap();
    let mut before: Option<Vec<Vec<u8>>> = None;
    for name in ["a", "b", "a"] {
        let folder = root.path().join(name);
        let files = write(&plan, &results, &folder).unwrap();
        assert_eq!(files[0], folder.join("report.html"));
        assert_eq!(files[1], folder.join("summary.md"));
        assert!(files.len() > 10);
        let bytes: Vec<Vec<u8>> = files.iter().map(|f| fs::read(f).unwrap()).collect();
        if let Some(before) = before.replace(bytes.clone()) {
            assert_eq!(before, bytes);
        }
        let summary = fs::read_to_string(&files[1]).unwrap();
        for (at, _) in summary.match_indices("](figures/") {
            let file = summary[at + 2..].split(')').next().unwrap();
            assert!(folder.join(file).is_file(), "{file}");
        }
    }
    let blocked = root.path().join("file");
    fs::write(&blocked, "").unwrap();
    assert!(write(&plan, &results, &blocked).is_err());
}

#[test]
fn whatever_the_results_are_there_is_a_report() {
    let wide = "[design]\nkind = \"lhs\"\ncount = 70\n[[design.factor]]\nname = \"loss\"\npath = \
                \"network.loss\"\nrange = [0, 0.05]\n[[design.factor]]\nname = \"size\"\npath = \
                \"flow.main.workload.bytes\"\nrange = [1, 1000]\nscale = \"log\"\nformat = \"{} \
                kB\"\n";
    let named = "[[design.factor]]\nname = \"link\"\npath = \"network.link\"\nvalues = \
                 [\"wifi\", \"geo\"]\n";
    let some = "[report]\nmetrics = [\"completion_s\", \"queue_delay_ms\"]\n";
    let odd_x = "[report]\nx = \"absent\"\nbaseline = \"bbr3\"\n";
    let link_x = "[report]\nx = \"link\"\n";
    type Make = fn(&Cell, &str) -> Option<f64>;
    let values: [Make; 9] = [
        |_, _| None,
        |_, _| Some(0.0),
        |_, _| Some(7.5),
        |cell, _| Some(-1.0 - cell.index as f64),
        |cell, _| Some(if cell.index % 2 == 0 { 1e308 } else { -1e308 }),
        |cell, _| Some(f64::from_bits(1 + cell.index as u64)),
        |cell, _| (cell.solution == 1).then_some(3.0),
        |cell, _| Some(10f64.powi((cell.index % 40) as i32 - 20)),
        |cell, _| Some(cell.index as f64 - 3.0),
    ];
    for (design, seeds, report) in [
        ("", 1, ""),
        ("", 25, some),
        (GRID, 1, REPORT),
        (GRID, 2, odd_x),
        (wide, 1, some),
        (named, 3, link_x),
    ] {
        let plan = plan(design, seeds, report);
        for value in values {
            check(&document(&plan, &results(&plan, value, fine)));
        }
        let none = results(&plan, |_, _| Some(1.0), |_| None);
        assert!(check(&document(&plan, &none)).contains("0 of "));
        let one = results(&plan, usual, |cell| (cell.index == 0).then_some(("ok", "")));
        check(&document(&plan, &one));
        let empty = Results {
            cells: Table::default(),
            flows: Table::default(),
            series: Table::default(),
            items: Table::default(),
            made_by: MadeBy::this(&Stacks::default()),
            missing: plan.len(),
        };
        check(&document(&plan, &empty));
    }
}

/// The command is one that makes the same again, whoever reads it.
#[test]
fn how_it_was_made_is_told_for_plans_of_ones_own_too() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("my plan.toml");
    std::fs::write(&file, format!("{HEAD}{GRID}\n[run]\nseeds = 3\n")).unwrap();
    let options = ReadOptions {
        seeds: Some(1),
        ..ReadOptions::default()
    };
    let mut plan = Plan::read(&file, &options, &Stacks::default()).unwrap();
    let page = |plan: &Plan, made_by: &MadeBy| {
        let mut results = results(plan, usual, fine);
        results.made_by = made_by.clone();
        document(plan, &results).to_markdown("figures")
    };
    let now = MadeBy::this(&Stacks::default());
    let text = page(&plan, &now);
    assert!(text.contains("lab run 'my plan.toml' --seeds 1"), "{text}");
    assert!(!text.contains(&folder.path().to_string_lossy().into_owned()));
    let few = "educed: 1 repetition of each cell instead of the plan's 3";
    assert_eq!(text.matches(few).count(), 2, "{text}");
    plan.source = Some("plans/mine.toml".to_owned());
    assert!(page(&plan, &now).contains("lab run plans/mine.toml --seeds 1"));
    assert!(text.contains(&now.to_string()) && !text.contains("the report is by"));
    let text = page(&plan, &MadeBy::default());
    assert!(text.contains("before versions were written down"), "{text}");
    assert!(text.contains("the report is by"), "{text}");
}

/// Of two single solutions the better one in each cell, which differs from seed to seed.
#[test]
fn the_best_of_several_is_compared_with() {
    let factor =
        "[[design.factor]]\nname = \"loss\"\npath = \"network.loss\"\nvalues = [0, \"1 %\"]";
    let words = "[report]\nbest_of = [\"plain<i>\", \"cubic\"]\nbest_by = \"loss\"\n\
                 metrics = [\"completion_s\", \"goodput_mbps\", \"packets_sent\"]";
    let plan = plan(factor, 3, words);
    let value = |cell: &Cell, metric: &str| {
        let seed = cell.repetition;
        // One is the better in the first seed, the other in the rest.
        let seconds = match cell.solution {
            0 => 2.0,
            1 => [4.0, 1.0, 1.0][seed as usize],
            _ if cell.point == 0 => 0.5,
            _ => [2.2, 1.0, 1.0][seed as usize],
        };
        match metric {
            "completion_s" if (cell.solution, cell.point, seed) == (2, 1, 2) => None,
            "goodput_mbps" => Some(8.0 / seconds),
            _ => Some(seconds),
        }
    };
    let report = document(&plan, &results(&plan, value, fine));
    let text = report.to_markdown(FIGURES);
    check(&report);
    let best = "completion_s against the best of plain&lt;i&gt;, cubic";
    assert!(text.contains(best), "{text}");
    // No baseline beside it, and nothing of what is neither better nor worse.
    assert!(!text.contains("completion_s against plain"), "{text}");
    assert!(!text.contains("packets_sent against"), "{text}");
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).collect();
    let row = |part: &str| {
        rows.iter()
            .filter(|row| row.contains(part))
            .collect::<Vec<_>>()
    };
    // By level, the number of pairs behind the solution's name.
    let level = |level: &str| row(&format!("| {level} | bbr3 | 3 |"))[0];
    assert!(level("0").contains("| 0 of 1 |"), "{rows:?}");
    assert!(level("1 %").contains("| 1 of 1 |"), "{rows:?}");
    // 0.25, 0.5, 0.5; then 1.1, 1 and one that did not finish.
    let found = row("| 0 | bbr3 | cubic |");
    assert!(found[0].contains("| 0.5"), "{found:?}");
    let found = row("| 1 % | bbr3 | cubic |");
    assert!(found[0].contains("**1.050 ["), "{found:?}");
    assert!(found[0].contains("no value"), "{found:?}");
    assert!(found[0].contains("| - |"), "sums of times: {found:?}");
    // Goodputs: 16 against 4 and 8 (by median); of the sum 16 / 12.
    let goodput = &found[1];
    assert!(
        row("| 0 | bbr3 | cubic |")[1].contains("| 1.333 |"),
        "{rows:?}"
    );
    assert!(goodput.contains("**0.9091**"), "{goodput}");
}
