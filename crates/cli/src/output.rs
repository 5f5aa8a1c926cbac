//! Words on standard output, which may be a full disk or a pipe that nobody reads any more.

use std::io::{self, Write};

use crate::failure::Outcome;

/// Prints; a reader that has seen enough (`| head`) is no failure.
pub(crate) fn print(text: &str) -> Outcome {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(crate::failure::Failure::new(format!(
            "cannot write to standard output: {error}"
        ))),
        Ok(()) => Ok(()),
    }
}
