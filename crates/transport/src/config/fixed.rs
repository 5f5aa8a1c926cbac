//! Bounds that nobody needs to change: each holds for every connection or endpoint, and names its
//! memory cost as [`Limits`](super::Limits) does.
//!
//! Further bounds of constant size stand where they are used, because they are the length of an
//! array there. The socket layer's own queues (clients that wait to be accepted, datagrams handed
//! from shard to shard, stateless answers) are bounded in the crate `tautline`.

/// Connection IDs that a connection may have issued at once, over all paths; 64 bytes each.
pub(crate) const CONNECTION_IDS: usize = 512;
/// Retired IDs that still lead to their connection, so that packets overtaken by their retirement
/// are not answered by a stateless reset; 64 bytes each, per connection. Enough for those of several paths that were
/// abandoned before their first packet came.
pub(crate) const RETIRED_IDS_KEPT: usize = 16;
/// Addresses of one peer: where the connection began, and two preferred ones; 32 bytes each.
pub(crate) const PEER_ADDRESSES: usize = 3;
/// Reset tokens of the peer kept per path, the oldest make room: that in use, and those of addresses that it
/// came from or is about to go to; 64 bytes each.
pub(crate) const RESET_TOKENS_KEPT: usize = 3;
/// Retirements waiting to be announced above which IDs are not changed at will; 16 bytes each, per
/// path.
pub(crate) const RETIREMENTS_AT_WILL: usize = 64;
/// Retired sequence numbers of the peer's IDs remembered one by one, lower ones count as retired
/// altogether; 8 bytes each, per path.
pub(crate) const RETIRED_SEQUENCES: usize = 32;
/// NEW_TOKEN tokens remembered as used, per generation of the filter; 21 to 41 bytes each, taken
/// all at once when the first is given out, and shared by all shards of a server.
pub(crate) const USED_TOKENS: usize = 14_000;
/// Retry tokens remembered as used, per endpoint; about 30 bytes each.
pub(crate) const USED_RETRY_TOKENS: usize = 4_096;
