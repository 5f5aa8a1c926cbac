//! `cargo xtask deps`: arrows between crates and between rooms point down only.

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::tools::{cargo, relative, root, rust_files};

/// The crates of this project that each may use; those for its tests aside. The drawing in
/// ARCHITECTURE.md.
const ARROWS: &[(&str, &[&str])] = &[
    ("tautline-codes", &[]),
    ("tautline-transport", &["tautline-codes"]),
    ("tautline-sim", &["tautline-transport"]),
    ("tautline-lab", &["tautline-sim", "tautline-transport"]),
    ("tautline", &["tautline-transport"]),
    ("tautline-h3", &["tautline"]),
    (
        "tautline-field",
        &["tautline", "tautline-lab", "tautline-transport"],
    ),
    (
        "tautline-cli",
        &[
            "tautline",
            "tautline-field",
            "tautline-h3",
            "tautline-lab",
            "tautline-sim",
            "tautline-transport",
        ],
    ),
    (
        "tautline-testkit",
        &["tautline-sim", "tautline-codes", "tautline-transport"],
    ),
    (
        "tautline-runner",
        &["tautline", "tautline-sim", "tautline-transport"],
    ),
    (
        "tautline-calibration",
        &[
            "tautline",
            "tautline-field",
            "tautline-lab",
            "tautline-sim",
            "tautline-transport",
        ],
    ),
    ("xtask", &[]),
];

/// (folder, import that must not appear in it, why).
const FORBIDDEN: &[(&str, &str, &str)] = &[
    (
        "crates/codes/src",
        "tautline_transport",
        "codes know bytes, not QUIC",
    ),
    ("crates/codes/src", "std::net", "codes do no I/O"),
    ("crates/codes/src", "std::time", "codes read no clock"),
    ("crates/transport", "tokio", "the transport is sans-IO"),
    (
        "crates/transport",
        "std::net::UdpSocket",
        "the transport is sans-IO",
    ),
    (
        "crates/transport",
        "std::thread",
        "the transport is sans-IO",
    ),
    (
        "crates/transport/src/wire",
        "crate::connection",
        "rooms do not know the hall",
    ),
    (
        "crates/transport/src/stream",
        "crate::connection",
        "rooms do not know the hall",
    ),
    (
        "crates/transport/src/datagram",
        "crate::connection",
        "rooms do not know the hall",
    ),
    (
        "crates/transport/src/message",
        "crate::connection",
        "rooms do not know the hall",
    ),
    (
        "crates/transport/src/fec",
        "crate::connection",
        "rooms do not know the hall",
    ),
    (
        "crates/transport/src/space",
        "crate::connection",
        "rooms do not know the hall",
    ),
    (
        "crates/transport/src/recovery",
        "crate::connection",
        "rooms do not know the hall",
    ),
    (
        "crates/transport/src/congestion",
        "crate::connection",
        "rooms do not know the hall",
    ),
    (
        "crates/transport/src/ack",
        "crate::connection",
        "rooms do not know the hall",
    ),
    (
        "crates/transport/src/path",
        "crate::connection",
        "rooms do not know the hall",
    ),
    (
        "crates/transport/src/tls",
        "crate::connection",
        "rooms do not know the hall",
    ),
    (
        "crates/transport/src/packet",
        "crate::connection",
        "rooms do not know the hall",
    ),
    (
        "crates/transport/src/congestion",
        "crate::recovery",
        "policies see plain numbers",
    ),
    (
        "crates/transport/src/congestion",
        "crate::path",
        "policies see plain numbers",
    ),
    (
        "crates/sim",
        "tokio",
        "the simulator has no clock but its own",
    ),
];

pub(crate) fn run() -> Result<()> {
    let mut broken = upward_arrows()?;
    for (folder, import, why) in FORBIDDEN {
        for path in rust_files(&root().join(folder))? {
            let name = relative(&path);
            if name.ends_with("tests.rs") || name.contains("/tests/") {
                continue;
            }
            let text = std::fs::read_to_string(&path)?;
            for (number, line) in text.lines().enumerate() {
                let code = line.split("//").next().unwrap_or_default();
                if code.contains(import) {
                    broken.push(format!("{name}:{}: imports {import}: {why}", number + 1));
                }
            }
        }
    }
    if broken.is_empty() {
        println!(
            "dependencies: those of {} crates and {} rules for rooms hold",
            ARROWS.len(),
            FORBIDDEN.len()
        );
        return Ok(());
    }
    bail!("{}", broken.join("\n"))
}

/// Dependencies between our crates that are not in [`ARROWS`].
fn upward_arrows() -> Result<Vec<String>> {
    let metadata = cargo()
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .output()
        .context("cannot run cargo metadata")?;
    let metadata: Value = serde_json::from_slice(&metadata.stdout)?;
    let packages = metadata["packages"].as_array().context("no packages")?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let ours: Vec<_> = packages
        .iter()
        .map(|package| text(&package["name"]))
        .collect();
    let mut broken = Vec::new();
    for package in packages {
        let name = text(&package["name"]);
        let Some((_, allowed)) = ARROWS.iter().find(|(it, _)| *it == name) else {
            broken.push(format!("{name}: no row in xtask/src/deps.rs"));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let used = text(&dependency["name"]);
            if dependency["kind"] != "dev"
                && ours.contains(&used)
                && !allowed.contains(&used.as_str())
            {
                broken.push(format!(
                    "{name} uses {used}, which lies above it or beside it"
                ));
            }
        }
    }
    Ok(broken)
}
