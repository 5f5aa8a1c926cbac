//! The table, on the terminal and as a document.

use std::fmt::Write as _;

use crate::{case::Case, play::Outcome};

/// A case and its runs.
pub(crate) struct Row {
    pub(crate) case: &'static Case,
    pub(crate) outcomes: Vec<Outcome>,
}

impl Row {
    /// Why it is no tick.
    pub(crate) fn failure(&self) -> Option<&str> {
        let mut verdicts = self.outcomes.iter().map(|outcome| &outcome.verdict);
        verdicts
            .find_map(|verdict| verdict.as_ref().err())
            .map(String::as_str)
    }

    /// What was seen, or what was wrong.
    fn seen(&self) -> String {
        if let Some(failure) = self.failure() {
            return format!("**fails**: {failure}");
        }
        if self.case.is_measurement() {
            return self.measured();
        }
        let verdicts = self
            .outcomes
            .iter()
            .filter_map(|outcome| outcome.verdict.as_ref().ok());
        verdicts.cloned().collect::<Vec<_>>().join("; ")
    }

    fn measured(&self) -> String {
        let rates = self.outcomes.iter().map(|outcome| {
            let megabits = (self.case.bytes() * 8) as f64 / 1e6;
            let rate = megabits / outcome.took.as_secs_f64().max(1e-9);
            let beside = outcome
                .beside
                .map(|bytes| format!(" beside a flow of {:.2}", bytes * 8.0 / 1e6));
            format!("{rate:.2}{}", beside.unwrap_or_default())
        });
        let rates: Vec<_> = rates.collect();
        format!("goodput {} Mb/s of 10", rates.join(", "))
    }

    fn seconds(&self) -> f64 {
        let times = self
            .outcomes
            .iter()
            .map(|outcome| outcome.took.as_secs_f64());
        times.sum::<f64>() / self.outcomes.len().max(1) as f64
    }

    /// For the terminal.
    pub(crate) fn line(&self) -> String {
        let late = self
            .outcomes
            .iter()
            .map(|outcome| outcome.late)
            .max()
            .unwrap_or_default();
        format!(
            "{} {:32} {:7.2} s  {}  [wire late by {:.1} ms at most]",
            if self.failure().is_some() {
                "✗"
            } else {
                "✓"
            },
            self.case.title(),
            self.seconds(),
            self.seen(),
            late.as_secs_f64() * 1e3,
        )
    }
}

/// The whole document.
pub(crate) fn document(rows: &[Row], seed: u64) -> String {
    let mut text = HEAD.to_owned();
    let _ = writeln!(
        text,
        "| case | | result | time | seen |\n|---|---|:-:|--:|---|"
    );
    for row in rows {
        let mark = if row.failure().is_some() {
            "✗"
        } else {
            "✓"
        };
        let _ = writeln!(
            text,
            "| {} | {} | {mark} | {:.1} s | {} |",
            row.case.title(),
            row.case.letters,
            row.seconds(),
            row.seen().replace('|', "/"),
        );
    }
    let passed = rows.iter().filter(|row| row.failure().is_none()).count();
    let _ = writeln!(
        text,
        "\n{passed} of {} rows pass; seed {seed}.\n\n## Cases\n",
        rows.len()
    );
    for row in rows {
        let _ = writeln!(text, "- **{}**: {}.", row.case.title(), row.case.meaning);
    }
    text.push_str(FOOT);
    text
}

const HEAD: &str = "\
# The interop runner's cases, Tautline to Tautline

Made by `cargo xtask runner`; do not edit. `cargo xtask runner --case retry` plays one case, `--keep`
keeps files, logs, qlog traces and keys, `--list` names the cases.

For each row `tautline interop server` and `tautline interop client` run as processes of their own,
told what to do by the runner's environment variables ($ROLE, $TESTCASE, $REQUESTS, $SSLKEYLOGFILE,
$QLOGDIR). Between them is a UDP proxy that runs the simulator's link in real time, with the runner's
parameters: 15 ms each way, 10 Mb/s, a drop-tail queue of 25 packets, and what the case adds (loss,
changed bytes, outages, rebinding). The same cases are tests in virtual time in
`crates/testkit/tests/behaviour/interop.rs`.

✓ means: the client ended well within the runner's time limit; every file has the SHA-256 of the file
that was asked for; both ends wrote key logs and qlog traces; with those secrets every packet that
either end sent opens (stateless resets aside); the QUIC versions and the number of handshakes are
right; and what the case is about was seen on the wire. Packets are opened by code that derives keys
on its own, and read at both ends of the wire as the runner reads its two captures.

";

const FOOT: &str = "
## What differs from the runner

- Ends run without containers, on loopback. IPv6 has one loopback address, so that rebinding to
  another address is played over IPv4.
- The chain in `amplificationlimit` is nine certificates that do not sign each other; the client
  accepts any certificate in all cases.
- `crosstraffic`: the runner lets a TCP CUBIC flow (iperf3) compete. A UDP proxy carries no TCP; the
  second flow here is another Tautline transfer with CUBIC between processes of its own, through the
  same queue, already running when the measured one starts and longer than it. It answers how two
  CUBIC flows share the queue, not how ours does beside a kernel's TCP.
- `goodput` and `crosstraffic` are measured from the client's first datagram to the last one that
  either end's trace shows at the client, connection set-up and close included.
";
