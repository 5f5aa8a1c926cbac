//! Congestion controllers by name: one line per variant.

use std::sync::Arc;

use super::{Bbr3Factory, CubicConfig, CubicFactory, NewRenoFactory, SharedControllerFactory};

/// A name and what builds the factory behind it.
type Entry = (&'static str, fn() -> SharedControllerFactory);

const ENTRIES: &[Entry] = &[
    ("newreno", || Arc::new(NewRenoFactory::default())),
    ("cubic", || Arc::new(CubicFactory::default())),
    ("bbr3", || Arc::new(Bbr3Factory::default())),
];

/// Every name that [`by_name`] knows, in a fixed order.
pub fn names() -> impl ExactSizeIterator<Item = &'static str> + Clone {
    ENTRIES.iter().map(|(name, _)| *name)
}

/// The factory of that name with its default options, or `None`.
pub fn by_name(name: &str) -> Option<SharedControllerFactory> {
    ENTRIES
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, factory)| factory())
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
