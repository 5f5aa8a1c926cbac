//! A proxy on the way: it ends the connection on both of its sides and hands the bytes across.
//!
//! Each side is a [`Leg`] of its own, with the round trip, recovery and congestion control of that part of
//! the way. What came in order over one side is sent over the other, no more of it than the send buffer
//! there takes; the rest waits in the receive buffer, whose window shuts. So a proxy keeps at most a
//! receive and a send buffer of either direction, and the sender of a fast leg waits for a slow one.
//! Datagrams pass at once. The end of one side is the end of the other: what waits in between is
//! dropped, as at an end that closes.
//!
//! Owns: [`Proxy`], the bytes between both sides. Does not own: packets and timers (`leg.rs`); records and
//! streams, of which it knows nothing; where it stands (`scene`).

use std::{any::Any, collections::VecDeque};

use bytes::{Bytes, BytesMut};
use tautline_sim::{Datagram, Node};
use tautline_transport::time::{Instant, earliest};

use super::{
    leg::{self, Leg},
    segment::{Kind, Segment},
    send::Source,
};

/// A proxy has two sides: that of the client, then that of the server.
const SIDES: [&str; 2] = ["client", "server"];

/// Bytes on their way from one side to the other.
#[derive(Debug, Default)]
struct Queue {
    chunks: VecDeque<Bytes>,
    bytes: u64,
}

impl Queue {
    fn push(&mut self, data: Bytes) {
        self.bytes += data.len() as u64;
        self.chunks.push_back(data);
    }
}

impl Source for Queue {
    fn available(&mut self, most: usize) -> usize {
        usize::try_from(self.bytes).unwrap_or(most).min(most)
    }

    fn take(&mut self, most: usize) -> Bytes {
        let mut left = self.available(most);
        self.bytes -= left as u64;
        let mut taken = BytesMut::new();
        while left > 0
            && let Some(front) = self.chunks.front_mut()
        {
            let piece = front.split_to(front.len().min(left));
            if front.is_empty() {
                self.chunks.pop_front();
            }
            left -= piece.len();
            if left == 0 && taken.is_empty() {
                return piece;
            }
            taken.extend_from_slice(&piece);
        }
        taken.freeze()
    }
}

#[derive(Debug)]
struct Side {
    leg: Leg,
    /// What came over the other side and was not sent here yet.
    queue: Queue,
}

/// A simulated host that relays one connection.
#[derive(Debug)]
pub(super) struct Proxy {
    /// Where it stands, for what it says of itself.
    place: String,
    sides: [Side; 2],
    /// Why it is over, if it is: empty where an end wanted it so.
    over: Option<Bytes>,
}

impl Proxy {
    /// A proxy at a place, with its leg towards the client and that towards the server.
    pub(super) fn new(place: String, legs: [leg::Settings; 2]) -> Self {
        let side = |settings| Side {
            leg: Leg::new(settings),
            queue: Queue::default(),
        };
        Self {
            place,
            sides: legs.map(side),
            over: None,
        }
    }

    /// This side and the other one.
    fn pair(&mut self, index: usize) -> (&mut Side, &mut Side) {
        let [client, server] = &mut self.sides;
        if index == 0 {
            (client, server)
        } else {
            (server, client)
        }
    }

    fn on_segment(&mut self, now: Instant, index: usize, segment: Segment) {
        let over = self.over.clone();
        let (side, other) = self.pair(index);
        match (over, segment.kind) {
            (Some(reason), Kind::Stream) => side.leg.tell_end(reason),
            (Some(_), _) => {}
            (None, Kind::Close) => {
                other.leg.tell_end(segment.data.clone());
                self.end(segment.data);
            }
            (None, Kind::Datagram) => other.leg.datagrams.push_back(segment.data),
            (None, Kind::Stream) => {
                side.leg.on_segment(now, &segment);
                // New bytes go across, and room for those of the other direction may have come.
                hand_across(now, side, other);
                hand_across(now, other, side);
            }
        }
    }

    fn end(&mut self, reason: Bytes) {
        for side in &mut self.sides {
            side.queue = Queue::default();
            side.leg.datagrams.clear();
        }
        self.over = Some(reason);
    }

    /// Bytes of the stream in memory.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> u64 {
        let of = |side: &Side| {
            side.queue.bytes + side.leg.sender.outstanding() + side.leg.receiver.bytes()
        };
        self.sides.iter().map(of).sum()
    }
}

/// Moves what came over one side to the other, as far as there is room.
fn hand_across(now: Instant, from: &mut Side, to: &mut Side) {
    loop {
        let room = to.leg.room(to.queue.bytes);
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        let Some(data) = from.leg.receiver.take_up_to(room) else {
            break;
        };
        to.queue.push(data);
    }
    from.leg.receiver.hold(now, 0);
}

impl Node for Proxy {
    fn handle_datagram(&mut self, now: Instant, datagram: Datagram) {
        let Some(index) = self.sides.iter().position(|side| side.leg.is_of(&datagram)) else {
            return;
        };
        // Damaged packets do not pass the checksum.
        if let Some(segment) = Segment::decode(Bytes::from(datagram.payload)) {
            self.on_segment(now, index, segment);
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.over.is_some() {
            return;
        }
        let mut sides = self.sides.iter_mut().zip(SIDES);
        let silent = sides.find_map(|(side, name)| {
            let gives_up = side.leg.on_timeout(now);
            gives_up.then(|| (name, side.leg.patience()))
        });
        if let Some((name, patience)) = silent {
            let place = &self.place;
            let reason =
                format!("the proxy at {place} had no word from the {name}'s side for {patience:?}");
            let reason = Bytes::from(reason);
            for side in &mut self.sides {
                side.leg.tell_end(reason.clone());
            }
            self.end(reason);
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        if self.over.is_some() {
            return None;
        }
        let [client, server] = &self.sides;
        earliest(client.leg.timeout(), server.leg.timeout())
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Datagram> {
        let over = self.over.is_some();
        self.sides.iter_mut().find_map(|side| {
            let farewell = side.leg.poll_farewell(now);
            if farewell.is_some() || over {
                return farewell;
            }
            side.leg.poll_transmit(now, &mut side.queue)
        })
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

#[cfg(test)]
mod tests;
