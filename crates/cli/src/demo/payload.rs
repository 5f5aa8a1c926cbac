//! The file that is moved.

use std::{
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
};

use bytes::Bytes;

use crate::{
    checksum::{Digest, Hasher},
    failure::{Failure, Outcome},
};

/// How much of the program itself is moved when no file is named.
const DEFAULT_BYTES: u64 = 4_000_000;
/// Files are held in memory and cross slow links in simulated, not in real time; above this the
/// demo would no longer be one.
const MOST_BYTES: u64 = 256_000_000;

/// Bytes to move, and what they should be at the far end.
#[derive(Clone, Debug)]
pub(super) struct Payload {
    /// What to call it.
    pub(super) name: String,
    /// Whether more may follow in the file.
    cut: bool,
    /// The bytes.
    pub(super) data: Bytes,
    /// Their SHA-256.
    pub(super) digest: Digest,
}

impl Payload {
    /// Reads `file`, or this program, up to `bytes`.
    pub(super) fn load(file: Option<&Path>, bytes: Option<u64>) -> Outcome<Self> {
        let (path, name) = match file {
            Some(path) => (path.to_owned(), path.display().to_string()),
            None => (this_program()?, "this program".to_owned()),
        };
        let wanted = bytes.or(file.is_none().then_some(DEFAULT_BYTES));
        let too_much = || {
            Failure::new(format!(
                "the demo moves at most {} MB: choose the beginning of {name} with --bytes",
                MOST_BYTES / 1_000_000
            ))
        };
        if wanted.is_some_and(|wanted| wanted > MOST_BYTES) {
            return Err(too_much());
        }
        let fail = |error| Failure::file("read", &path, &error);
        let from = File::open(&path).map_err(fail)?;
        let mut data = Vec::new();
        from.take(wanted.unwrap_or(MOST_BYTES + 1))
            .read_to_end(&mut data)
            .map_err(fail)?;
        if data.is_empty() {
            return Err(Failure::new(format!(
                "{name} is empty: there is nothing to move"
            )));
        }
        if data.len() as u64 > MOST_BYTES {
            return Err(too_much());
        }
        let mut hasher = Hasher::new();
        hasher.update(&data);
        Ok(Self {
            name,
            cut: wanted.is_some(),
            data: Bytes::from(data),
            digest: hasher.finish(),
        })
    }

    /// The first `bytes` of it, or all if it is shorter.
    pub(super) fn beginning(&self, bytes: u64) -> Self {
        let end = usize::try_from(bytes).unwrap_or(usize::MAX);
        let data = self.data.slice(..end.min(self.data.len()));
        let mut hasher = Hasher::new();
        hasher.update(&data);
        Self {
            name: self.name.clone(),
            cut: self.cut || data.len() < self.data.len(),
            data,
            digest: hasher.finish(),
        }
    }

    /// The file and how much of it.
    pub(super) fn describe(&self) -> String {
        let size = match self.len() {
            small @ ..100_000 => format!("{small} bytes"),
            large => format!("{:.2} MB", large as f64 / 1e6),
        };
        match self.cut {
            true => format!("the first {size} of {}", self.name),
            false => format!("{} ({size})", self.name),
        }
    }

    /// Bytes to move.
    pub(super) fn len(&self) -> u64 {
        self.data.len() as u64
    }
}

fn this_program() -> Outcome<PathBuf> {
    std::env::current_exe().map_err(|error| {
        Failure::new(format!(
            "cannot find this program's own file ({error}): choose one with --file"
        ))
    })
}
