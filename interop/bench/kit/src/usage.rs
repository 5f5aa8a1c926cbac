//! CPU time of this process.

use nix::sys::resource::{UsageWho, getrusage};

/// CPU seconds so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    user: f64,
    system: f64,
    peak_kib: i64,
}

impl Usage {
    /// Since the process started.
    pub fn now() -> Self {
        let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else {
            return Self::default();
        };
        let seconds =
            |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
        Self {
            user: seconds(usage.user_time()),
            system: seconds(usage.system_time()),
            peak_kib: usage.max_rss(),
        }
    }

    /// What was used since `start`, as the inside of a JSON object.
    pub fn since(self, start: Self) -> String {
        let user = self.user - start.user;
        let system = self.system - start.system;
        format!(
            "\"user\":{user:.6},\"system\":{system:.6},\"peak_kib\":{}",
            self.peak_kib
        )
    }
}
