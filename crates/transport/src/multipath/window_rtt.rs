//! By which round trip receive windows are tuned.

use std::{fmt, time::Duration};

/// What is made of the paths' smoothed round trips where receive windows are tuned, which belong to no path. All three are
/// suggested by Viernickel, s4.7, whose own prototype takes the smallest. With one path all are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WindowRtt {
    /// The largest: what one path brings may have to wait for data of the slowest. Windows grow the most.
    #[default]
    Largest,
    /// The smallest: windows grow the least.
    Smallest,
    /// The arithmetic mean, in which each path counts as much, whatever it carries.
    Mean,
}

impl WindowRtt {
    const ALL: [Self; 3] = [Self::Largest, Self::Smallest, Self::Mean];

    /// Word of plans.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Largest => "largest",
            Self::Smallest => "smallest",
            Self::Mean => "mean",
        }
    }

    /// The names to choose from.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Self::ALL.into_iter().map(Self::name)
    }

    /// The one of this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|choice| choice.name() == name)
    }

    /// One for all `rtts`, if there are any.
    pub(crate) fn of(self, mut rtts: impl Iterator<Item = Duration>) -> Option<Duration> {
        match self {
            Self::Largest => rtts.max(),
            Self::Smallest => rtts.min(),
            Self::Mean => {
                let first = rtts.next()?;
                let (sum, count) = rtts.fold((first, 1), |(sum, count), rtt| {
                    (sum.saturating_add(rtt), count + 1)
                });
                Some(sum / count)
            }
        }
    }
}

impl fmt::Display for WindowRtt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_found_by_its_name() {
        for choice in WindowRtt::ALL {
            assert_eq!(WindowRtt::by_name(choice.name()), Some(choice));
            assert_eq!(choice.to_string(), choice.name());
        }
        assert_eq!(WindowRtt::names().next(), Some("largest"), "the default");
        assert_eq!(WindowRtt::by_name("median"), None);
    }

    #[test]
    fn one_round_trip_for_all_paths() {
        let of = |choice: WindowRtt, millis: &[u64]| {
            choice.of(millis.iter().map(|rtt| Duration::from_millis(*rtt)))
        };
        let some = |millis| Some(Duration::from_millis(millis));
        let three = [44, 204, 10];
        assert_eq!(of(WindowRtt::Largest, &three), some(204));
        assert_eq!(of(WindowRtt::Smallest, &three), some(10));
        assert_eq!(of(WindowRtt::Mean, &three), some(86));
        for choice in WindowRtt::ALL {
            assert_eq!(of(choice, &[]), None, "{choice}");
            assert_eq!(of(choice, &[44]), some(44), "{choice}");
        }
    }
}
