//! Which path carries the acknowledgements of which.

use std::fmt;

/// Where PATH_ACK frames go. RFC 10069 lets each go on any path; each end chooses for what it receives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AckRouting {
    /// On the path whose packets they acknowledge.
    #[default]
    SamePath,
    /// All on the path with the fastest way to the peer, and now and then on their own.
    OnePath,
    /// As [`Self::OnePath`], those of all paths together in one packet.
    Grouped,
    /// Each on another path than the one before, in turn. For tests and experiments: no sender may stumble
    /// over it, and none can make use of it.
    Alternate,
}

impl AckRouting {
    const ALL: [Self; 4] = [
        Self::SamePath,
        Self::OnePath,
        Self::Grouped,
        Self::Alternate,
    ];

    /// Word of the command line and of plans.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SamePath => "same-path",
            Self::OnePath => "one-path",
            Self::Grouped => "grouped",
            Self::Alternate => "alternate",
        }
    }

    /// The names to choose from; [`Self::Alternate`] is only for those who know of it.
    pub fn names() -> impl Iterator<Item = &'static str> {
        let all = Self::ALL.into_iter();
        all.filter(|routing| *routing != Self::Alternate)
            .map(Self::name)
    }

    /// The one of this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|routing| routing.name() == name)
    }
}

impl fmt::Display for AckRouting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
