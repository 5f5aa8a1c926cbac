//! Files that a link's configuration names.
//!
//! Owns: [`InputFile`], reading one from disk. Does not own: what the text means (`trace.rs`, `recorded.rs`).

use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::trace::MAX_TRACE_BYTES;

/// A file that was read for a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputFile {
    /// Its path as the configuration has it.
    pub path: PathBuf,
    /// What it holds.
    pub text: Arc<str>,
}

/// The text of a regular file of at most 64 MiB; a relative path starts at `base`.
pub(super) fn read(base: &Path, path: &Path) -> Result<Arc<str>, String> {
    let found = base.join(path);
    let error = |problem: String| format!("{}: {problem}", found.display());
    // Asked before it is opened: opening a pipe would wait for its other end.
    let about = found.metadata().map_err(|e| error(e.to_string()))?;
    if !about.is_file() {
        return Err(error("is not a regular file".to_owned()));
    }
    let mut text = String::new();
    File::open(&found)
        .and_then(|file| {
            let most = MAX_TRACE_BYTES as u64 + 1;
            file.take(most).read_to_string(&mut text)
        })
        .map_err(|e| error(e.to_string()))?;
    if text.len() > MAX_TRACE_BYTES {
        return Err(error(format!(
            "is larger than {} MiB",
            MAX_TRACE_BYTES >> 20
        )));
    }
    Ok(text.into())
}
