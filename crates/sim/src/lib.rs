//! A network in virtual time: hosts that exchange raw datagrams over links that delay, drop,
//! mark, reorder, duplicate and corrupt them, the same way every time.
//!
//! Purpose: run the real transport without sockets and without waiting.
//! Owns: the clock, links, queues, loss models, NATs, faults, the packet log and hash.
//! Does not own: what runs on a host ([`Node`]), plans and statistics over runs.
//!
//! - A [`World`] holds hosts and links. [`links::by_name`] has the named links,
//!   [`interop::scenario`] the interop runner's networks, [`LinkConfig`] everything else (also
//!   from TOML or JSON, with quantities such as `"20 Mb/s"`, `"12.5 ms"`, `"1 BDP"`).
//! - A direction's rate may be constant, follow steps or a Mahimahi trace, wander, or be that of a
//!   modem that adapts its coding; capacity may have to be asked for ([`Grants`]). Its queue is
//!   drop-tail, CoDel or FQ-CoDel ([`Aqm`]). A configuration that names files is read by
//!   [`LinkConfig::load`] first.
//! - A drop-tail queue costs one event a packet. A managed queue decides when a packet leaves: one
//!   event more, and a second [`PacketRecord`] ([`Stage::Dequeued`]).
//! - Rates, queues and MTUs count IP bytes: UDP payload plus 28 (IPv4) or 48 (IPv6).
//! - Each random fault is a function of (seed, link, direction, packet index, kind of fault) and
//!   of nothing else: traffic elsewhere or another fault on the same link changes none of them.
//!   Silences, gaps, hand-overs and rates that vary are functions of (seed, link, direction, time).
//! - One direction of a link without a world, for a program that keeps real time: [`Line`].
//! - Faults by hand: [`World::add_rule`], [`World::set_link_up`], [`World::rebind`],
//!   [`World::schedule`], [`World::inject`].
//!
//! # Example
//!
//! A client sends 100 datagrams over the link `da2gc`; the server counts what arrives.
//!
//! ```
//! use std::{any::Any, net::SocketAddr, time::Duration};
//! use tautline_sim::{Datagram, Direction, Node, RunEnd, World, links};
//! use tautline_transport::{time::Instant, units::Ecn};
//!
//! struct Client { left: u32, from: SocketAddr, to: SocketAddr }
//! #[derive(Default)]
//! struct Server { got: u64 }
//!
//! impl Node for Client {
//!     fn handle_datagram(&mut self, _: Instant, _: Datagram) {}
//!     fn handle_timeout(&mut self, _: Instant) {}
//!     fn poll_timeout(&self) -> Option<Instant> { None }
//!     fn poll_transmit(&mut self, _: Instant) -> Option<Datagram> {
//!         self.left = self.left.checked_sub(1)?;
//!         let payload = vec![0; 100];
//!         Some(Datagram { src: self.from, dst: self.to, ecn: Ecn::NotEct, payload })
//!     }
//!     fn as_any(&self) -> &dyn Any { self }
//!     fn as_any_mut(&mut self) -> &mut dyn Any { self }
//! }
//!
//! impl Node for Server {
//!     fn handle_datagram(&mut self, _: Instant, _: Datagram) { self.got += 1; }
//!     fn handle_timeout(&mut self, _: Instant) {}
//!     fn poll_timeout(&self) -> Option<Instant> { None }
//!     fn poll_transmit(&mut self, _: Instant) -> Option<Datagram> { None }
//!     fn as_any(&self) -> &dyn Any { self }
//!     fn as_any_mut(&mut self) -> &mut dyn Any { self }
//! }
//!
//! let from: SocketAddr = "10.0.0.1:4000".parse()?;
//! let to: SocketAddr = "10.0.0.2:443".parse()?;
//! let mut world = World::new(7);
//! let client = world.add_host(from, Box::new(Client { left: 100, from, to }));
//! let server = world.add_host(to, Box::<Server>::default());
//! let link = world.connect(client, server, links::by_name("da2gc").expect("a known name"));
//!
//! let end = world.run_until(Instant::ZERO + Duration::from_secs(5));
//! assert_eq!(end, RunEnd::Idle);
//! let stats = world.link_stats(link, Direction::Forward);
//! assert_eq!(stats.sent_packets, 100);
//! assert_eq!(world.node::<Server>(server).got, 100 - stats.dropped.total());
//! # Ok::<(), std::net::AddrParseError>(())
//! ```

pub mod audit;
mod draw;
pub mod interop;
mod link;
pub mod links;
mod log;
mod node;
pub mod quic;
pub mod rule;
mod text;
#[cfg(feature = "tls")]
pub mod tls;
mod world;

pub use link::{
    AdaptiveCoding, Aqm, CodingState, ConfigError, DirectionConfig, DirectionStats, DropCause,
    Drops, Gaps, Grants, Handover, InputFile, Jitter, JitterOrder, Line, LinkConfig, LossModel,
    MAX_TRACE_BYTES, Outage, OutageMode, Pattern, Quantile, QueueSize, RateStep, RateSteps,
    RateWander, Reordering, Silences, Spread, Timing, TraceError, TraceSource, Turns, parse_trace,
};
pub use log::{Outcome, PacketRecord, Service, Stage};
pub use node::{Datagram, Node, PAYLOAD_SHARE, ip_overhead};
pub use rule::{PacketView, Rule, Verdict};
pub use text::{QuantityError, format_duration, format_rate, parse_duration, parse_rate};
pub use world::{
    Direction, HostAddresses, HostId, LinkId, Rebind, RebindSchedule, RuleId, RunEnd,
    TopologyError, World, WorldStats,
};
