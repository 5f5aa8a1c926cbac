//! Tasks that wait for something.
//!
//! Owns: [`WakerSet`], whose entries belong to the futures that wait and vanish with them, so
//! that dropping a future (a lost `select!` branch) leaves nothing behind.

use std::task::{Context, Waker};

/// Wakers of the futures that wait for one kind of event. Never used, it owns no memory.
#[derive(Debug, Default)]
pub(crate) struct WakerSet {
    /// In the order of their places.
    waiting: Vec<(u64, Waker)>,
    next: u64,
}

/// An empty set of up to this many places stays as it is; a larger one gives its memory back.
const SMALL: usize = 4;

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
        match self.find(key) {
            Ok(at) => {
                if let Some((_, waker)) = self.waiting.get_mut(at) {
                    waker.clone_from(cx.waker());
                }
            }
            Err(at) => self.waiting.insert(at, (key, cx.waker().clone())),
        }
    }

    /// Forgets a future.
    pub(crate) fn remove(&mut self, place: Place) {
        if let Ok(at) = self.find(place.0) {
            self.waiting.remove(at);
        }
    }

    /// Moves every waiting waker to `out`.
    pub(crate) fn take_all(&mut self, out: &mut Vec<Waker>) {
        out.extend(self.waiting.drain(..).map(|(_, waker)| waker));
        if self.waiting.capacity() > SMALL {
            self.waiting = Vec::new();
        }
    }

    fn find(&self, key: u64) -> Result<usize, usize> {
        // The newest is asked for most.
        match self.waiting.last() {
            Some((last, _)) if *last < key => Err(self.waiting.len()),
            Some((last, _)) if *last == key => Ok(self.waiting.len() - 1),
            _ => self.waiting.binary_search_by_key(&key, |(key, _)| *key),
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
