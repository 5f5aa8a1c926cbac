//! Fault injection: a closure that sees each packet of a direction and says what becomes of it.
//!
//! Owns: [`PacketView`], [`Verdict`], [`Rule`] and common rules. Rules are added with
//! [`crate::World::add_rule`]; the index they see is the one that loss decisions use.

use std::{
    net::SocketAddr,
    ops::{Bound, RangeBounds},
    time::Duration,
};

use tautline_transport::{time::Instant, units::Ecn};

use crate::{Direction, LinkId};

/// A packet that is about to enter a link.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct PacketView<'a> {
    /// The time.
    pub now: Instant,
    /// The link.
    pub link: LinkId,
    /// Its direction.
    pub direction: Direction,
    /// Position among the packets offered to this direction, from 0.
    pub index: u64,
    /// The sender's address as the network sees it (after a NAT).
    pub src: SocketAddr,
    /// The receiver's address as the network sees it.
    pub dst: SocketAddr,
    /// The ECN codepoint.
    pub ecn: Ecn,
    /// Bytes of the IP packet.
    pub ip_bytes: u32,
    /// The UDP payload.
    pub payload: &'a [u8],
}

/// What a rule does to a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing.
    Pass,
    /// It vanishes before the queue.
    Drop,
    /// One byte of its payload changes.
    Corrupt,
    /// Its payload is replaced.
    Replace(Vec<u8>),
    /// It arrives this much later, behind later packets.
    Delay(Duration),
    /// It arrives this many times more, at most 255.
    Duplicate(u8),
    /// Its ECN codepoint changes.
    SetEcn(Ecn),
}

/// A fault injector. Every rule of a direction sees every packet, in the order in which the rules
/// were added; the first verdict other than [`Verdict::Pass`] counts.
pub trait Rule: FnMut(&PacketView<'_>) -> Verdict {}

impl<F: FnMut(&PacketView<'_>) -> Verdict> Rule for F {}

/// Drops the packets whose index lies in `indices`.
pub fn drop_indices(indices: impl RangeBounds<u64>) -> impl Rule {
    move |packet: &PacketView<'_>| verdict(indices.contains(&packet.index), Verdict::Drop)
}

/// Drops the packets that `predicate` picks.
pub fn drop_when(mut predicate: impl FnMut(&PacketView<'_>) -> bool) -> impl Rule {
    move |packet: &PacketView<'_>| verdict(predicate(packet), Verdict::Drop)
}

/// Applies `fault` to the packets that `predicate` picks.
pub fn apply_when(fault: Verdict, mut predicate: impl FnMut(&PacketView<'_>) -> bool) -> impl Rule {
    move |packet: &PacketView<'_>| {
        if predicate(packet) {
            fault.clone()
        } else {
            Verdict::Pass
        }
    }
}

/// Drops every packet from `range` of virtual time.
pub fn drop_during(range: impl RangeBounds<Instant>) -> impl Rule {
    let bounds = (cloned(range.start_bound()), cloned(range.end_bound()));
    move |packet: &PacketView<'_>| verdict(bounds.contains(&packet.now), Verdict::Drop)
}

fn cloned(bound: Bound<&Instant>) -> Bound<Instant> {
    bound.cloned()
}

fn verdict(hit: bool, fault: Verdict) -> Verdict {
    if hit { fault } else { Verdict::Pass }
}
