//! Pairs of connections in memory.
