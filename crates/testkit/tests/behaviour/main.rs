//! The transport seen from outside, over simulated networks. One binary, so that it links once.
#![expect(unreachable_pub, reason = "tests")]

mod kit;

mod abuse;
mod coupled;
mod datagrams;
mod determinism;
mod fec;
mod fec_bounds;
mod fec_choice;
mod fec_ends;
mod fec_memory;
mod fec_paths;
mod fec_redundancy;
mod handshake;
mod heap;
mod interop;
mod keys;
mod lifecycle;
mod memory;
mod messages;
mod migration;
mod mtu_probes;
mod multipath;
mod multipath_abuse;
mod multipath_acks;
mod multipath_costs;
mod multipath_failover;
mod multipath_pins;
mod multipath_sequences;
mod multipath_trouble;
mod network;
mod observation;
mod paths;
mod property;
mod raw;
mod strangers;
mod streams;
mod versions;
