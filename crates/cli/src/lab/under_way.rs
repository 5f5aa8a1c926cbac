//! A campaign under way, simulated or in the field: its progress bar, and the signals that stop it.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use indicatif::{ProgressBar, ProgressStyle};
use tautline_lab::{campaign::Progress, plan::Plan};

use crate::{failure::Outcome, signals::asked_to_stop};

pub(super) fn progress_bar(plan: &Plan) -> ProgressBar {
    let bar = ProgressBar::new(plan.len() as u64);
    let style = ProgressStyle::with_template("{prefix} {wide_bar} {pos}/{len} {eta} {msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.set_style(style);
    bar.set_prefix(plan.name.clone());
    bar
}

pub(super) fn show_progress(bar: &ProgressBar, progress: Progress) {
    bar.set_position(progress.done as u64);
    if progress.troubled > 0 {
        bar.set_message(format!("({} not ok)", progress.troubled));
    }
}

/// Sets `stop` at the first SIGINT or SIGTERM; the second ends the program at once.
pub(super) fn stop_when_asked(stop: Arc<AtomicBool>) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    std::thread::spawn(move || {
        runtime.block_on(async {
            if asked_to_stop().await.is_err() {
                return;
            }
            stop.store(true, Ordering::Relaxed);
            eprintln!("tautline: finishing the cells under way; once more to give them up");
            if asked_to_stop().await.is_ok() {
                std::process::exit(130);
            }
        });
    });
    Ok(())
}
