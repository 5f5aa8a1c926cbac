//! The network interfaces of this host, and how they change.
//!
//! Purpose: let a client use every way out there is, and follow ways that come and go.
//! Owns: [`Interface`], [`list`], [`InterfaceWatch`]; Linux only (`netlink.rs`), elsewhere
//! [`std::io::ErrorKind::Unsupported`].
//! Does not own: which of them carry paths ([`crate::paths`]).

use std::{
    io,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use tokio::time::{Instant, sleep_until};

#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod netlink;

#[cfg(not(target_os = "linux"))]
use elsewhere as system;
#[cfg(target_os = "linux")]
use netlink as system;

/// A look at everything is followed by the next one no sooner than this: routes may change by the thousand.
const LEAST_PAUSE: Duration = Duration::from_millis(50);
/// So many times as long as it took, so that no more than a fifth of the time goes into it.
const PAUSE: u32 = 4;
/// However long it took.
const MOST_PAUSE: Duration = Duration::from_secs(2);

/// A network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Interface {
    /// Its name, as in `ip link`.
    pub name: String,
    /// The system's number for it.
    pub index: u32,
    /// Whether it is switched on and has a carrier.
    pub up: bool,
    /// Whether it leads nowhere but here.
    pub loopback: bool,
    /// Its addresses, IPv4 and IPv6, those that may be used now.
    pub addresses: Vec<IpAddr>,
    /// The networks that it leads to: address and length of prefix in bits.
    pub routes: Vec<(IpAddr, u8)>,
}

impl Interface {
    /// Whether some route leads through it to `remote`.
    pub fn has_route_to(&self, remote: IpAddr) -> bool {
        let remote = remote.to_canonical();
        self.routes
            .iter()
            .any(|&(network, bits)| is_within(remote, network, bits))
    }

    /// The address of it to send to `remote` from.
    pub fn address_towards(&self, remote: IpAddr) -> Option<IpAddr> {
        let remote = remote.to_canonical();
        let near = |ip: &IpAddr| match ip {
            IpAddr::V6(v6) => is_link_local(v6),
            IpAddr::V4(_) => false,
        };
        self.addresses
            .iter()
            .find(|ip| ip.is_ipv4() == remote.is_ipv4() && near(ip) == near(&remote))
            .copied()
    }
}

fn is_link_local(ip: &Ipv6Addr) -> bool {
    ip.is_unicast_link_local()
}

fn is_within(ip: IpAddr, network: IpAddr, bits: u8) -> bool {
    match (ip, network) {
        (IpAddr::V4(ip), IpAddr::V4(network)) => {
            let differs = u32::from(ip) ^ u32::from(network);
            differs.leading_zeros() >= u32::from(bits.min(32))
        }
        (IpAddr::V6(ip), IpAddr::V6(network)) => {
            let differs = u128::from(ip) ^ u128::from(network);
            differs.leading_zeros() >= u32::from(bits.min(128))
        }
        _ => false,
    }
}

/// All interfaces, by number.
///
/// # Errors
/// What the system says; `Unsupported` on systems other than Linux.
pub fn list() -> io::Result<Vec<Interface>> {
    system::list()
}

/// The interfaces over which `remote` can be reached: up, with a fitting address and a route, and not
/// loopback. None leads to this host itself.
///
/// # Errors
/// As [`list`].
pub fn towards(remote: SocketAddr) -> io::Result<Vec<Interface>> {
    let all = list()?;
    Ok(leading(&all, remote.ip()).into_iter().cloned().collect())
}

/// [`towards`], of interfaces that are known.
pub(crate) fn leading(all: &[Interface], remote: IpAddr) -> Vec<&Interface> {
    let ip = remote.to_canonical();
    if is_here(all, ip) {
        // What is sent there stays here, whatever routes say: an interface would carry it nowhere.
        return Vec::new();
    }
    let leads = |interface: &&Interface| {
        interface.up
            && !interface.loopback
            && interface.address_towards(ip).is_some()
            && interface.has_route_to(ip)
    };
    all.iter().filter(leads).collect()
}

/// Whether `ip` is an address of this host, whose interfaces are `all`.
pub(crate) fn is_here(all: &[Interface], ip: IpAddr) -> bool {
    let ip = ip.to_canonical();
    let mut own = all.iter().flat_map(|interface| &interface.addresses);
    // Systems take an unspecified destination for this host.
    ip.is_loopback() || ip.is_unspecified() || own.any(|own| *own == ip)
}

/// Tells when interfaces, their addresses or their routes change.
#[derive(Debug)]
pub struct InterfaceWatch {
    system: system::Watch,
    known: Vec<Interface>,
    next_look: Instant,
}

impl InterfaceWatch {
    /// Begins to listen.
    ///
    /// # Errors
    /// What the system says; `Unsupported` on systems other than Linux. Outside of a tokio runtime.
    pub fn new() -> io::Result<Self> {
        // Listens before it looks, so that no change falls between.
        let system = system::Watch::new()?;
        Ok(Self {
            system,
            known: list()?,
            next_look: Instant::now(),
        })
    }

    /// The interfaces as they were when this last looked.
    pub fn interfaces(&self) -> &[Interface] {
        &self.known
    }

    /// Waits until something is different, and tells how everything is then. Cancel safe. Looks 20 times a second at most.
    ///
    /// # Errors
    /// When the system stops telling.
    ///
    /// # Panics
    /// In a tokio runtime without timers.
    pub async fn changed(&mut self) -> io::Result<&[Interface]> {
        loop {
            // What is told of meanwhile waits.
            sleep_until(self.next_look).await;
            self.system.stir().await?;
            let begun = Instant::now();
            let now = list()?;
            self.next_look = Instant::now() + pause_after(begun.elapsed());
            if now != self.known {
                self.known = now;
                return Ok(&self.known);
            }
        }
    }
}

/// How long to rest after a look that took so long.
fn pause_after(took: Duration) -> Duration {
    took.saturating_mul(PAUSE).clamp(LEAST_PAUSE, MOST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_a_look_takes_the_longer_is_the_rest() {
        let after = |took| pause_after(Duration::from_millis(took)).as_millis();
        assert_eq!([1, 100, 10_000].map(after), [50, 400, 2_000]);
        assert_eq!(pause_after(Duration::MAX), MOST_PAUSE);
    }

    #[test]
    fn prefixes_match_by_their_bits() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        assert!(is_within(ip("10.1.2.3"), ip("10.1.0.0"), 16));
        assert!(!is_within(ip("10.2.2.3"), ip("10.1.0.0"), 16));
        assert!(is_within(ip("10.2.2.3"), ip("0.0.0.0"), 0));
        assert!(!is_within(ip("::1"), ip("0.0.0.0"), 0));
        assert!(is_within(ip("2001:db8::1"), ip("2001:db8::"), 32));
        assert!(!is_within(ip("2001:db9::1"), ip("2001:db8::"), 32));
        assert!(is_within(ip("1.2.3.4"), ip("1.2.3.4"), 200));
    }

    #[test]
    fn addresses_are_of_the_peers_kind() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let interface = Interface {
            addresses: vec![ip("fe80::1"), ip("10.0.0.1"), ip("2001:db8::1")],
            ..Interface::default()
        };
        let towards = |remote| interface.address_towards(ip(remote));
        assert_eq!(towards("192.0.2.1"), Some(ip("10.0.0.1")));
        assert_eq!(towards("::ffff:192.0.2.1"), Some(ip("10.0.0.1")));
        assert_eq!(towards("2001:db8::9"), Some(ip("2001:db8::1")));
        assert_eq!(towards("fe80::9"), Some(ip("fe80::1")));
    }

    #[test]
    fn no_interface_leads_to_this_host() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let interface = |name: &str, address| Interface {
            name: name.to_owned(),
            up: true,
            loopback: name == "lo",
            addresses: vec![ip(address)],
            routes: vec![(ip("0.0.0.0"), 0)],
            ..Interface::default()
        };
        let all = [
            interface("lo", "127.0.0.1"),
            interface("eth0", "192.0.2.1"),
            interface("wlan0", "198.51.100.1"),
        ];
        let leading = |remote| {
            let leading = leading(&all, ip(remote)).into_iter();
            leading.map(|it| it.name.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(leading("203.0.113.1"), ["eth0", "wlan0"]);
        assert_eq!(leading("::ffff:203.0.113.1"), ["eth0", "wlan0"]);
        for here in ["127.0.0.1", "127.0.0.9", "198.51.100.1", "0.0.0.0", "::1"] {
            assert!(leading(here).is_empty(), "{here}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_host_has_a_loopback_interface() {
        let Ok(all) = list() else {
            println!("skipped: this machine does not let us list its interfaces");
            return;
        };
        let Some(loopback) = all.iter().find(|interface| interface.loopback) else {
            println!("skipped: no loopback interface here");
            return;
        };
        assert_eq!(loopback.name, "lo");
        println!("{all:#?}");
    }
}
