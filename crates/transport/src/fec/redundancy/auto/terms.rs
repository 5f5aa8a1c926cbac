//! The terms of `auto`'s reasoning, as options.
//!
//! Owns: [`Terms`]: which there are, and which are left out. Does not own: what each does (the files of their names; `mod.rs`,
//! `worth.rs`).

use crate::fec::redundancy::options::Options;

/// What `auto` takes into account; each can be left out, to see what it is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Terms {
    /// The state of the queue.
    pub forecast: bool,
    /// Losses come in runs.
    pub bursts: bool,
    /// What a repair symbol takes of the link.
    pub cost: bool,
    /// Losses at the end wait for a timeout.
    pub tail: bool,
    /// Retransmission may be in time for a deadline.
    pub retry: bool,
    /// Flow control makes a loss hold up everything.
    pub way: bool,
    /// Start-up is about to overflow the queue. Part of the forecast, as the next one is.
    pub start: bool,
    /// All losses come of congestion, which is there again.
    pub crowd: bool,
    /// What repair symbols do to what follows is found by trial. Part of the cost, as all below are.
    pub trial: bool,
    /// The link's time that is left beside what the application sends.
    pub spare: bool,
    /// Messages are late for repair symbols.
    pub strain: bool,
    /// Others wait in the queue.
    pub waits: bool,
    /// Packets are lost for repair symbols.
    pub toll: bool,
    /// Headers without a repair symbol.
    pub vain: bool,
}

impl Terms {
    pub(super) const USAGE: &'static str = "auto, or auto:TERM=off to leave a term out: forecast (or of it start, crowd), bursts, cost (or of it trial, spare, strain, \
         waits, toll, vain), tail, retry, way";
    pub(super) const KEYS: &'static [&'static str] = &[
        "forecast", "bursts", "cost", "tail", "retry", "way", "start", "crowd", "trial", "spare",
        "strain", "waits", "toll", "vain",
    ];

    /// `None` if a switch is neither on nor off.
    pub(super) fn parse(options: &Options<'_>) -> Option<Self> {
        let on = |key| options.switch(key, true);
        let (forecast, cost) = (on("forecast")?, on("cost")?);
        Some(Self {
            forecast,
            bursts: on("bursts")?,
            cost,
            tail: on("tail")?,
            retry: on("retry")?,
            way: on("way")?,
            start: on("start")? && forecast,
            crowd: on("crowd")? && forecast,
            trial: on("trial")? && cost,
            spare: on("spare")? && cost,
            strain: on("strain")? && cost,
            waits: on("waits")? && cost,
            toll: on("toll")? && cost,
            vain: on("vain")? && cost,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(options: &str) -> Option<Terms> {
        Terms::parse(&Options::parse(options).unwrap())
    }

    #[test]
    fn a_term_left_out_leaves_out_its_parts() {
        let all = parsed("").unwrap();
        assert!(all.toll && all.crowd && all.way);
        let no_cost = parsed("cost=off").unwrap();
        assert!(!(no_cost.cost || no_cost.toll || no_cost.vain) && no_cost.crowd);
        let part = parsed("toll=off,start=off").unwrap();
        assert!(!(part.toll || part.start) && part.cost && part.forecast && part.trial);
        assert_eq!(parsed("toll=maybe"), None);
    }

    #[test]
    fn parts_of_what_is_left_out_are_read_all_the_same() {
        for part in [
            "start", "crowd", "trial", "spare", "strain", "waits", "toll", "vain",
        ] {
            for off in ["cost", "forecast"] {
                assert_eq!(
                    parsed(&format!("{off}=off,{part}=maybe")),
                    None,
                    "{off} {part}"
                );
            }
        }
    }
}
