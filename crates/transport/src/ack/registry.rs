//! Acknowledgement policies by name: one line per variant.

use std::sync::Arc;

use super::{
    AsymmetricFactory, AsymmetricRule, FrequencyFactory, SharedAckPolicyFactory, StandardFactory,
};

/// A name and what builds the factory behind it.
type Entry = (&'static str, fn() -> SharedAckPolicyFactory);

const ENTRIES: &[Entry] = &[
    ("standard", || Arc::new(StandardFactory::default())),
    ("frequency", || Arc::new(FrequencyFactory::default())),
    ("asymmetric", || Arc::new(AsymmetricFactory::default())),
    ("asymmetric-rfc5690", || {
        Arc::new(AsymmetricFactory::new(AsymmetricRule::Rfc5690))
    }),
];

/// Every name that [`by_name`] knows, in a fixed order.
pub fn names() -> impl ExactSizeIterator<Item = &'static str> + Clone {
    ENTRIES.iter().map(|(name, _)| *name)
}

/// The factory of that name with its default options, or `None`.
pub fn by_name(name: &str) -> Option<SharedAckPolicyFactory> {
    ENTRIES
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, factory)| factory())
}

/// What a connection uses when nothing else is chosen: `standard`.
pub fn default_factory() -> SharedAckPolicyFactory {
    Arc::new(StandardFactory::default())
}
