//! Live heap of our connections, counted by the program's allocator.

use anyhow::Result;
use serde_json::Value;

use super::{
    program::{Program, Programs, Running, number},
    report::{Section, Table},
};

const CONNECTIONS: usize = 500;
/// What an idle connection may cost on each side.
const WANTED_BYTES: f64 = 25_000.0;

/// Heap bytes of both ends, at each of the client's reports.
fn measure(program: &Program, programs: &Programs, load: &[&str]) -> Result<[(f64, f64); 2]> {
    let mut server = Running::start(program.command(&programs.identity).arg("server"))?;
    let address = server.address()?;
    let mut command = program.command(&programs.identity);
    let mut client = Running::start(command.arg("client").arg(address).args(load))?;
    let mut reports = [(0.0, 0.0); 2];
    for report in &mut reports {
        let said: Value = client.line()?;
        server.order("heap")?;
        *report = (number(&said, "live"), number(&server.line()?, "live"));
        client.order("go on")?;
    }
    Ok(reports)
}

pub(super) fn run(programs: &Programs) -> Result<Section> {
    println!("\nMemory");
    let program = programs.of_ours("bench-ours-heap");
    let count = CONNECTIONS.to_string();
    let [before, after] = measure(&program, programs, &["idle", "--at-once", &count])?;
    let each = |before: f64, after: f64| (after - before) / CONNECTIONS as f64;
    let [early, late] = measure(&program, programs, &["cycles"])?;
    let mut table = Table::new(
        ["", "client", "server", "wanted"]
            .map(str::to_owned)
            .to_vec(),
    );
    let row = |name: &str, client: String, server: String, wanted: String| {
        vec![name.to_owned(), client, server, wanted]
    };
    table.row(row(
        "live heap bytes per idle connection",
        format!("{:.0}", each(before.0, after.0)),
        format!("{:.0}", each(before.1, after.1)),
        format!("at most {WANTED_BYTES:.0}"),
    ));
    let kib = |bytes: f64| format!("{:.1}", bytes / 1024.0);
    table.row(row(
        "live heap KiB after 1,000 cycles",
        kib(early.0),
        kib(early.1),
        String::new(),
    ));
    table.row(row(
        "live heap KiB after 10,000 cycles",
        kib(late.0),
        kib(late.1),
        String::new(),
    ));
    table.row(row(
        "change",
        format!("{:+.2} %", (late.0 / early.0 - 1.0) * 100.0),
        format!("{:+.2} %", (late.1 / early.1 - 1.0) * 100.0),
        "within 1 %".to_owned(),
    ));
    Ok(Section {
        title: "Memory: heap of idle connections and after many".to_owned(),
        command: "cargo xtask bench memory".to_owned(),
        text: format!(
            "Ours only, every setting at its default, at 3 s after the last connection was made or \
             closed; {CONNECTIONS} idle connections. A cycle is a handshake (resumed where a ticket \
             came in time) and a close.\n\n{}",
            table.markdown()
        ),
    })
}
