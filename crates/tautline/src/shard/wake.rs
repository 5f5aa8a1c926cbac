//! How applications wake a driver: one flag, one waker.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    task::{Context, Waker},
};

use parking_lot::Mutex;

/// Wakes one driver task; many calls between two of its turns cost one wake-up.
#[derive(Debug, Default)]
pub(crate) struct DriverWaker {
    notified: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl DriverWaker {
    /// There is work. Call after the work was queued.
    pub(crate) fn notify(&self) {
        if self.notified.swap(true, Ordering::AcqRel) {
            return;
        }
        let waker = self.waker.lock().clone();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// The driver's turn starts: later calls of [`Self::notify`] wake it again.
    ///
    /// Look for queued work only after this, so that no call falls between.
    pub(crate) fn begin_turn(&self, cx: &Context<'_>) {
        {
            let mut slot = self.waker.lock();
            match &mut *slot {
                Some(waker) => waker.clone_from(cx.waker()),
                None => *slot = Some(cx.waker().clone()),
            }
        }
        self.notified.swap(false, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{Arc, atomic::AtomicUsize},
        task::Wake,
    };

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn many_notifications_are_one_wake_up_until_the_next_turn() {
        let count = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&count));
        let cx = Context::from_waker(&waker);
        let driver = DriverWaker::default();
        driver.notify();
        driver.begin_turn(&cx);
        for turn in 1..=3 {
            driver.notify();
            driver.notify();
            assert_eq!(count.0.load(Ordering::Relaxed), turn);
            driver.begin_turn(&cx);
        }
    }
}
