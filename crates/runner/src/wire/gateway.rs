//! The simulated hosts at the ends of the wire: they hold what sockets brought and what sockets
//! shall take.

use std::{any::Any, collections::VecDeque};

use tautline_sim::{Datagram, Node};
use tautline_transport::time::Instant;

#[derive(Debug, Default)]
pub(super) struct Gateway {
    pub(super) outgoing: VecDeque<Datagram>,
    pub(super) incoming: Vec<Datagram>,
}

impl Gateway {
    pub(super) fn boxed() -> Box<dyn Node> {
        Box::<Self>::default()
    }
}

impl Node for Gateway {
    fn handle_datagram(&mut self, _: Instant, datagram: Datagram) {
        self.incoming.push(datagram);
    }

    fn handle_timeout(&mut self, _: Instant) {}

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn poll_transmit(&mut self, _: Instant) -> Option<Datagram> {
        self.outgoing.pop_front()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
