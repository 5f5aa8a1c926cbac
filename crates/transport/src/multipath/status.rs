//! Whether a path should carry data: PATH_STATUS_AVAILABLE and PATH_STATUS_BACKUP.

/// What one end wishes the other to use a path for. RFC 10069 s3.3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PathStatus {
    /// For data as the scheduler sees fit.
    #[default]
    Available,
    /// For data only where no available path works.
    Backup,
}

/// Both ends' wishes for one path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StatusExchange {
    /// What we wish the peer to do. It binds our own scheduler, too.
    local: PathStatus,
    /// Counts our wishes.
    sequence: u64,
    to_send: bool,
    /// What the peer wishes of us, and the sequence number of that.
    remote: Option<(u64, PathStatus)>,
}

impl StatusExchange {
    /// We wish for `status` from now on.
    pub(crate) fn set(&mut self, status: PathStatus) {
        if self.local != status {
            self.local = status;
            self.sequence += 1;
            self.to_send = true;
        }
    }

    /// Tells the peer of the path, whatever our wish: its sequence number and what it is.
    pub(crate) fn announce(&mut self) -> (u64, PathStatus) {
        self.sequence += 1;
        self.to_send = false;
        (self.sequence, self.local)
    }

    /// The peer's wish; whether it is news.
    pub(crate) fn on_remote(&mut self, sequence: u64, status: PathStatus) -> bool {
        if self.remote.is_some_and(|(known, _)| sequence <= known) {
            return false;
        }
        let before = self.remote.replace((sequence, status));
        before.map(|(_, status)| status).unwrap_or_default() != status
    }

    /// What the peer asked for.
    pub(crate) fn remote(&self) -> PathStatus {
        self.remote.map(|(_, status)| status).unwrap_or_default()
    }

    /// How we may use the path: as backup if either end says so.
    pub(crate) fn effective(&self) -> PathStatus {
        match (self.local, self.remote()) {
            (PathStatus::Available, PathStatus::Available) => PathStatus::Available,
            _ => PathStatus::Backup,
        }
    }

    /// The wish that waits to be told: its sequence number and what it is.
    pub(crate) fn unsent(&self) -> Option<(u64, PathStatus)> {
        self.to_send.then_some((self.sequence, self.local))
    }

    pub(crate) fn on_written(&mut self) {
        self.to_send = false;
    }

    /// The packet that told wish `sequence` was lost; only the latest is told again.
    pub(crate) fn on_lost(&mut self, sequence: u64) {
        self.to_send |= sequence == self.sequence;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_wish_counts() {
        let mut status = StatusExchange::default();
        assert!(status.on_remote(3, PathStatus::Backup));
        assert!(!status.on_remote(3, PathStatus::Available));
        assert!(!status.on_remote(2, PathStatus::Available));
        assert_eq!(status.effective(), PathStatus::Backup);
        assert!(!status.on_remote(4, PathStatus::Backup), "no news");
        assert!(status.on_remote(5, PathStatus::Available));
        assert_eq!(status.effective(), PathStatus::Available);
    }

    #[test]
    fn only_the_latest_is_told_again() {
        let mut status = StatusExchange::default();
        assert_eq!(status.unsent(), None);
        status.set(PathStatus::Backup);
        assert_eq!(status.unsent(), Some((1, PathStatus::Backup)));
        status.on_written();
        status.set(PathStatus::Available);
        status.on_written();
        status.on_lost(1);
        assert_eq!(status.unsent(), None);
        status.on_lost(2);
        assert_eq!(status.unsent(), Some((2, PathStatus::Available)));
    }
}
