//! Where a path begins on this host.

use std::{
    fmt,
    io::ErrorKind,
    net::{IpAddr, SocketAddr},
    str::FromStr,
};

use crate::{
    error::LocalEndError,
    interfaces,
    socket::{BindOptions, BoundSocket},
};

/// Where a path begins: a local address, a network interface, or both.
///
/// An address alone leaves the choice of the interface to the routing table; an interface alone takes
/// that of its addresses which is of the peer's family.
///
/// ```
/// # use tautline::LocalEnd;
/// let one: LocalEnd = "192.0.2.7".parse().unwrap();
/// let port_too: LocalEnd = "192.0.2.7:4000".parse().unwrap();
/// let wifi: LocalEnd = "wlan0".parse().unwrap();
/// assert_eq!(wifi, LocalEnd::interface("wlan0"));
/// # let _ = (one, port_too);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LocalEnd {
    ip: Option<IpAddr>,
    /// 0: the system chooses.
    port: u16,
    interface: Option<String>,
}

/// [`LocalEnd`] with nothing left to choose but the port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resolved {
    pub(crate) address: SocketAddr,
    pub(crate) interface: Option<String>,
    /// The system's number for the interface: one that comes back under its old name is another, and what was bound to the
    /// former leads nowhere.
    pub(crate) index: Option<u32>,
}

impl LocalEnd {
    /// Any address of this interface.
    pub fn interface(name: impl Into<String>) -> Self {
        Self {
            ip: None,
            port: 0,
            interface: Some(name.into()),
        }
    }

    /// Only through this interface, whatever the routing table says (SO_BINDTODEVICE, Linux).
    pub fn through(mut self, interface: impl Into<String>) -> Self {
        self.interface = Some(interface.into());
        self
    }

    /// The address, if one was named.
    pub fn ip(&self) -> Option<IpAddr> {
        self.ip
    }

    /// The interface, if one was named.
    pub fn interface_name(&self) -> Option<&str> {
        self.interface.as_deref()
    }

    /// Chooses the address from which `remote` can be reached.
    pub(crate) fn resolve(&self, remote: SocketAddr) -> Result<Resolved, LocalEndError> {
        let resolved = |ip, index| Resolved {
            address: SocketAddr::new(ip, self.port),
            interface: self.interface.clone(),
            index,
        };
        if let Some(ip) = self.ip {
            if ip.is_ipv4() != remote.is_ipv4() {
                return Err(LocalEndError::OtherFamily { local: ip, remote });
            }
            return Ok(resolved(ip, None));
        }
        let name = self.interface.clone().unwrap_or_default();
        let known = interfaces::list().map_err(|error| LocalEndError::NoInterfaceList {
            reason: error.kind(),
        })?;
        let Some(interface) = known.iter().find(|interface| interface.name == name) else {
            return Err(LocalEndError::NoInterface { name });
        };
        if !interface.up {
            return Err(LocalEndError::InterfaceDown { name });
        }
        let Some(ip) = interface.address_towards(remote.ip()) else {
            return Err(LocalEndError::NoAddress { name, remote });
        };
        if !interface.loopback && interfaces::is_here(&known, remote.ip()) {
            return Err(LocalEndError::OnThisHost { name, remote });
        }
        // Without one, IPv4 would look for the peer on the link itself, and not complain.
        if !interface.loopback && !interface.has_route_to(remote.ip()) {
            return Err(LocalEndError::NoRouteThrough { name, remote });
        }
        Ok(resolved(ip, Some(interface.index)))
    }
}

impl From<IpAddr> for LocalEnd {
    fn from(ip: IpAddr) -> Self {
        SocketAddr::new(ip, 0).into()
    }
}

impl From<SocketAddr> for LocalEnd {
    fn from(address: SocketAddr) -> Self {
        Self {
            ip: Some(address.ip().to_canonical()),
            port: address.port(),
            interface: None,
        }
    }
}

impl FromStr for LocalEnd {
    type Err = LocalEndError;

    /// An IP address, an address with a port, or the name of an interface.
    fn from_str(text: &str) -> Result<Self, LocalEndError> {
        if let Ok(ip) = text.parse::<IpAddr>() {
            return Ok(ip.into());
        }
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(address.into());
        }
        let plain = |c: char| !c.is_whitespace() && !c.is_control() && c != '/';
        if text.is_empty() || text.len() > 15 || !text.chars().all(plain) {
            let name = text.escape_debug().to_string();
            return Err(LocalEndError::NoInterface { name });
        }
        Ok(Self::interface(text))
    }
}

impl fmt::Display for LocalEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.ip, &self.interface) {
            (Some(ip), None) if self.port == 0 => ip.fmt(f),
            (Some(ip), None) => SocketAddr::new(ip, self.port).fmt(f),
            (Some(ip), Some(interface)) => write!(f, "{ip} on {interface}"),
            (None, interface) => f.write_str(interface.as_deref().unwrap_or_default()),
        }
    }
}

impl Resolved {
    /// A socket there. Beside it, a sentence if the system would not hold it to the interface.
    pub(crate) fn bind(
        &self,
        options: BindOptions,
    ) -> Result<(BoundSocket, Option<String>), LocalEndError> {
        let Some(name) = &self.interface else {
            return Ok((self.bind_on(None, options)?, None));
        };
        match BoundSocket::bind_through(self.address, Some(name), options) {
            Ok(socket) => Ok((socket, None)),
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::PermissionDenied | ErrorKind::Unsupported
                ) =>
            {
                let warning = format!(
                    "the system does not hold sockets to {name} ({error}), so the routing table \
                     decides which way packets from {} leave: run with CAP_NET_RAW, or give that \
                     address a routing table of its own (ip rule add from {} table 100; ip route add \
                     default dev {name} table 100)",
                    self.address.ip(),
                    self.address.ip(),
                );
                Ok((self.bind_on(None, options)?, Some(warning)))
            }
            Err(error) => Err(self.refused(&error)),
        }
    }

    fn bind_on(
        &self,
        interface: Option<&str>,
        options: BindOptions,
    ) -> Result<BoundSocket, LocalEndError> {
        BoundSocket::bind_through(self.address, interface, options)
            .map_err(|error| self.refused(&error))
    }

    fn refused(&self, error: &std::io::Error) -> LocalEndError {
        LocalEndError::Bind {
            local: self.address,
            reason: error.kind(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_names_addresses_and_interfaces() {
        for (text, shown) in [
            ("127.0.0.1", "127.0.0.1"),
            ("127.0.0.1:80", "127.0.0.1:80"),
            ("[::1]:80", "[::1]:80"),
            ("::ffff:1.2.3.4", "1.2.3.4"),
            ("eth0", "eth0"),
        ] {
            assert_eq!(text.parse::<LocalEnd>().unwrap().to_string(), shown);
        }
        for bad in ["", "a b", "more-than-fifteen-characters", "a/b", "x\n"] {
            assert!(bad.parse::<LocalEnd>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn families_must_agree() {
        let end: LocalEnd = "127.0.0.1".parse().unwrap();
        assert!(matches!(
            end.resolve("[::1]:1".parse().unwrap()),
            Err(LocalEndError::OtherFamily { .. })
        ));
        let at = end.resolve("127.0.0.9:1".parse().unwrap()).unwrap();
        assert_eq!(at.address, "127.0.0.1:0".parse().unwrap());
    }
}
