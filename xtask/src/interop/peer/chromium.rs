//! A headless Chromium that loads a page over HTTP/3; the page fetches the files.
//!
//! The page hashes each file itself (`crypto.subtle`) and writes path, length, hash and
//! `nextHopProtocol` into its body, which Chromium prints at the end (`--dump-dom`).

use std::process::Command;

use anyhow::{Context, Result, bail};

use super::setup::Setup;
use crate::interop::{case::Case, files::sha256, process::Program};

/// Virtual milliseconds that the page may take; time stands still while requests run.
const BUDGET_MS: &str = "60000";

pub(super) fn client(setup: &Setup<'_>) -> Result<Command> {
    std::fs::write(setup.www.join("page.html"), page())?;
    // A semicolon: the connection is closed in between.
    let paths = match (setup.case, setup.paths.split_first()) {
        (Case::Resumption | Case::ZeroRtt, Some((first, rest))) => {
            format!("{first};{}", rest.join(","))
        }
        _ => setup.paths.join(","),
    };
    let port = setup.connect_port;
    let mut command = Command::new("chromium");
    command
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--enable-quic",
        ])
        .args([
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
        ])
        .arg(format!(
            "--user-data-dir={}",
            setup.home.join("profile").display()
        ))
        .arg(format!("--origin-to-force-quic-on=127.0.0.1:{port}"))
        .arg(format!(
            "--ignore-certificate-errors-spki-list={}",
            setup.workshop.key_pin()?
        ))
        .args((setup.case == Case::Version2).then_some("--quic-version=RFCv2"))
        .arg(format!("--virtual-time-budget={BUDGET_MS}"))
        .arg("--dump-dom")
        .arg(format!("https://127.0.0.1:{port}/page.html#{paths}"));
    Ok(command)
}

fn page() -> &'static str {
    r#"<!doctype html><title>interop</title><body><pre id=o></pre><script>
const out = document.getElementById('o');
performance.setResourceTimingBufferSize(5000);
const hex = buffer => [...new Uint8Array(buffer)].map(b => b.toString(16).padStart(2, '0')).join('');
const get = async path => {
  for (let attempt = 0; ; attempt++) {
    try { return await (await fetch(path, {cache: 'no-store'})).arrayBuffer(); }
    catch (error) { if (attempt == 3) throw error; }
  }
};
const line = async path => {
  try {
    const body = await get(path);
    const hash = hex(await crypto.subtle.digest('SHA-256', body));
    const timing = performance.getEntriesByName(location.origin + path)[0];
    return `GOT ${path} ${body.byteLength} ${hash} ${timing ? timing.nextHopProtocol : '?'}`;
  } catch (error) { return `BAD ${path} ${error}`; }
};
(async () => {
  let lines = [];
  for (const group of location.hash.slice(1).split(';')) {
    if (lines.length) await fetch('/close').then(r => r.arrayBuffer()).catch(() => 0);
    lines = lines.concat(await Promise.all(group.split(',').map(line)));
  }
  out.textContent = lines.join('\n') + '\nEND\n';
})();
</script></body>
"#
}

/// Checks what the page wrote; a file whose hash and protocol are right counts as arrived.
pub(super) fn collect(setup: &Setup<'_>, client: &Program) -> Result<()> {
    let text = client.output();
    for path in setup.paths {
        let start = format!("{path} ");
        let line = text
            .lines()
            .find(|line| {
                line.split_once("GOT ")
                    .is_some_and(|(_, rest)| rest.starts_with(&start))
            })
            .with_context(|| {
                let bad = text.lines().find(|line| line.contains("BAD "));
                format!(
                    "the page has no {path}: {}",
                    bad.unwrap_or("it did not finish")
                )
            })?;
        let name = path.trim_start_matches('/');
        let served = std::fs::read(setup.www.join(name))?;
        if !line.contains(&format!(" {} {} ", served.len(), sha256(&served))) {
            bail!("{name} differs in the browser: {line}");
        }
        // Over QUIC v2 Chromium names it `h3/quic2draft08`.
        let protocol = line.trim_end().rsplit(' ').next().unwrap_or_default();
        if protocol != "h3" && !(setup.case == Case::Version2 && protocol.starts_with("h3/quic2")) {
            bail!("not over HTTP/3: {line}");
        }
        std::fs::write(setup.home.join("out").join(name), &served)?;
    }
    Ok(())
}
