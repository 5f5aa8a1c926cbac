//! Work on several threads with results in the order of the work.

use std::{
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::Duration,
};

/// Does `work` for every item, on up to `workers` threads; the result at `i` is that of item `i`.
///
/// `on_progress` is called on this thread with each result as it comes, and with `None` when
/// nothing came for `tick`.
pub(super) fn run_all<I: Sync, T: Send>(
    items: &[I],
    workers: usize,
    tick: Duration,
    work: impl Fn(&I) -> T + Sync,
    mut on_progress: impl FnMut(Option<&T>),
) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let mut results: Vec<Option<T>> = items.iter().map(|_| None).collect();
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..workers.clamp(1, items.len().max(1)) {
            let (sender, next, work) = (sender.clone(), &next, &work);
            scope.spawn(move || {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(index) else { return };
                    if sender.send((index, work(item))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        loop {
            match receiver.recv_timeout(tick) {
                Ok((index, result)) => {
                    on_progress(Some(&result));
                    if let Some(place) = results.get_mut(index) {
                        *place = Some(result);
                    }
                }
                Err(RecvTimeoutError::Timeout) => on_progress(None),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
    });
    results.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_stand_in_the_order_of_the_work() {
        let items: Vec<u64> = (0..50).collect();
        let mut seen = 0;
        let results = run_all(
            &items,
            4,
            Duration::from_millis(1),
            |item| {
                thread::sleep(Duration::from_micros(50 - item));
                item * 2
            },
            |done| seen += usize::from(done.is_some()),
        );
        assert_eq!(
            results,
            items.iter().map(|item| item * 2).collect::<Vec<_>>()
        );
        assert_eq!(seen, 50);
        assert!(run_all(&[], 4, Duration::from_millis(1), |item: &u64| *item, |_| {}).is_empty());
    }
}
