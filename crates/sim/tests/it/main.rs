//! Black-box tests of the simulator: nodes send, links do what their configuration says.

mod aqm;
mod audit;
mod determinism;
mod faults;
mod link;
mod nodes;
mod properties;
mod quic;
mod routing;
mod varying;
