//! Whether the machine was there: a thread of the ends' priority that wants to be woken every
//! millisecond.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::Result;

use crate::{clock::now, lateness::Lateness, system::Ends};

const STEP: Duration = Duration::from_millis(1);

/// Such a thread.
pub(crate) struct Witness {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Lateness>>,
}

impl Witness {
    pub(crate) fn start(ends: Ends) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = thread::Builder::new()
            .name("witness".to_owned())
            .spawn(move || {
                ends.favour();
                watch(&told)
            })?;
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }

    /// Stops and tells how late it was woken.
    pub(crate) fn finish(mut self) -> Lateness {
        self.end()
    }

    fn end(&mut self) -> Lateness {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take();
        let seen = thread.and_then(|thread| thread.join().ok());
        seen.unwrap_or_default()
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.end();
    }
}

fn watch(stop: &AtomicBool) -> Lateness {
    let mut seen = Lateness::default();
    let mut due = now() + STEP;
    while !stop.load(Ordering::Relaxed) {
        thread::sleep(due.saturating_duration_since(now()));
        let late = now().saturating_duration_since(due);
        seen.record(late);
        // What was slept through is one lateness, not many.
        due += STEP * (1 + u32::try_from(late.as_millis()).unwrap_or(0));
    }
    seen
}
