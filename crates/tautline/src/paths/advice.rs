//! Why a path does not answer, as far as this host can tell.

use std::net::{IpAddr, SocketAddr};

use crate::interfaces::{self, Interface};

/// What to look at when nobody answers over a path; empty if nothing is conspicuous.
pub(crate) fn no_answer(local: SocketAddr, remote: SocketAddr) -> String {
    let known = interfaces::list().unwrap_or_default();
    let Some(interface) = holder(&known, local.ip()) else {
        return String::new();
    };
    if interfaces::is_here(&known, remote.ip()) {
        return String::new();
    }
    let name = &interface.name;
    if interface.loopback {
        return format!("; {name} leads to this host alone: take another interface");
    }
    if !interface.has_route_to(remote.ip()) {
        return format!(
            "; {name} has no route there: ip route add {}/{} dev {name} metric 1000 (via a gateway \
             if there is one)",
            remote.ip(),
            if remote.is_ipv4() { 32 } else { 128 },
        );
    }
    if remote.is_ipv4() && filters_strictly(name) {
        return format!(
            "; strict reverse-path filtering on {name} may drop the answers: sysctl -w \
             net.ipv4.conf.{name}.rp_filter=2"
        );
    }
    String::new()
}

/// The interface that has the address.
fn holder(known: &[Interface], ip: IpAddr) -> Option<&Interface> {
    known
        .iter()
        .find(|interface| interface.addresses.contains(&ip))
}

/// The stricter of both settings counts, except that 2 (loose) beats 1.
/// Linux, Documentation/networking/ip-sysctl.
fn filters_strictly(interface: &str) -> bool {
    let setting = |of: &str| -> u8 {
        let path = format!("/proc/sys/net/ipv4/conf/{of}/rp_filter");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.trim().parse().unwrap_or(0)
    };
    setting("all").max(setting(interface)) == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_leads_nowhere_else() {
        let said = |remote: &str| {
            no_answer(
                "127.0.0.1:5".parse().unwrap(),
                SocketAddr::new(remote.parse().unwrap(), 443),
            )
        };
        // TEST-NET-1, which is nobody's.
        let elsewhere = said("192.0.2.1");
        let known = interfaces::list().unwrap_or_default();
        if holder(&known, "127.0.0.1".parse().unwrap()).is_none() {
            println!("skipped: no loopback interface, or nobody to ask for it");
        } else {
            assert!(
                elsewhere.contains("leads to this host alone"),
                "{elsewhere}"
            );
        }
        assert_eq!(said("127.0.0.1"), "");
    }
}
