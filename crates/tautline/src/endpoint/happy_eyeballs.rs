//! Reaching a host that has several addresses. RFC 8305.

use std::{
    future::{Future, poll_fn},
    net::{IpAddr, SocketAddr},
    pin::{Pin, pin},
    task::Poll,
    time::Duration,
};

use super::{Connecting, Endpoint};
use crate::{
    Connection, LocalEnd,
    error::{ConnectError, ConnectHostError, HandshakeError},
    socket::reaches,
};

/// Pause before the next attempt. RFC 8305 s5.
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);
/// A name with more addresses than this has the rest ignored.
const MAX_ATTEMPTS: usize = 16;

/// An attempt to be: from which of the places named, and where to.
type Way = (Option<usize>, SocketAddr);

/// Connects from any of `from`, or from the endpoint's own address if there are none. Tells from
/// which.
pub(super) async fn connect(
    endpoint: &Endpoint,
    from: &[LocalEnd],
    host: &str,
    port: u16,
) -> Result<(Connection, usize), ConnectHostError> {
    let resolved = resolve(host, port).await;
    let resolved = resolved.map_err(|error| ConnectHostError::Resolve {
        host: host.into(),
        error,
    })?;
    let local = endpoint.local_addr();
    let usable = |addr: &SocketAddr| !from.is_empty() || reaches(local, *addr);
    let all = interleave(resolved.into_iter());
    let addresses: Vec<_> = all.iter().copied().filter(usable).collect();
    let mut ways = ways(from.len(), &addresses);
    ways.truncate(MAX_ATTEMPTS);
    if ways.is_empty() {
        return Err(ConnectHostError::NoAddress { host: host.into() });
    }
    let (connection, place) = race(endpoint, from, host, ways).await?;
    // Further paths may lead to any of them, whatever this socket reaches.
    if all.len() > 1 {
        connection.add_peer_addresses(all);
    }
    Ok((connection, place))
}

/// The best address from everywhere, then the next: a dead interface is more likely than a dead
/// server.
fn ways(places: usize, addresses: &[SocketAddr]) -> Vec<Way> {
    if places == 0 {
        return addresses.iter().map(|addr| (None, *addr)).collect();
    }
    let from_everywhere = |addr: &SocketAddr| {
        let addr = *addr;
        (0..places).map(move |place| (Some(place), addr))
    };
    addresses.iter().flat_map(from_everywhere).collect()
}

async fn resolve(host: &str, port: u16) -> std::io::Result<Vec<SocketAddr>> {
    let literal = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(host);
    if let Ok(ip) = literal.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, port)]);
    }
    Ok(tokio::net::lookup_host((host, port)).await?.collect())
}

/// IPv6 and IPv4 in turns, IPv6 first, each family in the resolver's order, nothing twice.
/// RFC 8305 s4.
fn interleave(addresses: impl Iterator<Item = SocketAddr>) -> Vec<SocketAddr> {
    let mut seen = Vec::new();
    for addr in addresses {
        if !seen.contains(&addr) {
            seen.push(addr);
        }
    }
    let (v6, v4): (Vec<_>, Vec<_>) = seen.into_iter().partition(SocketAddr::is_ipv6);
    let longer = v6.len().max(v4.len());
    let turns = (0..longer).flat_map(|turn| [v6.get(turn), v4.get(turn)]);
    turns.flatten().copied().collect()
}

async fn race(
    endpoint: &Endpoint,
    from: &[LocalEnd],
    host: &str,
    ways: Vec<Way>,
) -> Result<(Connection, usize), ConnectHostError> {
    let name = host.trim_start_matches('[').trim_end_matches(']');
    let places: Vec<Option<usize>> = ways.iter().map(|(place, _)| *place).collect();
    let mut waiting = ways.into_iter().enumerate();
    let mut running: Vec<(usize, Connecting)> = Vec::new();
    let mut failed: Vec<(usize, SocketAddr, HandshakeError)> = Vec::new();
    loop {
        if let Some((index, (place, addr))) = waiting.next() {
            let connecting = match place.and_then(|place| from.get(place)) {
                Some(place) => endpoint.connect_once_from(place, addr, name, index == 0),
                None => endpoint.connect(addr, name),
            };
            match connecting {
                Ok(connecting) => running.push((index, connecting)),
                Err(ConnectError::Local(error)) => {
                    failed.push((index, addr, HandshakeError::Local(error)));
                    continue;
                }
                Err(error) => return Err(error.into()),
            }
        } else if running.is_empty() {
            break;
        }
        let last = waiting.len() == 0;
        match next_outcome(&mut running, last).await {
            Some((index, _, Ok(connection))) => {
                let place = places.get(index).copied().flatten();
                return Ok((connection, place.unwrap_or(0)));
            }
            Some((index, addr, Err(error))) => failed.push((index, addr, error)),
            // Time for the next address.
            None => {}
        }
    }
    failed.sort_by_key(|(index, ..)| *index);
    let attempts = failed
        .into_iter()
        .map(|(_, addr, error)| (addr, error))
        .collect();
    Err(ConnectHostError::AllFailed {
        host: host.into(),
        attempts,
    })
}

/// The first attempt that is decided, or `None` when it is time for another one.
async fn next_outcome(
    running: &mut Vec<(usize, Connecting)>,
    last: bool,
) -> Option<(usize, SocketAddr, Result<Connection, HandshakeError>)> {
    let mut delay = pin!(tokio::time::sleep(ATTEMPT_DELAY));
    poll_fn(|cx| {
        for position in 0..running.len() {
            let Some((index, connecting)) = running.get_mut(position) else {
                break;
            };
            if let Poll::Ready(outcome) = Pin::new(&mut *connecting).poll(cx) {
                let decided = (*index, connecting.remote_address(), outcome);
                drop(running.swap_remove(position));
                return Poll::Ready(Some(decided));
            }
        }
        if last {
            return Poll::Pending;
        }
        delay.as_mut().poll(cx).map(|()| None)
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_take_turns_and_repeats_vanish() {
        let addr = |text: &str| text.parse::<SocketAddr>().unwrap();
        let given = [
            "1.1.1.1:1",
            "2.2.2.2:1",
            "[::1]:1",
            "1.1.1.1:1",
            "3.3.3.3:1",
            "[::2]:1",
        ];
        let order = ["[::1]:1", "1.1.1.1:1", "[::2]:1", "2.2.2.2:1", "3.3.3.3:1"];
        assert_eq!(interleave(given.map(addr).into_iter()), order.map(addr));
        assert!(interleave(std::iter::empty()).is_empty());
    }

    #[test]
    fn every_place_is_tried_before_the_next_address() {
        let addresses = ["1.1.1.1:1", "2.2.2.2:1"].map(|text| text.parse().unwrap());
        let [a, b] = addresses;
        assert_eq!(ways(0, &addresses), [(None, a), (None, b)]);
        let both = [(Some(0), a), (Some(1), a), (Some(0), b), (Some(1), b)];
        assert_eq!(ways(2, &addresses), both);
    }

    #[tokio::test]
    async fn literals_need_no_resolver() {
        let v6 = resolve("[::1]", 7).await.unwrap();
        assert_eq!(v6, ["[::1]:7".parse().unwrap()]);
        assert_eq!(resolve("::1", 7).await.unwrap(), v6);
        assert_eq!(
            resolve("127.0.0.1", 7).await.unwrap(),
            ["127.0.0.1:7".parse().unwrap()]
        );
    }
}
