//! After the script: an honest network, everything delivered, everything closed.

use std::time::Duration;

use bytes::Bytes;
use tautline_transport::{
    error::{Code, ConnectionError},
    time::earliest,
    units::Side,
};

use super::{
    World,
    model::{Streams, lacking},
    setup::shared,
    world::{End, slot},
};

/// Arrivals and timers until everything must be delivered.
const MAX_STEPS: usize = 60_000;
/// The same until everything must be drained.
const MAX_CLOSING_STEPS: usize = 5_000;

impl World {
    /// Delivers what is left, compares, closes, drains.
    pub(crate) fn finish(&mut self) {
        self.settle();
        self.setup.shared &= !shared::UNDECIDED;
        for incoming in std::mem::take(&mut self.hosts[1].incoming) {
            self.decide(incoming, 0);
        }
        if self.may_fail {
            // Everything may fail by now, but it must do so in good order.
            for _ in 0..64 {
                self.step();
                self.read_all();
            }
        } else {
            self.deliver();
        }
        self.close_all();
    }

    fn deliver(&mut self) {
        let mut ping_at = self.now;
        for _ in 0..MAX_STEPS {
            if self.now >= ping_at {
                // A server that hears nothing cannot know where its client is.
                for end in &mut self.hosts[0].ends {
                    end.connection.ping();
                }
                ping_at = self.now + Duration::from_secs(1);
            }
            self.read_all();
            self.settle();
            if self.missing().is_none() {
                return;
            }
            self.step();
        }
        panic!("never delivered: {:?}", self.missing());
    }

    /// The next arrival or timer, whichever is first.
    fn step(&mut self) {
        self.settle();
        let arrival = self
            .under_way
            .iter()
            .filter_map(|queue| queue.front())
            .map(|d| d.due);
        let arrival = arrival.min();
        let timer = self.next_timer();
        let Some(next) = earliest(arrival, timer) else {
            return;
        };
        self.now = self.now.max(next);
        if arrival.is_some_and(|at| at <= self.now) {
            for side in [Side::Client, Side::Server] {
                let queue = &mut self.under_way[slot(side)];
                if queue.front().is_some_and(|front| front.due <= self.now)
                    && let Some(datagram) = queue.pop_front()
                {
                    self.arrive(side, datagram);
                }
            }
        }
        self.settle();
    }

    /// What has not been delivered yet, if anything.
    fn missing(&self) -> Option<String> {
        let [client, server] = &self.hosts;
        let failed = |end: &End| {
            let ours = end.lost.as_ref()?;
            let theirs = [client, server]
                .into_iter()
                .flat_map(|host| host.ends.iter().chain(&host.gone))
                .any(|other| other.index == end.index && other.closed_by_script);
            let refused = matches!(
                ours,
                ConnectionError::PeerTransport(error) if error.code == Code::CONNECTION_REFUSED
            );
            assert!(
                theirs || refused,
                "{:?} lost in an honest network: {ours}",
                end.connection
            );
            Some(())
        };
        for end in client.ends.iter().chain(&client.gone) {
            if failed(end).is_some() {
                continue;
            }
            let mut answers = server.ends.iter().filter(|other| other.index == end.index);
            let (Some(answer), None) = (answers.next(), answers.next()) else {
                if server
                    .ends
                    .iter()
                    .chain(&server.gone)
                    .any(|o| o.index == end.index)
                {
                    // Two servers answer, or one that is over: no telling what arrives.
                    continue;
                }
                return Some(format!("connection {} is not answered", end.index));
            };
            if failed(answer).is_some() || answer.connection.is_closed() || !end.is_alive() {
                continue;
            }
            if !end.connected || !answer.connected {
                return Some(format!("connection {} is not connected", end.index));
            }
            let both: [(&Streams, &Streams); 2] = [
                (&end.streams, &answer.streams),
                (&answer.streams, &end.streams),
            ];
            for end in [end, answer] {
                if end.connection.message_stats().in_flight > 0 {
                    return Some(format!("the fate of a message on connection {}", end.index));
                }
            }
            for (writer, reader) in both {
                if let Some((id, what)) = lacking(writer, reader) {
                    return Some(format!("{what} of {id:?} on connection {}", end.index));
                }
            }
        }
        None
    }

    fn close_all(&mut self) {
        let now = self.now;
        for end in self.hosts.iter_mut().flat_map(|host| &mut host.ends) {
            end.closed_by_script = true;
            end.connection.close(now, 0, Bytes::from_static(b"done"));
        }
        for _ in 0..MAX_CLOSING_STEPS {
            self.settle();
            if self.hosts.iter().all(|host| host.ends.is_empty()) {
                break;
            }
            self.step();
            // A datagram that was on its way may still begin a connection.
            let now = self.now;
            for end in &mut self.hosts[1].ends {
                end.connection.close(now, 0, Bytes::new());
            }
        }
        for host in &self.hosts {
            assert!(host.ends.is_empty(), "{:?} does not drain", host.side);
            assert_eq!(
                host.endpoint.connections(),
                0,
                "{:?} keeps connections",
                host.side
            );
        }
    }
}
