//! Two paths at once with noq, and the document about it.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::install::Workshop;
use crate::tools::root;

const HEAD: &str = "\
# Two paths with another stack

Made by `cargo xtask interop --multipath`; do not edit.

Tautline and noq (the `noq` crate, which speaks RFC 10069, too) over two emulated links, in both roles. The \
client has two paths, one through each of two relays, which play the simulator's link in real time: \
20 Mb/s, 20 ms round trip, one bandwidth-delay product of queue. One stream carries 100 MB, every byte \
of which is compared. When half of it is through, the client abandons a path (in the first and third row \
that of the handshake), and the rest goes over the other. Counted is what the links delivered, in bytes \
of UDP payload; *afterwards* what each still delivered. Of what was abandoned that is what was under \
way, and the sender's end of it.

Bars: where Tautline sends, each path carries at least 40 % while there are two; where noq sends, each \
carries something; the bytes agree.

";

pub(super) fn run(build: bool) -> Result<()> {
    let workshop = Workshop::open(build)?;
    let package = "interop-multipath";
    workshop.build_package(package)?;
    let output = Command::new(workshop.program(package))
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot run {package}"))?;
    let table = String::from_utf8(output.stdout)?;
    print!("{table}");
    if !output.status.success() {
        bail!("a bar failed: see above");
    }
    std::fs::write(
        root().join("docs").join("interop-multipath.md"),
        format!("{HEAD}{table}"),
    )?;
    println!("written: docs/interop-multipath.md");
    Ok(())
}
