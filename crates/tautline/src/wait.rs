//! Tasks that wait for something.
//!
//! Owns: [`WakerSet`], whose entries belong to the futures that wait and vanish with them, so
//! that dropping a future (a lost `select!` branch) leaves nothing behind.

use std::{
    collections::BTreeMap,
    task::{Context, Waker},
};

/// Wakers of the futures that wait for one kind of event. Empty, it owns no memory.
#[derive(Debug, Default)]
pub(crate) struct WakerSet {
    waiting: BTreeMap<u64, Waker>,
    next: u64,
}

/// A future's place in a [`WakerSet`]; never given to another future.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place(u64);

impl WakerSet {
    /// Registers or renews the caller's waker.
    pub(crate) fn register(&mut self, place: &mut Option<Place>, cx: &Context<'_>) {
        let Place(key) = *place.get_or_insert_with(|| {
            self.next += 1;
            Place(self.next)
        });
        self.waiting
            .entry(key)
            .and_modify(|waker| waker.clone_from(cx.waker()))
            .or_insert_with(|| cx.waker().clone());
    }

    /// Forgets a future.
    pub(crate) fn remove(&mut self, place: Place) {
        self.waiting.remove(&place.0);
    }

    /// Moves every waiting waker to `out`.
    pub(crate) fn take_all(&mut self, out: &mut Vec<Waker>) {
        if !self.waiting.is_empty() {
            out.extend(std::mem::take(&mut self.waiting).into_values());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_never_shared_and_leave_nothing_behind() {
        let mut set = WakerSet::default();
        let cx = Context::from_waker(Waker::noop());
        let (mut first, mut second) = (None, None);
        set.register(&mut first, &cx);
        set.register(&mut first, &cx);
        let mut woken = Vec::new();
        set.take_all(&mut woken);
        assert_eq!(woken.len(), 1);
        set.register(&mut second, &cx);
        set.register(&mut first, &cx);
        assert_ne!(first, second);
        assert_eq!(set.waiting.len(), 2);
        first
            .into_iter()
            .chain(second)
            .for_each(|place| set.remove(place));
        assert!(set.waiting.is_empty());
    }
}
