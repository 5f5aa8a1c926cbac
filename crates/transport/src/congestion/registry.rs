//! Congestion controllers by name: one line per variant.

use std::sync::Arc;

use super::{
    BaliaFactory, Bbr1Factory, Bbr2Factory, Bbr3Factory, Bbr3TautFactory, CubicConfig,
    CubicFactory, IgnoreLossFactory, LiaFactory, NewRenoFactory, OliaFactory,
    SharedControllerFactory,
};

/// A name and what builds the factory behind it.
type Entry = (&'static str, fn() -> SharedControllerFactory);

// New names go last: charts and recorded fuzzer inputs count places.
const ENTRIES: &[Entry] = &[
    ("newreno", || Arc::new(NewRenoFactory::default())),
    ("cubic", || Arc::new(CubicFactory::default())),
    ("bbr3", || Arc::new(Bbr3Factory::default())),
    ("bbr1", || Arc::new(Bbr1Factory::default())),
    ("bbr2", || Arc::new(Bbr2Factory::default())),
    ("cubic-rtt-scaled", || Arc::new(cubic_rtt_scaled())),
    ("bbr3-taut", || Arc::new(Bbr3TautFactory::default())),
    ("lia", || Arc::new(LiaFactory::default())),
    ("olia", || Arc::new(OliaFactory::default())),
    ("balia", || Arc::new(BaliaFactory::default())),
];

/// Controls for experiments: what would harm others on a real network, and rules that documents do not
/// have but other stacks do.
const LAB_ENTRIES: &[Entry] = &[
    ("ignore-loss", || Arc::new(IgnoreLossFactory::default())),
    ("cubic-from-cut", || Arc::new(cubic_from_cut())),
];

/// Every name to offer for use, in a fixed order.
pub fn names() -> impl ExactSizeIterator<Item = &'static str> + Clone {
    ENTRIES.iter().map(|(name, _)| *name)
}

/// The names that only experiments may use; [`by_name`] knows them too, [`names`] does not.
pub fn lab_names() -> impl ExactSizeIterator<Item = &'static str> + Clone {
    LAB_ENTRIES.iter().map(|(name, _)| *name)
}

/// Whether that is the name of a controller for experiments alone.
pub fn is_lab_only(name: &str) -> bool {
    lab_names().any(|known| known == name)
}

/// The factory of that name with its default options, or `None`.
pub fn by_name(name: &str) -> Option<SharedControllerFactory> {
    ENTRIES
        .iter()
        .chain(LAB_ENTRIES)
        .find(|(known, _)| *known == name)
        .map(|(_, factory)| factory())
}

fn cubic_rtt_scaled() -> CubicFactory {
    CubicFactory::new(CubicConfig {
        rtt_scaled: true,
        ..CubicConfig::default()
    })
}

fn cubic_from_cut() -> CubicFactory {
    CubicFactory::new(CubicConfig {
        curve_from_cut: true,
        ..CubicConfig::default()
    })
}

/// What a connection uses when nothing else is chosen: `cubic`.
pub fn default_factory() -> SharedControllerFactory {
    Arc::new(CubicFactory::default())
}

/// `cubic` for media that sends in bursts: the window also grows when only 66 % of it is in use.
///
/// A source that sends a frame and falls silent never fills its window and would keep the one it
/// started with.
pub fn cubic_for_bursts() -> SharedControllerFactory {
    Arc::new(CubicFactory::new(CubicConfig {
        growth_use: 0.66,
        ..CubicConfig::default()
    }))
}
