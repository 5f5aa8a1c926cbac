//! Files that are served, files that arrived, and the folder they live in.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use aws_lc_rs::digest::{SHA256, digest};

use super::case::Case;

/// A temporary folder, removed in the end.
pub(crate) struct Folder {
    path: PathBuf,
    keep: bool,
}

impl Folder {
    pub(crate) fn new(keep: bool) -> Result<Self> {
        let path = std::env::temp_dir().join(format!("tautline-interop-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Self { path, keep })
    }

    pub(crate) fn kept(&self) -> Option<&Path> {
        self.keep.then_some(self.path.as_path())
    }

    pub(crate) fn www(&self) -> PathBuf {
        self.path.join("www")
    }

    /// A fresh folder for a cell.
    pub(crate) fn cell(&self, name: &str) -> Result<PathBuf> {
        let path = self.path.join(name);
        std::fs::create_dir_all(path.join("out"))?;
        std::fs::create_dir_all(path.join("qlog"))?;
        Ok(path)
    }

    /// Removes a cell's folder, unless it is to be kept.
    pub(crate) fn discard(&self, cell: &Path) {
        if !self.keep {
            let _ = std::fs::remove_dir_all(cell);
        }
    }

    /// Every file of every case.
    pub(crate) fn make_served_files(&self) -> Result<()> {
        std::fs::create_dir_all(self.www())?;
        for &case in Case::ALL {
            for (path, len) in paths(case).iter().zip(case.files()) {
                let name = path.trim_start_matches('/');
                std::fs::write(self.www().join(name), content(path, len))?;
            }
        }
        Ok(())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.keep {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// The request paths of a case, in the order of [`Case::files`].
pub(crate) fn paths(case: Case) -> Vec<String> {
    (0..case.files().len())
        .map(|index| format!("/{}-{index}.bin", case.name()))
        .collect()
}

/// Bytes that look random and differ from file to file.
fn content(name: &str, len: usize) -> Vec<u8> {
    let mut state = name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// SHA-256 in hexadecimal.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    digest(&SHA256, bytes)
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Compares what arrived in `out` with what is served.
pub(crate) fn compare(case: Case, www: &Path, out: &Path) -> Result<()> {
    for path in paths(case) {
        let name = path.trim_start_matches('/');
        let served = std::fs::read(www.join(name))?;
        let arrived =
            std::fs::read(out.join(name)).with_context(|| format!("{name} is missing"))?;
        if sha256(&served) != sha256(&arrived) {
            bail!(
                "{name} differs: {} of {} bytes arrived",
                arrived.len(),
                served.len()
            );
        }
    }
    Ok(())
}
