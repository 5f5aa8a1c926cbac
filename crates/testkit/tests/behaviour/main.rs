//! The transport seen from outside, over simulated networks. One binary, so that it links once.
#![expect(unreachable_pub, reason = "tests")]

mod kit;

mod handshake;
mod interop;
mod migration;
mod versions;
