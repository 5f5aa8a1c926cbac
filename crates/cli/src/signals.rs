//! The user's or the service manager's wish that the program ends, and signals that are none.

use crate::failure::Outcome;

/// From now on, writing beyond the limit on file sizes (`ulimit -f`) is an error like others, and
/// not the program's end by SIGXFSZ.
pub(crate) fn outlive_file_size_limit() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let signal_number = rustix::process::Signal::XFSZ.as_raw();
        // Once it is handled, it stays so.
        drop(signal(SignalKind::from_raw(signal_number)));
    }
}

/// Waits for SIGINT or SIGTERM.
pub(crate) async fn asked_to_stop() -> Outcome {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            interrupted = tokio::signal::ctrl_c() => interrupted?,
            _ = terminate.recv() => {}
        }
        Ok(())
    }
    #[cfg(not(unix))]
    Ok(tokio::signal::ctrl_c().await?)
}
