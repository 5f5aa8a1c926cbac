//! The user's or the service manager's wish that the program ends.

use crate::failure::Outcome;

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
