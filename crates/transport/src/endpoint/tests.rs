//! Endpoint tests: clients are hand-made Initials, servers have a TLS that never starts.

mod flood;
mod kit;
mod routing;
mod stateless;
mod tokens;
