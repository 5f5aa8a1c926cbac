//! Times as HTTP writes them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A time as HTTP writes it; not every time of a file can be written like this, for clocks were
/// wrong and archives are old.
pub(super) fn http_date(time: SystemTime) -> Option<String> {
    /// Of the year 9999, the last with four digits.
    const END: Duration = Duration::from_secs(253_402_300_800);
    let since = time.duration_since(UNIX_EPOCH).ok()?;
    (since < END).then(|| httpdate::fmt_http_date(time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_http_cannot_write_are_left_out() {
        let end = UNIX_EPOCH + Duration::from_secs(253_402_300_800);
        assert_eq!(http_date(UNIX_EPOCH - Duration::from_nanos(1)), None);
        assert_eq!(http_date(end), None);
        let last = http_date(end - Duration::from_nanos(1)).unwrap();
        assert_eq!(last, "Fri, 31 Dec 9999 23:59:59 GMT");
        let first = http_date(UNIX_EPOCH).unwrap();
        assert_eq!(first, "Thu, 01 Jan 1970 00:00:00 GMT");
    }
}
