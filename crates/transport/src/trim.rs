//! When a table that was full once gives its memory back.
//!
//! Purpose: tables of an endpoint grow with the connections that live at once, draining ones
//! included. After a burst they shall weigh what the connections of today weigh, and shrinking
//! shall not be paid for by every packet.
//! Owns: the rule ([`target`]) and its use on the collections that hold such tables.
//! Does not own: the tables; what belongs to one connection and goes with it.

use std::{
    collections::VecDeque,
    hash::{BuildHasher, Hash},
};

use hashbrown::HashMap;

/// Tables of this many places stay as they are.
const SMALL: usize = 64;

/// To how many places a table of `capacity` that holds `len` shall shrink; `None`: it stays.
///
/// Only where three quarters are empty, and to twice what is there: at least a quarter of its
/// places must be taken or left before it changes its size again, so that the cost of moving what
/// it holds is constant per entry.
pub fn target(len: usize, capacity: usize) -> Option<usize> {
    (capacity > SMALL && len <= capacity / 4).then(|| len.saturating_mul(2))
}

/// Applies the rule; call after removals.
pub fn vec<T>(table: &mut Vec<T>) {
    if let Some(places) = target(table.len(), table.capacity()) {
        table.shrink_to(places);
    }
}

/// Applies the rule; call after removals.
pub fn deque<T>(table: &mut VecDeque<T>) {
    if let Some(places) = target(table.len(), table.capacity()) {
        table.shrink_to(places);
    }
}

/// Applies the rule; call after removals.
pub fn map<K: Eq + Hash, V, S: BuildHasher>(table: &mut HashMap<K, V, S>) {
    // Not its capacity, of which removals may leave less than there is.
    let places = table.allocation_size() / (size_of::<(K, V)>() + 1);
    if let Some(places) = target(table.len(), places) {
        table.shrink_to(places);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::IdHash;

    #[test]
    fn a_table_weighs_what_is_in_it_now() {
        let mut table: VecDeque<u32> = (0..10_000).collect();
        let mut moves = 0;
        while table.pop_back().is_some() {
            let before = table.capacity();
            deque(&mut table);
            moves += usize::from(table.capacity() != before);
            assert!(
                table.capacity() <= SMALL.max(4 * table.len() + 8),
                "{} of {}",
                table.len(),
                table.capacity()
            );
        }
        assert!(moves <= 10, "{moves}");
    }

    #[test]
    fn a_table_that_breathes_keeps_its_size() {
        let mut table: Vec<u32> = (0..1_000).collect();
        vec(&mut table);
        let size = table.capacity();
        for _ in 0..100 {
            table.truncate(300);
            vec(&mut table);
            assert_eq!(table.capacity(), size);
            table.extend(0..700);
        }
    }

    #[test]
    fn small_ones_stay_and_empty_ones_go() {
        let mut table: HashMap<u32, u32, IdHash> = (0..20).map(|i| (i, i)).collect();
        let size = table.capacity();
        table.clear();
        map(&mut table);
        assert_eq!(table.capacity(), size);
        table.extend((0..500).map(|i| (i, i)));
        table.clear();
        map(&mut table);
        assert_eq!(table.capacity(), 0);
    }
}
