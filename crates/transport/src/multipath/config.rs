//! What a connection does with several paths.

use super::{
    AckRouting, WindowRtt,
    sched::{SharedSchedulerFactory, registry},
};

/// As many paths as a connection holds at once, whatever [`MultipathConfig::max_paths`] says: connection IDs are
/// given out for each.
pub const MOST_PATHS: u32 = 64;

/// Multipath, RFC 10069. In effect where both ends have it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MultipathConfig {
    /// Paths held at once, path 0 included; 1 understands the extension and opens none. Default 8, at most
    /// [`MOST_PATHS`]; about 8 KiB each once open, 200 bytes before.
    pub max_paths: u32,
    /// Which path carries data. Default `auto`.
    pub scheduler: SharedSchedulerFactory,
    /// Which path carries the acknowledgements of what we receive. Default `same-path`.
    pub ack_routing: AckRouting,
    /// Whether each path may tell what arrived on another one, too, where the peer agrees: of losses and of deaths the sender
    /// hears the earlier. Not beside erasure correction. Default true.
    pub echoes: bool,
    /// By which of the paths' round trips receive windows are tuned. Default `largest`.
    pub window_rtt: WindowRtt,
}

impl Default for MultipathConfig {
    fn default() -> Self {
        Self {
            max_paths: 8,
            scheduler: registry::default_factory(),
            ack_routing: AckRouting::default(),
            echoes: true,
            window_rtt: WindowRtt::default(),
        }
    }
}

impl MultipathConfig {
    /// The initial_max_path_id to announce.
    pub(crate) fn initial_max_path_id(&self) -> u64 {
        u64::from(self.max_paths.clamp(1, MOST_PATHS) - 1)
    }
}
