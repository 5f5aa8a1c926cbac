//! Files asked for and files received.

use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Where a request path lies below `root`; nothing outside of it.
fn below(root: &Path, path: &str) -> Result<PathBuf> {
    let relative = Path::new(path.trim_start_matches('/'));
    if relative
        .components()
        .any(|part| !matches!(part, Component::Normal(_)))
    {
        bail!("path {path:?} leaves its directory");
    }
    Ok(root.join(relative))
}

pub(crate) fn read(root: &Path, path: &str) -> Result<Vec<u8>> {
    let file = below(root, path)?;
    std::fs::read(&file).with_context(|| file.display().to_string())
}

pub(crate) fn save(root: &Path, path: &str, bytes: &[u8]) -> Result<()> {
    let file = below(root, path)?;
    std::fs::write(&file, bytes).with_context(|| file.display().to_string())
}
