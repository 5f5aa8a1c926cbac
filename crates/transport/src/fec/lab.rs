//! Departures from RFC 9265, to reproduce what others measured with them.
//!
//! Owns: [`FecLab`], which of them are on, and how they are written.
//! Does not own: what they do (`connection/fec.rs`, `hold.rs`).
//!
//! They hide losses from congestion control, or add packets that it does not see. On a real network
//! that takes from others what they have a share in; nothing outside of the laboratory offers them.

use std::time::Duration;

/// Which departures are on; none by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FecLab {
    /// `mask`: a packet that the peer has recovered counts as acknowledged, with congestion control too,
    /// unless it was declared lost before. RFC 9265 s3 advises against it: where the loss was
    /// congestion, nobody slows down.
    pub mask: bool,
    /// `repair-outside-cwnd`: packets with repair symbols neither wait for congestion window and pacer
    /// nor count as in flight, and their losses tell congestion control nothing.
    pub repair_outside_cwnd: bool,
    /// `hold`: packets behind a gap are not acknowledged until it is closed, nothing can be hoped for
    /// any more, or this time is over. Zverev (2023), s3.3.3.
    pub hold: Option<Duration>,
}

/// Why a text says nothing of departures.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no such mode of erasure correction: {0:?}; give some of mask, repair-outside-cwnd, hold (24 ms) and \
     hold=MILLISECONDS (1 to 60000), with commas between"
)]
pub struct FecLabError(String);

/// The text's buffer timeout where nothing else is said: the default of max_ack_delay, less 1 ms.
/// Equation 3.5.
const HOLD: Duration = Duration::from_millis(24);

impl FecLab {
    /// Reads names with commas between.
    ///
    /// # Errors
    /// [`FecLabError`] with the first that is none.
    pub fn parse(text: &str) -> Result<Self, FecLabError> {
        let mut lab = Self::default();
        for item in text.split(',').map(str::trim) {
            let millis = item.strip_prefix("hold=").map(str::parse::<u64>);
            match (item, millis) {
                ("mask", _) => lab.mask = true,
                ("repair-outside-cwnd", _) => lab.repair_outside_cwnd = true,
                ("hold", _) => lab.hold = Some(HOLD),
                (_, Some(Ok(millis @ 1..=60_000))) => {
                    lab.hold = Some(Duration::from_millis(millis));
                }
                _ => return Err(FecLabError(item.to_owned())),
            }
        }
        Ok(lab)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_by_name() {
        let all = FecLab::parse("mask, repair-outside-cwnd,hold=400").unwrap();
        assert!(all.mask && all.repair_outside_cwnd);
        assert_eq!(all.hold, Some(Duration::from_millis(400)));
        assert_eq!(FecLab::parse("hold").unwrap().hold, Some(HOLD));
        for wrong in ["", "masked", "hold=0", "hold=60001", "hold=x", "mask,,hold"] {
            let error = FecLab::parse(wrong).unwrap_err().to_string();
            assert!(error.contains("give some of"), "{error}");
        }
    }
}
