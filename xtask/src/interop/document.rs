//! The table, printed and as `docs/interop.md`.

use std::{collections::BTreeMap, fmt::Write as _};

use anyhow::{Result, bail};

use super::{
    case::Case,
    cell::{Outcome, Side},
    peer::Peer,
};

/// Of the cells that can tick, so many must.
const WANTED_SHARE: f64 = 0.95;

/// All outcomes.
#[derive(Default)]
pub(crate) struct Table {
    rows: Vec<Row>,
    versions: Vec<(&'static str, String)>,
}

struct Row {
    peer: &'static str,
    side: Side,
    cells: BTreeMap<Case, Outcome>,
}

impl Table {
    pub(crate) fn add(&mut self, peer: Peer, side: Side, case: Case, outcome: Outcome) {
        let known = self
            .rows
            .iter()
            .position(|row| row.peer == peer.name && row.side == side);
        let index = known.unwrap_or_else(|| {
            self.rows.push(Row {
                peer: peer.name,
                side,
                cells: BTreeMap::new(),
            });
            self.rows.len() - 1
        });
        if let Some(row) = self.rows.get_mut(index) {
            row.cells.insert(case, outcome);
        }
    }

    pub(crate) fn version(&mut self, peer: Peer, version: String) {
        self.versions.push((peer.name, version));
    }

    fn cases(&self) -> Vec<Case> {
        let used = |case: &Case| self.rows.iter().any(|row| row.cells.contains_key(case));
        Case::ALL.iter().copied().filter(used).collect()
    }

    fn outcomes(&self) -> impl Iterator<Item = (&Row, Case, &Outcome)> {
        self.rows.iter().flat_map(|row| {
            row.cells
                .iter()
                .map(move |(case, outcome)| (row, *case, outcome))
        })
    }

    /// Ticks, and cells that could tick.
    fn score(&self) -> (usize, usize) {
        let ticks = self
            .outcomes()
            .filter(|(.., outcome)| matches!(outcome, Outcome::Tick));
        let failed = self
            .outcomes()
            .filter(|(.., outcome)| matches!(outcome, Outcome::Failed(_)));
        let ticks = ticks.count();
        (ticks, ticks + failed.count())
    }

    fn score_line(&self) -> String {
        let (ticks, possible) = self.score();
        let share = 100.0 * ticks as f64 / possible.max(1) as f64;
        format!("{ticks} of {possible} cells that can tick do ({share:.1} %).")
    }

    /// An error if too few cells tick.
    pub(crate) fn verdict(&self) -> Result<()> {
        let (ticks, possible) = self.score();
        if (ticks as f64) < WANTED_SHARE * possible as f64 {
            bail!("{}", self.score_line());
        }
        Ok(())
    }

    /// For a terminal.
    pub(crate) fn text(&self) -> String {
        let cases = self.cases();
        let mut text = format!("{:18}", "ours / peer");
        for case in &cases {
            let _ = write!(text, "{:>14}", case.name());
        }
        for row in &self.rows {
            let _ = write!(
                text,
                "\n{:18}",
                format!("{} / {}", row.side.name(), row.peer)
            );
            for case in &cases {
                let _ = write!(text, "{:>14}", row.cells.get(case).map_or("", word));
            }
        }
        let _ = write!(text, "\n\n{}", self.score_line());
        text
    }

    /// The page in `docs/`.
    pub(crate) fn document(&self) -> String {
        let cases = self.cases();
        let mut page = String::from(HEAD);
        page.push_str("\n| our end | peer |");
        for case in &cases {
            let _ = write!(page, " {} |", case.name());
        }
        page.push_str("\n|---|---|");
        page.push_str(&":-:|".repeat(cases.len()));
        let mut notes: Vec<String> = Vec::new();
        for row in &self.rows {
            let _ = write!(page, "\n| {} | {} |", row.side.name(), row.peer);
            for case in &cases {
                let cell = row
                    .cells
                    .get(case)
                    .map_or(String::new(), |outcome| cell(outcome, &mut notes));
                let _ = write!(page, " {cell} |");
            }
        }
        let _ = write!(
            page,
            "\n\n{}\n\n## Cells without a tick\n\n",
            self.score_line()
        );
        for (index, note) in notes.iter().enumerate() {
            let _ = writeln!(page, "{}. {note}", index + 1);
        }
        page.push_str("\n## Cases\n\n");
        for case in &cases {
            let _ = writeln!(page, "- **{}**: {}.", case.name(), case.meaning());
        }
        page.push_str("\n## Versions\n\n| peer | version |\n|---|---|\n");
        for (peer, version) in &self.versions {
            let _ = writeln!(page, "| {peer} | {version} |");
        }
        page
    }
}

fn word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Tick => "ok",
        Outcome::Blank(_) => "-",
        Outcome::Absent(_) => "absent",
        Outcome::Failed(_) => "FAILED",
    }
}

/// A cell's text; reasons become numbered notes, equal ones only once.
fn cell(outcome: &Outcome, notes: &mut Vec<String>) -> String {
    let (sign, note) = match outcome {
        Outcome::Tick => return "✓".to_owned(),
        Outcome::Blank(reason) => ("", reason.clone()),
        Outcome::Absent(reason) => ("absent ", format!("not installed: {reason}")),
        Outcome::Failed(reason) => ("✗ ", format!("**fails**: {reason}")),
    };
    let number = notes
        .iter()
        .position(|known| *known == note)
        .unwrap_or_else(|| {
            notes.push(note);
            notes.len() - 1
        });
    format!("{sign}({})", number + 1)
}

const HEAD: &str = "\
# Interoperability

Made by `cargo xtask interop`; do not edit. `cargo xtask interop --peer quinn --case retry` runs
one cell, `--keep` keeps its logs, qlog files and keys, `--list` names peers and cases.

In each cell a server and a client, one of them Tautline, talk over loopback through
`interop-proxy`, which watches every datagram and drops, changes or readdresses some where the case
asks for it. ✓ means: every file that arrived has the SHA-256 of the file asked for, the number of
handshakes is right, and the thing that the case is about was seen to happen. An empty cell names
what the peer lacks or how it refuses. Peers that speak HTTP/0.9 (`hq-interop`) do so outside of
the `http3` column; Chromium, curl, ngtcp2 and nginx use HTTP/3 throughout.
";
