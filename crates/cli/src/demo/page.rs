//! The report as a page.

use std::time::Duration;

use tautline_lab::report::chart::{
    BarChart, BarGroup, Block, LegendEntry, LineChart, Reference, Report, Section, Series,
};
use tautline_sim::format_duration;

use super::{
    Run,
    cell::{Measured, Sample},
    figures,
    network::transport,
    pairs, requests,
};

/// Samples that one point of a goodput line looks back over, at least.
const SMOOTHING: u32 = 10;

/// The report of a run.
pub(super) fn report(run: &Run) -> Report {
    let mut sections = vec![results(run), requests::section(&run.requests)];
    sections.extend(pairs::section(&run.pairs));
    sections.extend(run.links.iter().filter_map(|link| one_link(run, link)));
    sections.push(definitions(run));
    sections.push(parameters(run));
    Report {
        title: "Tautline on slack links".to_owned(),
        lead: format!("{} {}", figures::headline(run), figures::verdict(run)),
        sections,
        footer: format!(
            "Written by tautline {} demo. The same version, file and seeds give the same figures.",
            env!("CARGO_PKG_VERSION")
        ),
    }
}

fn legend(run: &Run) -> Block {
    let entry = |name: &String| LegendEntry {
        name: name.clone(),
        slot: run.slot(name),
    };
    Block::Legend(run.controllers.iter().map(entry).collect())
}

fn results(run: &Run) -> Section {
    let group = |link: &String| BarGroup {
        name: link.clone(),
        bars: run
            .of_link(link)
            .map(|runs| {
                let share = runs.utilisation().map(|share| share * 100.0);
                (run.slot(&runs.first.controller), share)
            })
            .collect(),
        bound: run
            .of_link(link)
            .next()
            .map(|runs| runs.first.bound() / runs.first.capacity() * 100.0)
            .filter(|bound| bound.is_finite()),
    };
    let mut blocks = vec![
        legend(run),
        Block::Bars(BarChart {
            title: "Utilisation".to_owned(),
            note: format!(
                "Goodput of the whole plain transfer, handshake and start included, as a share of \
                 capacity{}. The line over each group is the bound R.",
                match run.seeds {
                    1 => String::new(),
                    seeds => format!(", the median of {seeds} runs"),
                }
            ),
            y_unit: "%".to_owned(),
            groups: run.links.iter().map(group).collect(),
        }),
        Block::Table(figures::table(run)),
    ];
    let told = figures::beside(run).into_iter();
    blocks.extend(told.chain(figures::problems(run)).map(Block::Text));
    Section {
        heading: "Results".to_owned(),
        blocks,
    }
}

/// The pictures of one link.
fn one_link(run: &Run, link: &str) -> Option<Section> {
    let first = run.of_link(link).next()?.first;
    let config = &first.config;
    let round_trip = config.round_trip();
    let mut words = format!(
        "Downlink: {}.",
        figures::describe(&config.backward, round_trip)
    );
    if config.forward == config.backward {
        words.push_str(" The uplink is the same.");
    } else {
        let up = figures::describe(&config.forward, round_trip);
        words.push_str(&format!(" Uplink: {up}."));
    }
    if run.seeds > 1 {
        words.push_str(&format!(
            " The pictures are of single plain transfers, those with seed {}.",
            run.seed
        ));
    }
    let window = (first.interval * SMOOTHING).max(round_trip);
    let capacity = first.capacity() / 1e6;
    let chart = |title: &str, note: String, y_unit: &str| LineChart {
        title: title.to_owned(),
        note,
        x_label: "simulated time since connect() (s)".to_owned(),
        y_unit: y_unit.to_owned(),
        y_limit: None,
        series: Vec::new(),
        references: Vec::new(),
    };
    let every = format!("sampled every {}", format_duration(first.interval));

    let mut goodput = chart(
        "Goodput",
        format!(
            "delivered in order over the last {}; above 1.5 x capacity cut off",
            format_duration(window)
        ),
        "Mb/s",
    );
    goodput.y_limit = capacity.is_finite().then_some(capacity * 1.5);
    goodput.series = lines(run, link, |cell| goodput_points(cell, window));
    if first.bound().is_finite() {
        goodput.references = vec![reference("bound R", first.bound() / 1e6, false)];
    }

    let mut delivered = chart(
        "Delivered",
        format!("bytes in order at the client, {every}"),
        "MB",
    );
    delivered.series = lines(run, link, |cell| {
        points(cell, |sample| sample.delivered as f64 / 1e6)
    });

    let mut congestion = chart(
        "Congestion window",
        format!("cwnd of the server, {every}"),
        "kB",
    );
    congestion.series = lines(run, link, |cell| {
        points(cell, |sample| {
            sample.window.map_or(f64::NAN, |window| window as f64 / 1e3)
        })
    });
    let bdp = figures::bdp(&config.backward, round_trip).unwrap_or(f64::NAN);
    congestion.references = vec![reference("1 BDP", bdp / 1e3, false)];

    let mut rtt = chart(
        "Round-trip time",
        format!("smoothed, at the server, {every}"),
        "ms",
    );
    rtt.series = lines(run, link, |cell| {
        points(cell, |sample| {
            sample.rtt.map_or(f64::NAN, |rtt| rtt.as_secs_f64() * 1e3)
        })
    });
    rtt.references = vec![reference(
        "empty link",
        round_trip.as_secs_f64() * 1e3,
        true,
    )];

    let charts = Block::Lines(vec![goodput, delivered, congestion, rtt]);
    Some(Section {
        heading: link.to_owned(),
        blocks: vec![Block::Text(words), legend(run), charts],
    })
}

fn reference(label: &str, value: f64, label_below: bool) -> Reference {
    Reference {
        label: label.to_owned(),
        value,
        label_below,
    }
}

fn lines(run: &Run, link: &str, points: impl Fn(&Measured) -> Vec<(f64, f64)>) -> Vec<Series> {
    run.of_link(link)
        .map(|runs| Series {
            name: runs.first.controller.clone(),
            slot: run.slot(&runs.first.controller),
            points: points(runs.first),
        })
        .collect()
}

fn points(cell: &Measured, value: impl Fn(&Sample) -> f64) -> Vec<(f64, f64)> {
    cell.samples
        .iter()
        .map(|sample| (sample.at.as_secs_f64(), value(sample)))
        .collect()
}

/// Goodput in Mb/s over the `window` before each sample. The last sample, which is off the grid,
/// is left out.
fn goodput_points(cell: &Measured, window: Duration) -> Vec<(f64, f64)> {
    let on_grid = cell.samples.len() - usize::from(cell.completion.is_some());
    let samples = cell.samples.get(..on_grid).unwrap_or_default();
    let back = (window.as_secs_f64() / cell.interval.as_secs_f64())
        .round()
        .max(1.0) as usize;
    let seconds = back as f64 * cell.interval.as_secs_f64();
    samples
        .iter()
        .enumerate()
        .map(|(index, sample)| {
            // Before the beginning nothing was delivered.
            let earlier = index
                .checked_sub(back)
                .and_then(|earlier| samples.get(earlier));
            let bytes = sample.delivered - earlier.map_or(0, |sample| sample.delivered);
            (sample.at.as_secs_f64(), bytes as f64 * 8.0 / seconds / 1e6)
        })
        .collect()
}

fn definitions(run: &Run) -> Section {
    let mut entries: Vec<(String, String)> = figures::definitions(run)
        .into_iter()
        .map(|(term, meaning)| (term.to_owned(), format!("{meaning}.")))
        .collect();
    let more = [
        (
            "cwnd",
            "Congestion window: bytes that may be in flight from server to client.",
        ),
        (
            "BDP",
            "Bandwidth-delay product: capacity x the round trip of the empty link.",
        ),
        (
            "goodput over time",
            "In order: nothing counts while a gap waits for its retransmission, and all that \
             waited behind it counts at once when it comes, hence peaks above capacity.",
        ),
        (
            "loss",
            "The share of packets that the link's loss model drops in the long run.",
        ),
    ];
    entries.extend(more.map(|(term, meaning)| (term.to_owned(), meaning.to_owned())));
    Section {
        heading: "What the figures mean".to_owned(),
        blocks: vec![Block::Definitions(entries)],
    }
}

fn parameters(run: &Run) -> Section {
    let config = transport();
    let kib = |bytes: u64| format!("{} KiB", bytes / 1024);
    let window = |window: tautline_transport::config::WindowConfig| {
        format!("{}, growing up to {}", kib(window.initial), kib(window.max))
    };
    let mut entries = vec![
        (
            "file",
            format!("{}, {} bytes", run.payload.describe(), run.payload.len()),
        ),
        ("SHA-256", run.payload.digest.to_string()),
        (
            "seeds",
            format!(
                "{}, for every transfer: over one link and with one seed, the packet of the same index \
                 meets the same fate by chance whichever controller sent it",
                figures::seeds_of(run)
            ),
        ),
        (
            "transfer",
            format!(
                "one connection, one stream, server to client; the client connects, asks, and hashes \
                 what comes; {}, so differences of a few per cent mean little",
                match run.seeds {
                    1 => "one run per row".to_owned(),
                    seeds => format!(
                        "{seeds} runs per row, of which the medians are shown; that is few where packets \
                         are lost by chance"
                    ),
                }
            ),
        ),
        (
            "initial window",
            format!("{} packets", config.initial_window_packets),
        ),
        (
            "stream receive window",
            window(config.stream_receive_window),
        ),
        (
            "connection receive window",
            window(config.connection_receive_window),
        ),
        (
            "datagrams",
            format!(
                "{} bytes at first, probed up to {} bytes of UDP payload",
                config.mtu.initial, config.mtu.upper_bound
            ),
        ),
        (
            "pacing",
            if config.pacing { "on" } else { "off" }.to_owned(),
        ),
        ("ECN", "offered; these links do not mark".to_owned()),
    ];
    entries.push(("version", format!("tautline {}", env!("CARGO_PKG_VERSION"))));
    let command = format!(
        "tautline demo --link {} --cc {} --fec {} --seed {} --seeds {}",
        run.links.join(","),
        run.controllers.join(","),
        run.fec.as_deref().unwrap_or("none"),
        run.seed,
        run.seeds
    );
    let entries = entries
        .into_iter()
        .map(|(term, text)| (term.to_owned(), text))
        .collect();
    Section {
        heading: "Parameters".to_owned(),
        blocks: vec![
            Block::Definitions(entries),
            Block::Text("Again, with the same file given to --file:".to_owned()),
            Block::Code(command),
        ],
    }
}
