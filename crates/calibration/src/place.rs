//! One end of the emulated links: a network namespace whose only ways out are TUN devices.
//!
//! Owns: [`Place`], the addresses at both ends, and the question whether this machine lets us make
//! one ([`obstacle`]).
//!
//! Each link is a network of its own: its near end is [`near`], its far end [`far`]. The server is at
//! [`SERVER`], which all of them lead to; the first is the one that a client takes unless told.

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

/// Where servers are, whichever link one comes from.
pub(crate) const SERVER: Ipv4Addr = Ipv4Addr::new(10, 99, 255, 1);
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
    // Answers come in over the link that was asked over, not the one that the routing table prefers.
    ("ipv4/conf/all/rp_filter", "0"),
    ("ipv4/conf/default/rp_filter", "0"),
    ("mptcp/enabled", "1"),
];

/// Which end of the links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The client's.
    Near,
    /// The server's.
    Far,
}

/// The client's address on a link.
pub(crate) const fn near(link: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 99, link, 1)
}

/// The address of a link's far end.
const fn far(link: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 99, link, 2)
}

/// The TUN device of a link, in each namespace.
pub(crate) fn device(link: u8) -> String {
    format!("wire{link}")
}

/// A network namespace with a TUN device for each link.
#[derive(Debug)]
pub(crate) struct Place {
    namespace: File,
    /// The other sides of its devices.
    pub(crate) wires: Vec<File>,
}

impl Place {
    /// A new one, with so many links; MPTCP connections from there take all of them at once.
    pub(crate) fn new(side: Side, links: u8) -> Result<Self> {
        // A namespace belongs to a thread, and this program wants to keep its own.
        let made = thread::spawn(move || make(side, links)).join();
        made.unwrap_or_else(|_| bail!("the thread that makes a namespace failed"))
    }

    /// Moves the calling thread into the namespace, for sockets to be made there.
    pub(crate) fn enter(&self) -> Result<()> {
        move_into_link_name_space(self.namespace.as_fd(), Some(LinkNameSpaceType::Network))
            .context("cannot enter a network namespace")
    }

    /// What a setting below /proc/sys/net is there; empty where the kernel has none of that name.
    pub(crate) fn setting(&self, name: &str) -> Result<String> {
        let namespace = self.namespace.try_clone()?;
        let name = format!("/proc/sys/net/{name}");
        let read = thread::spawn(move || {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
            Ok(std::fs::read_to_string(name).unwrap_or_default())
        });
        let text = read.join();
        let text = text.unwrap_or_else(|_| bail!("the thread that reads a setting failed"))?;
        Ok(text.split_whitespace().collect::<Vec<_>>().join(" "))
    }
}

fn make(side: Side, links: u8) -> Result<Place> {
    system::new_network().context("cannot make a network namespace")?;
    let namespace = File::open("/proc/thread-self/ns/net")?;
    for (setting, value) in SETTINGS {
        // What a kernel does not have cannot be in the way.
        let _ = std::fs::write(format!("/proc/sys/net/{setting}"), value);
    }
    let mut wires = Vec::new();
    for link in 0..links {
        wires.push(system::tun(&device(link)).context("cannot make a TUN device")?);
    }
    ip(&commands(side, links))?;
    Ok(Place { namespace, wires })
}

/// What `ip` has to do there.
fn commands(side: Side, links: u8) -> String {
    let mut out = "link set dev lo up\n".to_owned();
    for link in 0..links {
        let device = device(link);
        let address = match side {
            Side::Near => near(link),
            Side::Far => far(link),
        };
        out += &format!(
            "link set dev {device} mtu {MTU} txqueuelen {DEVICE_QUEUE} up\n\
             addr add {address}/24 dev {device}\n"
        );
        if side == Side::Near {
            // Sockets that are bound to a device find the way that others do not prefer.
            out += &format!(
                "route add {SERVER} dev {device} src {address} metric {}\n",
                100 + u32::from(link)
            );
            if link > 0 {
                out += &format!("mptcp endpoint add {address} dev {device} subflow\n");
            }
        }
    }
    if side == Side::Far {
        out += &format!("addr add {SERVER}/32 dev lo\n");
    }
    if links > 1 {
        out += &format!("mptcp limits set subflows {links} add_addr_accepted 0\n");
    }
    out
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
    Place::new(Side::Near, 1)
        .err()
        .map(|error| format!("{error:#}"))
}

/// Why MPTCP connections cannot be made here, where places can.
pub(crate) fn obstacle_to_mptcp() -> Option<String> {
    Place::new(Side::Near, 2)
        .err()
        .map(|error| format!("MPTCP: {error:#}"))
}
