//! A deque whose first element needs no memory of its own: most streams carry one short message,
//! and an allocation for it would cost more than everything else about it.

use std::collections::VecDeque;

/// A queue of `T`, the first of which lies inside. `rest` is empty when `first` is.
#[derive(Debug)]
pub(super) struct ShortDeque<T> {
    first: Option<T>,
    rest: VecDeque<T>,
}

impl<T> Default for ShortDeque<T> {
    fn default() -> Self {
        Self {
            first: None,
            rest: VecDeque::new(),
        }
    }
}

impl<T> ShortDeque<T> {
    pub(super) fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.rest.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    pub(super) fn front(&self) -> Option<&T> {
        self.first.as_ref()
    }

    pub(super) fn front_mut(&mut self) -> Option<&mut T> {
        self.first.as_mut()
    }

    pub(super) fn back(&self) -> Option<&T> {
        self.rest.back().or(self.first.as_ref())
    }

    pub(super) fn back_mut(&mut self) -> Option<&mut T> {
        self.rest.back_mut().or(self.first.as_mut())
    }

    pub(super) fn get(&self, index: usize) -> Option<&T> {
        match index.checked_sub(1) {
            None => self.first.as_ref(),
            Some(index) => self.rest.get(index),
        }
    }

    pub(super) fn push_back(&mut self, value: T) {
        if self.first.is_none() {
            self.first = Some(value);
        } else {
            self.rest.push_back(value);
        }
    }

    pub(super) fn pop_front(&mut self) -> Option<T> {
        let next = self.rest.pop_front();
        std::mem::replace(&mut self.first, next)
    }

    pub(super) fn pop_back(&mut self) -> Option<T> {
        self.rest.pop_back().or_else(|| self.first.take())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.first.iter().chain(&self.rest)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.first.iter_mut().chain(&mut self.rest)
    }

    /// Keeps the elements that `keep` wants, in their order.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        self.rest.retain(&mut keep);
        if self.first.as_ref().is_some_and(|first| !keep(first)) {
            self.first = self.rest.pop_front();
        }
    }

    /// The index of the first element that `is_before` denies; it must deny all after one it
    /// denies.
    pub(super) fn partition_point(&self, mut is_before: impl FnMut(&T) -> bool) -> usize {
        match &self.first {
            Some(first) if is_before(first) => 1 + self.rest.partition_point(is_before),
            _ => 0,
        }
    }

    /// Elements for which there is memory besides the first.
    pub(super) fn capacity(&self) -> usize {
        self.rest.capacity()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Op {
        PushBack(u8),
        PopFront,
        PopBack,
        Retain(u8),
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            4 => any::<u8>().prop_map(Op::PushBack),
            2 => Just(Op::PopFront),
            1 => Just(Op::PopBack),
            1 => (1..5u8).prop_map(Op::Retain),
        ]
    }

    proptest! {
        #[test]
        fn behaves_as_a_deque(ops in prop::collection::vec(op(), 0..60)) {
            let mut short = ShortDeque::default();
            let mut plain = VecDeque::new();
            for op in ops {
                match op {
                    Op::PushBack(value) => {
                        short.push_back(value);
                        plain.push_back(value);
                    }
                    Op::PopFront => prop_assert_eq!(short.pop_front(), plain.pop_front()),
                    Op::PopBack => prop_assert_eq!(short.pop_back(), plain.pop_back()),
                    Op::Retain(modulus) => {
                        short.retain(|value| value % modulus == 0);
                        plain.retain(|value| value % modulus == 0);
                    }
                }
                prop_assert_eq!(short.len(), plain.len());
                prop_assert_eq!(short.is_empty(), plain.is_empty());
                prop_assert_eq!(short.front(), plain.front());
                prop_assert_eq!(short.front_mut(), plain.front_mut());
                prop_assert_eq!(short.back(), plain.back());
                prop_assert_eq!(short.back_mut(), plain.back_mut());
                prop_assert!(short.iter().eq(plain.iter()));
                prop_assert!(short.iter_mut().eq(plain.iter_mut()));
                for index in 0..=plain.len() {
                    prop_assert_eq!(short.get(index), plain.get(index));
                }
            }
            plain.make_contiguous().sort_unstable();
            let mut sorted = ShortDeque::default();
            plain.iter().for_each(|value| sorted.push_back(*value));
            for pivot in [0, 40, 200] {
                prop_assert_eq!(
                    sorted.partition_point(|value| *value < pivot),
                    plain.partition_point(|value| *value < pivot)
                );
            }
        }
    }
}
