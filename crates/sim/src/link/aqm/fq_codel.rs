//! FQ-CoDel (RFC 8290): flows by hash, deficit round robin, a CoDel each.
//!
//! Owns: the flows, their order and deficits. Does not own: CoDel's law (`codel.rs`).

use std::{collections::VecDeque, net::IpAddr};

use tautline_transport::time::Instant;

use super::{Codel, Fifo, Parameters, Victims, Waiting};
use crate::{
    Datagram,
    draw::{Draws, Purpose, mix},
};

#[derive(Debug, Default)]
struct Flow {
    queue: Fifo,
    control: Codel,
    /// Bytes that the flow may still send in this round.
    deficit: i64,
    /// Whether it stands in one of the lists.
    listed: bool,
}

#[derive(Debug)]
pub(super) struct FqCodel {
    parameters: Parameters,
    quantum: i64,
    draws: Draws,
    flows: Vec<Flow>,
    /// Flows that have just become busy; served first.
    new: VecDeque<u32>,
    old: VecDeque<u32>,
}

impl FqCodel {
    pub(super) fn new(parameters: Parameters, quantum: u32, flows: u32, draws: Draws) -> Self {
        Self {
            parameters,
            quantum: i64::from(quantum),
            draws,
            flows: (0..flows).map(|_| Flow::default()).collect(),
            new: VecDeque::new(),
            old: VecDeque::new(),
        }
    }

    pub(super) fn push(&mut self, packet: Waiting) {
        let id = self.flow_of(&packet.datagram);
        let Some(flow) = self.flows.get_mut(id as usize) else {
            return;
        };
        flow.queue.push(packet);
        if !flow.listed {
            flow.listed = true;
            flow.deficit = self.quantum;
            self.new.push_back(id);
        }
    }

    /// Takes the head of the queue with the most bytes (the first of equals).
    pub(super) fn drop_from_fattest(&mut self) -> Option<Waiting> {
        let listed = self.new.iter().chain(&self.old);
        let bytes = |id: &u32| self.flows.get(*id as usize).map_or(0, |f| f.queue.bytes);
        let fattest = listed
            .copied()
            .max_by_key(|id| (bytes(id), std::cmp::Reverse(*id)))?;
        self.flows.get_mut(fattest as usize)?.queue.pop()
    }

    pub(super) fn pop(&mut self, now: Instant, victims: &mut Victims) -> Option<Waiting> {
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let id = *list.front()?;
            let flow = self.flows.get_mut(id as usize)?;
            if flow.deficit <= 0 {
                flow.deficit += self.quantum;
                list.pop_front();
                self.old.push_back(id);
                continue;
            }
            let popped = flow
                .control
                .pop(&self.parameters, now, &mut flow.queue, victims);
            if let Some(packet) = popped {
                flow.deficit -= i64::from(packet.ip_bytes);
                return Some(packet);
            }
            list.pop_front();
            // A new flow that ran dry waits for its turn behind the old ones: otherwise it could
            // starve them by coming back as new each time.
            if is_new && !self.old.is_empty() {
                self.old.push_back(id);
            } else {
                flow.listed = false;
            }
        }
    }

    pub(super) fn drain(&mut self) -> Vec<Waiting> {
        self.new.clear();
        self.old.clear();
        let mut all = Vec::new();
        for flow in &mut self.flows {
            flow.listed = false;
            all.extend(std::mem::take(&mut flow.queue).packets);
        }
        all
    }

    /// The queue of a datagram: all carry UDP, so that addresses and ports tell flows apart.
    fn flow_of(&self, datagram: &Datagram) -> u32 {
        let mut hash = self.draws.bits(Purpose::FlowHash, 0);
        for address in [datagram.src, datagram.dst] {
            let ip = match address.ip() {
                IpAddr::V4(ip) => u128::from(ip.to_bits()),
                IpAddr::V6(ip) => ip.to_bits(),
            };
            hash = mix(hash ^ ip as u64);
            hash = mix(hash ^ (ip >> 64) as u64);
            hash = mix(hash ^ u64::from(address.port()));
        }
        // Multiply and shift: even for any number of flows.
        ((u128::from(hash) * self.flows.len() as u128) >> 64) as u32
    }
}
