//! File descriptors: how many there are, and how many of them files may take.

/// Descriptors for everything but files and TCP clients: sockets, timers, the log.
const OTHERS: usize = 64;
/// More than these bring nothing.
const MOST: usize = 65_536;
/// Assumed where the system does not tell.
#[cfg(any(test, not(unix)))]
const USUAL: usize = 1_024;

/// Raises the limit as far as the system lets us, and returns how many files may be open beside
/// the sockets of `clients` TCP clients; a quarter of all in any case.
pub(super) fn for_files(clients: usize) -> usize {
    share(raise_limit(), clients)
}

fn share(limit: usize, clients: usize) -> usize {
    let rest = limit.saturating_sub(clients.saturating_add(OTHERS));
    rest.max(limit / 4).clamp(1, MOST)
}

#[cfg(unix)]
fn raise_limit() -> usize {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    let before = limit.current;
    limit.current = limit.maximum;
    let now = match setrlimit(Resource::Nofile, limit) {
        Ok(()) => limit.current,
        Err(_) => before,
    };
    // None: without limit.
    now.map_or(MOST * 2, |now| usize::try_from(now).unwrap_or(usize::MAX))
}

#[cfg(not(unix))]
fn raise_limit() -> usize {
    USUAL
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_get_what_sockets_leave_and_a_quarter_at_least() {
        assert_eq!(share(USUAL, 1000), USUAL / 4);
        assert_eq!(share(10_000, 1000), 10_000 - 1000 - OTHERS);
        assert_eq!(share(usize::MAX, 1000), MOST);
        assert_eq!(share(0, usize::MAX), 1);
    }
}
