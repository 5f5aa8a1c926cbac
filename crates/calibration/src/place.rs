//! One end of the emulated link: a network namespace whose only way out is a TUN device.
//!
//! Owns: [`Place`], and the question whether this machine lets us make one ([`obstacle`]).

use std::{
    fs::File,
    io::Write,
    net::Ipv4Addr,
    os::fd::AsFd,
    process::{Command, Stdio},
    thread,
};

use anyhow::{Context, Result, bail};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::system;

/// Of the TUN device, in each namespace.
const DEVICE: &str = "wire";
/// IP packets that the kernel keeps for us while we are late: more than any window here.
const DEVICE_QUEUE: u32 = 20_000;
/// What an Ethernet carries.
const MTU: u32 = 1500;

/// Settings of a namespace, below /proc/sys/net.
const SETTINGS: &[(&str, &str)] = &[
    // Router solicitations would take packet indices.
    ("ipv6/conf/all/disable_ipv6", "1"),
    ("ipv6/conf/default/disable_ipv6", "1"),
    // Runs know nothing of each other.
    ("ipv4/tcp_no_metrics_save", "1"),
    // Buffers limit nobody: least, initial and largest bytes. The kernel's own tuning stays on.
    ("ipv4/tcp_rmem", "4096 131072 67108864"),
    ("ipv4/tcp_wmem", "4096 131072 67108864"),
];

/// A network namespace with a TUN device.
#[derive(Debug)]
pub(crate) struct Place {
    namespace: File,
    /// The other side of its device.
    pub(crate) wire: File,
}

impl Place {
    /// A new one, with this address in a network of 256.
    pub(crate) fn new(address: Ipv4Addr) -> Result<Self> {
        // A namespace belongs to a thread, and this program wants to keep its own.
        let made = thread::spawn(move || make(address)).join();
        made.unwrap_or_else(|_| bail!("the thread that makes a namespace failed"))
    }

    /// Moves the calling thread into the namespace, for sockets to be made there.
    pub(crate) fn enter(&self) -> Result<()> {
        move_into_link_name_space(self.namespace.as_fd(), Some(LinkNameSpaceType::Network))
            .context("cannot enter a network namespace")
    }
}

fn make(address: Ipv4Addr) -> Result<Place> {
    system::new_network().context("cannot make a network namespace")?;
    let namespace = File::open("/proc/thread-self/ns/net")?;
    for (setting, value) in SETTINGS {
        // What a kernel does not have cannot be in the way.
        let _ = std::fs::write(format!("/proc/sys/net/{setting}"), value);
    }
    let wire = system::tun(DEVICE).context("cannot make a TUN device")?;
    ip(&format!(
        "link set dev lo up\n\
         link set dev {DEVICE} mtu {MTU} txqueuelen {DEVICE_QUEUE} up\n\
         addr add {address}/24 dev {DEVICE}\n"
    ))?;
    Ok(Place { namespace, wire })
}

/// Lets `ip` do these commands, in the calling thread's namespace.
fn ip(commands: &str) -> Result<()> {
    let mut child = Command::new("ip")
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot run `ip` (Debian: apt-get install iproute2)")?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(commands.as_bytes())?;
    }
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!("ip: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

/// Why this machine does not let us make places; `None` when it does.
pub(crate) fn obstacle() -> Option<String> {
    if !cfg!(target_os = "linux") {
        return Some("network namespaces need Linux".to_owned());
    }
    if let Err(error) = File::open("/dev/net/tun") {
        return Some(format!("/dev/net/tun: {error}"));
    }
    // The rest shows by trying: capabilities, seccomp, `ip`.
    Place::new(Ipv4Addr::new(10, 99, 0, 1))
        .err()
        .map(|error| format!("{error:#}"))
}
