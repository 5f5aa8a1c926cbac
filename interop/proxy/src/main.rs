//! A UDP relay between one client program and one server that watches and, if told to, misbehaves.
//!
//! ```text
//! interop-proxy --listen ADDR --upstream ADDR [--seed N] [--drop P] [--corrupt P]
//!               [--duplicate P] [--burst N] [--delay-ms N] [--kbps N] [--queue BYTES]
//!               [--rebind-every BYTES] [--rebinds N]
//! ```
//!
//! Probabilities P hold for each datagram and direction; no more than `--burst` datagrams in a
//! row are dropped or corrupted. `--kbps` limits each direction, behind a queue that drops what does
//! not fit `--queue`. What happens to the n-th datagram of a direction depends on the
//! seed, the direction and n alone. After every `--rebind-every` bytes towards the client the
//! client's packets come from another port, and what still goes to the old one is lost, as when a
//! NAT forgets its mapping.
//!
//! Runs until its standard input ends, then prints what it saw as lines `FACT name value`.

#![expect(clippy::disallowed_methods, reason = "a relay runs on real time")]

mod faults;
mod pipe;
mod relay;
mod server_hello;
mod watch;
mod wire;

use std::{io::Read, net::SocketAddr, time::Duration};

use anyhow::{Context, Result, bail};

use faults::Faults;

/// What the command line says.
pub(crate) struct Options {
    listen: SocketAddr,
    upstream: SocketAddr,
    faults: Faults,
    delay: Duration,
    /// Bytes per second of each direction; 0: no limit.
    rate: u64,
    /// What may wait for its turn, in bytes.
    queue: u64,
    rebind_every: Option<u64>,
    rebinds: u64,
}

fn options() -> Result<Options> {
    let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
    let mut options = Options {
        listen: nowhere,
        upstream: nowhere,
        faults: Faults::default(),
        delay: Duration::ZERO,
        rate: 0,
        queue: 64 * 1024,
        rebind_every: None,
        rebinds: u64::MAX,
    };
    let mut words = std::env::args().skip(1);
    while let Some(name) = words.next() {
        let value = words
            .next()
            .with_context(|| format!("{name} needs a value"))?;
        match name.as_str() {
            "--listen" => options.listen = value.parse()?,
            "--upstream" => options.upstream = value.parse()?,
            "--seed" => options.faults.seed = value.parse()?,
            "--drop" => options.faults.drop = value.parse()?,
            "--corrupt" => options.faults.corrupt = value.parse()?,
            "--duplicate" => options.faults.duplicate = value.parse()?,
            "--burst" => options.faults.burst = value.parse()?,
            "--delay-ms" => options.delay = Duration::from_millis(value.parse()?),
            "--kbps" => options.rate = value.parse::<u64>()? * 1000 / 8,
            "--queue" => options.queue = value.parse()?,
            "--rebind-every" => options.rebind_every = Some(value.parse()?),
            "--rebinds" => options.rebinds = value.parse()?,
            _ => bail!("unknown argument {name}"),
        }
    }
    Ok(options)
}

fn main() -> Result<()> {
    let relay = relay::start(options()?)?;
    let mut sink = Vec::new();
    std::io::stdin().read_to_end(&mut sink)?;
    relay.print_facts();
    Ok(())
}
