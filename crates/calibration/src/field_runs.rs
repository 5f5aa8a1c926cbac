//! Field runs through an emulated link, beside the simulation of the same plan.

use std::{
    net::SocketAddr,
    path::Path,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use tautline::tls;
use tautline_field::{
    far::{Far, Limits},
    near::{Address, Settings, campaign},
};
use tautline_lab::{
    campaign::{self, run_cell},
    metric::METRICS,
    plan::{FieldOptions, Plan, ReadOptions},
    stack::Stacks,
    stats::median,
    table::Value,
};

use crate::{
    conversation,
    emulator::Emulator,
    place::{self, Place, SERVER, Side},
    system::Ends,
    task::Task,
};

const PORT: u16 = 4435;
const TOKEN: &str = "a word that nobody guesses";

const PLAN: &str = "name = 'emulated'\ntitle = 'Over an emulated link'\n\
    [network]\nrate = '20 Mb/s'\ndelay = '25 ms'\nqueue = '1 BDP'\n\
    [[flow]]\nname = 'main'\nworkload = { kind = 'bulk', bytes = '2 MB' }\n\
    [[solution]]\nname = 'cubic'\ncongestion = 'cubic'\n\
    [[solution]]\nname = 'bbr3-taut'\ncongestion = 'bbr3-taut'\n\
    [run]\nseeds = 2\nlimit = '20 s'\n";

fn plan(field: Option<FieldOptions>) -> Plan {
    let options = ReadOptions {
        field,
        ..ReadOptions::default()
    };
    Plan::parse(PLAN, Path::new("."), &options, &Stacks::default()).unwrap()
}

/// Completion times of a solution in all rows.
fn medians(plan: &Plan, results: &[campaign::Entry]) -> Vec<f64> {
    let column = METRICS.iter().position(|it| it.name == "completion_s");
    let of = |solution| {
        let rows = results.iter().filter(|entry| {
            plan.cell(entry.cell)
                .is_some_and(|cell| cell.solution == solution)
        });
        let times: Vec<f64> = rows
            .filter_map(|entry| entry.metrics.get(column?).and_then(Value::as_number))
            .collect();
        assert_eq!(times.len(), 2, "{results:?}");
        median(&times).unwrap()
    };
    (0..plan.solutions.len()).map(of).collect()
}

fn serve(
    runtime: &tokio::runtime::Runtime,
    told: &std::sync::mpsc::SyncSender<()>,
    stopped: tokio::sync::oneshot::Receiver<()>,
) -> Result<()> {
    let identity = tls::self_signed(["localhost"])?;
    runtime.block_on(async {
        let at = SocketAddr::from((SERVER, PORT));
        let limits = Limits::default();
        let far = Far::bind(at, TOKEN.to_owned(), limits, move || identity.server())?;
        told.send(())?;
        tokio::select! {
            () = far.serve(|_| {}) => {}
            _ = stopped => {}
        }
        Ok(())
    })
}

#[test]
fn field_runs_take_what_the_simulation_says() {
    if let Some(obstacle) = place::obstacle() {
        println!("*skipped*: {obstacle}");
        return;
    }
    let simulated = plan(None);
    let stacks = Stacks::default();
    let cells = simulated.cells();
    let rows: Vec<_> = cells
        .map(|cell| run_cell(&simulated, &cell, &stacks))
        .collect();
    let expected = medians(&simulated, &rows);
    let scene = simulated
        .scene(&simulated.cell(0).unwrap(), &stacks)
        .unwrap();
    let task = Task::of(&scene).unwrap();

    let near = Arc::new(Place::new(Side::Near, 1).unwrap());
    let far = Arc::new(Place::new(Side::Far, 1).unwrap());
    let emulator = Emulator::start(Arc::clone(&near), Arc::clone(&far), &task.wires, 1).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let into = folder.path().to_owned();
    let fetch = move |runtime: &tokio::runtime::Runtime| {
        let address = Address {
            host: SERVER.to_string(),
            port: PORT,
            token: TOKEN.to_owned(),
            pin: None,
        };
        let settings = Settings {
            folder: into,
            resume: false,
            pause: Duration::ZERO,
        };
        let plan = plan(Some(FieldOptions::default()));
        let never = AtomicBool::new(false);
        let made = campaign(&plan, &address, &settings, &never, |_| {});
        runtime.block_on(made)?;
        Ok(Duration::ZERO)
    };
    let serve = |runtime: &_, told, stopped| serve(runtime, &told, stopped);
    conversation::hold(Ends::Early, (&near, &far), serve, fetch).unwrap();
    let report = emulator.finish().unwrap();
    assert!(report.largest <= 1500 && report.refused == 0);

    let text = std::fs::read_to_string(folder.path().join("journal.jsonl")).unwrap();
    let rows: Result<Vec<campaign::Entry>> = text
        .lines()
        .map(|line| {
            let entry: campaign::Entry = serde_json::from_str(line)?;
            ensure!(entry.status == "ok", "{:?}", entry.reason);
            let note = entry.field.as_ref().context("no field data")?;
            let rtt = note.rtt_ms.context("no round trip")?;
            ensure!(rtt >= 50.0, "faster than the link: {rtt} ms");
            Ok(entry)
        })
        .collect();
    let measured = medians(&simulated, &rows.unwrap());
    for ((expected, measured), (name, _)) in
        expected.iter().zip(&measured).zip(&simulated.solutions)
    {
        println!("{name}: simulated {expected:.3} s, field {measured:.3} s");
        // A machine that is busy with other things makes runs longer, never shorter.
        assert!(
            *measured > 0.9 * expected,
            "{name}: {measured} s, simulated {expected} s"
        );
        assert!(
            *measured < 2.0 * expected,
            "{name}: {measured} s, simulated {expected} s"
        );
    }
}
