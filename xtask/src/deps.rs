//! `cargo xtask deps`: arrows between rooms point down only.

use anyhow::{Result, bail};

use crate::tools::{relative, root, rust_files};

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
    let mut broken = Vec::new();
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
        println!("room dependencies: {} rules hold", FORBIDDEN.len());
        return Ok(());
    }
    bail!("{}", broken.join("\n"))
}
