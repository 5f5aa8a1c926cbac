//! Interfaces from the Linux kernel. rtnetlink(7).
//!
//! The kernel answers a dump while it is asked, so nothing here waits; what it cannot say at once, or
//! what we cannot read, is left out.

use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use netlink_packet_core::{
    NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::{
    AddressFamily, RouteNetlinkMessage,
    address::{AddressAttribute, AddressHeaderFlags, AddressMessage},
    link::{LinkAttribute, LinkFlags, LinkMessage},
    route::{RouteAddress, RouteAttribute, RouteMessage, RouteType},
};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use tokio::io::{Interest, unix::AsyncFd};

use super::Interface;

/// The kernel writes no more at once.
const BUFFER_BYTES: usize = 64 * 1024;
/// A dump of more messages than this is cut: a router with the routes of the whole Internet.
const MAX_MESSAGES: usize = 100_000;
/// More routes than this of one interface are not kept.
const MAX_ROUTES: usize = 1_024;
/// Multicast groups that tell of links, addresses and routes. linux/rtnetlink.h.
const GROUPS: [u32; 5] = [1, 5, 7, 9, 11];

pub(super) fn list() -> io::Result<Vec<Interface>> {
    let mut found = BTreeMap::new();
    dump(
        RouteNetlinkMessage::GetLink(LinkMessage::default()),
        |answer| {
            if let RouteNetlinkMessage::NewLink(link) = answer {
                note_link(&mut found, &link);
            }
        },
    )?;
    dump(
        RouteNetlinkMessage::GetAddress(AddressMessage::default()),
        |answer| {
            if let RouteNetlinkMessage::NewAddress(address) = answer {
                note_address(&mut found, &address);
            }
        },
    )?;
    for family in [AddressFamily::Inet, AddressFamily::Inet6] {
        let mut query = RouteMessage::default();
        query.header.address_family = family;
        dump(RouteNetlinkMessage::GetRoute(query), |answer| {
            if let RouteNetlinkMessage::NewRoute(route) = answer {
                note_route(&mut found, &route);
            }
        })?;
    }
    Ok(found.into_values().collect())
}

/// Asks for everything of a kind.
fn dump(query: RouteNetlinkMessage, mut take: impl FnMut(RouteNetlinkMessage)) -> io::Result<()> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.set_non_blocking(true)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    let mut packet = NetlinkMessage::new(NetlinkHeader::default(), NetlinkPayload::from(query));
    packet.header.flags = NLM_F_DUMP | NLM_F_REQUEST;
    packet.header.sequence_number = 1;
    packet.finalize();
    let mut request = vec![0; packet.buffer_len()];
    packet.serialize(&mut request);
    socket.send(&request, 0)?;
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut seen = 0;
    while seen < MAX_MESSAGES {
        let len = socket.recv(&mut &mut buffer[..], 0)?;
        let mut left = buffer.get(..len).unwrap_or_default();
        if left.is_empty() {
            break;
        }
        while let Some((message, rest)) = split_message(left) {
            left = rest;
            seen += 1;
            let Ok(message) = NetlinkMessage::<RouteNetlinkMessage>::deserialize(message) else {
                continue;
            };
            match message.payload {
                NetlinkPayload::InnerMessage(answer) => take(answer),
                NetlinkPayload::Done(_) => return Ok(()),
                NetlinkPayload::Error(error) => return Err(error.to_io()),
                _ => {}
            }
        }
    }
    Ok(())
}

/// The first message of a batch, and what follows it at the next multiple of four.
fn split_message(batch: &[u8]) -> Option<(&[u8], &[u8])> {
    let len = u32::from_ne_bytes(batch.get(..4)?.try_into().ok()?);
    let len = usize::try_from(len).ok().filter(|len| *len >= 16)?;
    let message = batch.get(..len)?;
    let next = len.next_multiple_of(4).min(batch.len());
    Some((message, batch.get(next..).unwrap_or_default()))
}

fn note_link(found: &mut BTreeMap<u32, Interface>, link: &LinkMessage) {
    let name = link
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            LinkAttribute::IfName(name) => Some(name.clone()),
            _ => None,
        });
    let (index, flags) = (link.header.index, link.header.flags);
    let interface = Interface {
        name: name.unwrap_or_default(),
        index,
        up: flags.contains(LinkFlags::Up | LinkFlags::LowerUp),
        loopback: flags.contains(LinkFlags::Loopback),
        ..Interface::default()
    };
    found.insert(index, interface);
}

fn note_address(found: &mut BTreeMap<u32, Interface>, message: &AddressMessage) {
    let unusable = AddressHeaderFlags::Tentative | AddressHeaderFlags::Dadfailed;
    let Some(interface) = found.get_mut(&message.header.index) else {
        return;
    };
    if message.header.flags.intersects(unusable) {
        return;
    }
    let (mut own, mut any) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            // On a link between two, the other attribute is the other end's.
            AddressAttribute::Local(ip) => own = Some(*ip),
            AddressAttribute::Address(ip) => any = Some(*ip),
            _ => {}
        }
    }
    interface.addresses.extend(own.or(any));
}

fn note_route(found: &mut BTreeMap<u32, Interface>, route: &RouteMessage) {
    if route.header.kind != RouteType::Unicast {
        return;
    }
    let v4 = route.header.address_family == AddressFamily::Inet;
    let mut network: IpAddr = if v4 {
        Ipv4Addr::UNSPECIFIED.into()
    } else {
        Ipv6Addr::UNSPECIFIED.into()
    };
    let mut ways = Vec::new();
    for attribute in &route.attributes {
        match attribute {
            RouteAttribute::Destination(RouteAddress::Inet(ip)) => network = (*ip).into(),
            RouteAttribute::Destination(RouteAddress::Inet6(ip)) => network = (*ip).into(),
            RouteAttribute::Oif(index) => ways.push(*index),
            RouteAttribute::MultiPath(hops) => {
                ways.extend(hops.iter().map(|hop| hop.interface_index));
            }
            _ => {}
        }
    }
    let reaches = (network, route.header.destination_prefix_length);
    for index in ways {
        if let Some(interface) = found.get_mut(&index)
            && interface.routes.len() < MAX_ROUTES
            && !interface.routes.contains(&reaches)
        {
            interface.routes.push(reaches);
        }
    }
}

/// A socket that the kernel tells of every change.
#[derive(Debug)]
pub(super) struct Watch {
    socket: AsyncFd<Socket>,
}

impl Watch {
    pub(super) fn new() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.set_non_blocking(true)?;
        socket.bind_auto()?;
        for group in GROUPS {
            socket.add_membership(group)?;
        }
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(io::Error::other("no tokio runtime: watch inside of one"));
        }
        // SAFETY: `Socket` opened its descriptor, names the same one every time and closes it when it
        // is dropped; the `AsyncFd` owns it, and nothing here takes it out or gives it away.
        let socket = unsafe { AsyncFd::register_with_interest(socket, Interest::READABLE) };
        Ok(Self { socket: socket? })
    }

    /// Waits until the kernel says anything.
    pub(super) async fn stir(&mut self) -> io::Result<()> {
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            let mut guard = self.socket.readable().await?;
            let heard = guard.try_io(|socket| {
                let mut heard = false;
                // Bounded: what else has come is read the next time.
                for _ in 0..64 {
                    match socket.get_ref().recv(&mut &mut buffer[..], 0) {
                        Ok(_) => heard = true,
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                            return if heard { Ok(()) } else { Err(error) };
                        }
                        // It had more to say than fitted: something changed.
                        Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => heard = true,
                        Err(error) => return Err(error),
                    }
                }
                Ok(())
            });
            if let Ok(outcome) = heard {
                return outcome;
            }
        }
    }
}
