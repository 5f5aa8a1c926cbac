//! What was run, what was expected, what did not go well, and how to read the rest.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    chart::{Block, Cell, Column, Row, Section, Table},
    data::{Data, Distinct, Shown},
};
use crate::{
    campaign::{MadeBy, RESULTS},
    stack::program,
};

/// Groups of failures that get a row; further ones are counted in one.
const MOST_REASONS: usize = 200;
/// Levels of a factor that are written out.
const MOST_LEVELS: usize = 16;

pub(super) fn sections(data: &Data<'_>) -> Vec<Section> {
    let mut sections = Vec::new();
    sections.extend(field(data));
    if !data.plan.expect.is_empty() {
        sections.push(Section {
            heading: "What is expected".to_owned(),
            blocks: vec![Block::List(data.plan.expect.clone())],
        });
    }
    if !data.plan.report.found.is_empty() {
        sections.push(Section {
            heading: "What was found".to_owned(),
            blocks: vec![Block::List(data.plan.report.found.clone())],
        });
    }
    sections.push(outcome(data));
    sections.push(made(data));
    sections
}

/// That these are measurements, of what, and when.
fn field(data: &Data<'_>) -> Option<Section> {
    data.plan.options.field.as_ref()?;
    let all = |column| {
        let cells = 0..data.plan.len();
        let values = cells.filter_map(move |cell| data.text(cell, column));
        values
            .filter(|text| !text.is_empty())
            .collect::<BTreeSet<_>>()
    };
    let (started, far) = (all("started"), all("far"));
    let mut words = "Field data: every run was made between two real machines, over UDP sockets and the \
                     network between them. The network that the plan describes was left aside; points that \
                     differed in nothing else are one, and metrics of simulated links are empty. Runs of \
                     a block, one for each solution in an order drawn for it, are compared as pairs."
        .to_owned();
    if let (Some(first), Some(last)) = (started.first(), started.last()) {
        words.push_str(&format!(" The first run began {first}, the last {last}."));
    }
    if !far.is_empty() {
        let far: Vec<&str> = far.into_iter().collect();
        words.push_str(&format!(" The other machine: {}.", far.join(", ")));
    }
    Some(Section {
        heading: "Field data".to_owned(),
        blocks: vec![Block::Text(words)],
    })
}

/// How the results came about.
fn made(data: &Data<'_>) -> Section {
    let plan = data.plan;
    let options = &plan.options;
    let stacks = plan.solutions.iter();
    let program = program(stacks.map(|(_, options)| options.stack.as_str()));
    let source = plan.source.as_deref().map(quoted);
    let source = source.unwrap_or_else(|| plan.name.clone());
    let mut command = match &options.field {
        None => format!("{program} run {source}"),
        Some(_) => format!("{program} field {source} --far HOST:PORT --token WORD"),
    };
    if options.smoke {
        command.push_str(" --smoke");
    }
    if options.draw != 0 {
        command.push_str(&format!(" --draw {}", options.draw));
    }
    if let Some(seeds) = options.seeds {
        let key = if plan.is_of_field() { "runs" } else { "seeds" };
        command.push_str(&format!(" --{key} {seeds}"));
    }
    let chosen = options.field.iter().flat_map(|field| &field.solutions);
    let chosen: Vec<String> = chosen.map(|name| quoted(name)).collect();
    if !chosen.is_empty() {
        command.push_str(&format!(" --solutions {}", chosen.join(",")));
    }
    let mut folder = plan.name.clone();
    if plan.is_of_field() {
        folder.push_str("-field");
    }
    if options.smoke {
        folder.push_str("-smoke");
    }
    if options.draw != 0 {
        folder.push_str(&format!("-draw{}", options.draw));
    }
    command.push_str(&format!("\n{program} report lab-results/{folder}"));
    let cells = format!(
        "{} = {} points x {} solutions x {} repetitions",
        plan.len(),
        plan.points.len(),
        plan.solutions.len(),
        plan.repetitions
    );
    let mut entries = vec![
        ("plan".to_owned(), plan.name.clone()),
        ("size".to_owned(), size(data)),
        ("draw".to_owned(), options.draw.to_string()),
        ("made by".to_owned(), maker(&data.results.made_by)),
        ("cells".to_owned(), cells),
        (
            "chance".to_owned(),
            match plan.is_of_field() {
                false => {
                    "a cell's seed follows from draw, point and repetition: solutions of one point and \
                     repetition meet the same"
                }
                true => {
                    "the network's own; solutions of one point and repetition are a block, made one \
                     after the other in an order that follows from the draw, and do the same by the \
                     same seed"
                }
            }
            .to_owned(),
        ),
    ];
    for (index, factor) in plan.factors.iter().enumerate() {
        entries.push((format!("factor {factor}"), levels(data.levels(index))));
    }
    for (name, options) in &plan.solutions {
        let table = toml::Table::try_from(options).unwrap_or_default();
        let text: Vec<String> = table
            .iter()
            .map(|(key, value)| format!("{key} = {value}"))
            .collect();
        entries.push((format!("solution {name}"), text.join(", ")));
    }
    let used: BTreeSet<&str> = plan
        .solutions
        .iter()
        .map(|(_, o)| o.stack.as_str())
        .collect();
    for (stack, defaults) in &data.results.made_by.defaults {
        if used.contains(stack.as_str()) {
            entries.push((format!("defaults of {stack}"), of_windows(defaults)));
        }
    }
    Section {
        heading: "How it was made".to_owned(),
        blocks: vec![Block::Code(command), Block::Definitions(entries)],
    }
}

/// Of a stack's defaults those that definitions ask every page to state, or that bound a flow.
fn of_windows(defaults: &BTreeMap<String, String>) -> String {
    let told = |key: &str| key.contains("window") || key.contains("buffer") || key == "ack_policy";
    let all = defaults.iter().filter(|(key, _)| told(key));
    let text: Vec<String> = all.map(|(key, value)| format!("{key} = {value}")).collect();
    text.join(", ")
}

/// How much of the plan was run.
fn size(data: &Data<'_>) -> String {
    let plan = data.plan;
    let size = if plan.options.smoke {
        "smoke: reduced, to show that it runs; its figures prove nothing"
    } else {
        "full"
    };
    match fewer(data) {
        Some(words) if plan.options.smoke => format!("{size}; {words}"),
        Some(words) => words,
        None if plan.repetitions > plan.planned => format!(
            "{size}, with {} repetitions instead of the plan's {}",
            plan.repetitions, plan.planned
        ),
        None => size.to_owned(),
    }
}

/// That there are fewer repetitions than the plan asks for.
fn fewer(data: &Data<'_>) -> Option<String> {
    let (made, planned) = (data.plan.repetitions, data.plan.planned);
    let plural = if made == 1 { "" } else { "s" };
    (made < planned).then(|| {
        format!("reduced: {made} repetition{plural} of each cell instead of the plan's {planned}")
    })
}

/// Which laboratory, and whether it is another one than writes the report.
fn maker(made_by: &MadeBy) -> String {
    if made_by.is_of_this_version() {
        return made_by.to_string();
    }
    format!(
        "{made_by}; the report is by tautline-lab {} (results {RESULTS}), with which figures may be \
         others, and formulas may have changed",
        env!("CARGO_PKG_VERSION")
    )
}

/// A path as a shell takes it.
fn quoted(path: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    if path.chars().all(plain) {
        return path.to_owned();
    }
    format!("'{}'", path.replace('\'', r"'\''"))
}

fn levels(levels: &[Distinct]) -> String {
    if levels.len() <= MOST_LEVELS {
        let labels: Vec<&str> = levels.iter().map(|level| level.label.as_str()).collect();
        return labels.join(", ");
    }
    match (levels.first(), levels.last()) {
        (Some(first), Some(last)) => {
            format!("{} levels, {} to {}", levels.len(), first.label, last.label)
        }
        _ => String::new(),
    }
}

/// How many cells ran, and all that did not end well.
fn outcome(data: &Data<'_>) -> Section {
    let plan = data.plan;
    let mut ran = 0usize;
    let mut nondeterministic = 0usize;
    let mut troubled: BTreeMap<(&str, &str), Vec<usize>> = BTreeMap::new();
    for index in 0..plan.len() {
        if data.row(index).is_none() {
            continue;
        }
        ran += 1;
        nondeterministic += usize::from(data.text(index, "flag") == Some("nondeterministic"));
        let status = data.text(index, "status").unwrap_or("without status");
        if status != "ok" {
            let reason = data.text(index, "reason").unwrap_or("no reason given");
            troubled.entry((status, reason)).or_default().push(index);
        }
    }
    let not_ok: usize = troubled.values().map(Vec::len).sum();
    let missing = plan.len() - ran;
    let mut words = format!(
        "{} of {} cells have a row; {} ended ok, {not_ok} did not.",
        ran,
        plan.len(),
        ran - not_ok
    );
    if missing > 0 {
        words.push_str(&format!(
            " {missing} have not run yet: this report is of an unfinished campaign."
        ));
    }
    words.push_str(&match nondeterministic {
        _ if plan.is_of_field() => {
            " They are measurements of a real network: none repeats itself.".to_owned()
        }
        0 => " Every one repeats itself with the same seed.".to_owned(),
        n => format!(" {n} hold a stack that does not repeat itself with the same seed."),
    });
    let mut blocks = vec![Block::Text(words)];
    if let Some(mut words) = fewer(data) {
        words.push_str(": spreads and intervals are those of so few.");
        words.replace_range(..1, "R");
        blocks.push(Block::Text(words));
    }
    if !troubled.is_empty() {
        blocks.push(Block::Text(
            "A row that is not ok still counts wherever it has a value; where it has none, tables \
             say how many have one, and distributions end below 1."
                .to_owned(),
        ));
        blocks.push(Block::Table(reasons(data, troubled)));
        blocks.push(Block::Table(by_solution(data)));
    }
    Section {
        heading: "Cells".to_owned(),
        blocks,
    }
}

fn reasons(data: &Data<'_>, troubled: BTreeMap<(&str, &str), Vec<usize>>) -> Table {
    let mut groups: Vec<_> = troubled.into_iter().collect();
    groups.sort_by_key(|(_, cells)| std::cmp::Reverse(cells.len()));
    let rest = groups.split_off(groups.len().min(MOST_REASONS));
    let mut rows: Vec<Row> = groups
        .into_iter()
        .map(|((status, reason), cells)| {
            let mut which: Vec<String> = cells.iter().take(8).map(usize::to_string).collect();
            if cells.len() > which.len() {
                which.push("...".to_owned());
            }
            let first = cells.first().and_then(|index| data.cell(*index));
            let solution = first.map_or("", |cell| data.solution(cell.solution));
            Row::new(
                true,
                vec![
                    Cell::bad(status),
                    Cell::new(reason),
                    Cell::new(cells.len().to_string()),
                    Cell::new(which.join(", ")),
                    Cell::new(solution),
                ],
            )
        })
        .collect();
    if !rest.is_empty() {
        let cells: usize = rest.iter().map(|(_, cells)| cells.len()).sum();
        let words = format!("{} further reasons, in cells.csv", rest.len());
        rows.push(Row::new(
            true,
            vec![
                Cell::bad("various"),
                Cell::new(words),
                Cell::new(cells.to_string()),
                Cell::new(""),
                Cell::new(""),
            ],
        ));
    }
    Table {
        columns: vec![
            Column::text("status"),
            Column::text("reason"),
            Column::number("cells", ""),
            Column::text("numbers"),
            Column::text("first under"),
        ],
        rows,
    }
}

/// Whose cells did not end well.
fn by_solution(data: &Data<'_>) -> Table {
    let rows = data
        .solutions()
        .map(|solution| {
            let (mut ran, mut bad) = (0usize, 0usize);
            for index in (0..data.plan.points.len()).flat_map(|point| data.cells(point, solution)) {
                if data.row(index).is_some() {
                    ran += 1;
                    bad += usize::from(data.text(index, "status") != Some("ok"));
                }
            }
            let count = if bad == 0 {
                Cell::new("0")
            } else {
                Cell::bad(bad.to_string())
            };
            Row::new(
                true,
                vec![
                    Cell::new(data.solution(solution)),
                    Cell::new(ran.to_string()),
                    count,
                ],
            )
        })
        .collect();
    Table {
        columns: vec![
            Column::text("solution"),
            Column::number("cells", "that ran"),
            Column::number("not ok", "of these"),
        ],
        rows,
    }
}

/// What words and figures mean.
pub(super) fn reading(data: &Data<'_>, metrics: &[Shown]) -> Section {
    let bootstrap = &data.bootstrap;
    let mut entries: Vec<(String, String)> = metrics
        .iter()
        .map(|metric| (metric.label(), metric.definition()))
        .collect();
    let more = [
        (
            "interval",
            format!(
                "{:.0} % between percentiles of {} resamples with replacement (bootstrap, seed {})",
                bootstrap.confidence * 100.0,
                bootstrap.resamples,
                bootstrap.seed
            ),
        ),
        (
            "paired ratio",
            "value / the baseline's at the same point and repetition; medians and geometric means \
             are taken of these ratios"
                .to_owned(),
        ),
        (
            "ratio of medians",
            "median of all values / median of all the baseline's; says nothing of pairs".to_owned(),
        ),
        (
            "p (Welch)",
            "t = (m1 - m2) / sqrt(v1/n1 + v2/n2) with means m, unbiased variances v and counts n; \
             degrees of freedom (v1/n1 + v2/n2)^2 / ((v1/n1)^2/(n1-1) + (v2/n2)^2/(n2-1)); \
             two-sided, from the incomplete beta function; no correction for many tests"
                .to_owned(),
        ),
        (
            "quantile",
            "linear between the two nearest values in order".to_owned(),
        ),
        (
            "capacity",
            "the link's rate, counted in IP bytes".to_owned(),
        ),
    ];
    entries.extend(more.map(|(term, words)| (term.to_owned(), words)));
    Section {
        heading: "What the figures mean".to_owned(),
        blocks: vec![Block::Definitions(entries)],
    }
}
