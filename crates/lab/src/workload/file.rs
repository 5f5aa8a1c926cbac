//! Files that a plan names: read before anything runs, and remembered with their hash.
//!
//! Owns: [`Inputs`] (where they are), [`PlanFile`] (a path in a plan with what was read from it),
//! [`Parse`] (how a kind of file is read), [`FileError`], [`FileRecord`] (what a row says about a file).
//! Does not own: the formats.

use std::{
    collections::BTreeMap,
    fmt,
    fs::File,
    io::{ErrorKind, Read},
    path::{Path, PathBuf},
    sync::Arc,
};

use aws_lc_rs::digest;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::plan::nearest;

/// Where the files that a plan names are found.
#[derive(Clone, Debug)]
pub enum Inputs {
    /// On disk; relative paths start at this folder.
    Folder(PathBuf),
    /// In memory, by the path that the plan has; what was kept with results.
    Kept(Arc<BTreeMap<String, Arc<str>>>),
}

impl From<&Path> for Inputs {
    fn from(folder: &Path) -> Self {
        Self::Folder(folder.to_owned())
    }
}

impl Inputs {
    /// Where a file is looked for, in words.
    fn place(&self, path: &str) -> PathBuf {
        match self {
            Self::Folder(folder) => folder.join(path),
            Self::Kept(_) => PathBuf::from(path),
        }
    }

    /// The content of a file of at most `max_bytes`.
    ///
    /// # Errors
    /// Why there is none, without the path.
    pub(crate) fn read(&self, path: &str, max_bytes: u64) -> Result<Vec<u8>, String> {
        match self {
            Self::Folder(folder) => read(&folder.join(path), max_bytes),
            Self::Kept(_) => self.kept(path).map(|text| text.as_bytes().to_vec()),
        }
    }

    /// The text of a file of at most `max_bytes`, as links want theirs.
    ///
    /// # Errors
    /// Why there is none, after where it was looked for.
    pub(crate) fn text(&self, path: &str, max_bytes: u64) -> Result<Arc<str>, String> {
        let told = |reason: &str| format!("{}: {reason}", self.place(path).display());
        match self {
            Self::Folder(_) => {
                let content = self.read(path, max_bytes);
                let content = content.map_err(|reason| told(&reason))?;
                let text = String::from_utf8(content);
                let text = text.map_err(|_| told("is not text in UTF-8"))?;
                Ok(text.into())
            }
            Self::Kept(_) => self.kept(path).map_err(|reason| told(&reason)),
        }
    }

    /// What was kept of a file.
    pub(crate) fn kept(&self, path: &str) -> Result<Arc<str>, String> {
        let kept = match self {
            Self::Folder(_) => None,
            Self::Kept(files) => files.get(path),
        };
        let missing = || "was not kept with the results".to_owned();
        kept.map(Arc::clone).ok_or_else(missing)
    }
}

/// How a kind of file is read.
pub trait Parse: Sized {
    /// A larger file is refused.
    const MAX_BYTES: u64;

    /// Reads the content.
    ///
    /// # Errors
    /// What is wrong, and where.
    fn parse(content: &[u8]) -> Result<Self, Fault>;
}

/// What is wrong with a file's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The line, counted from 1, where one is to blame.
    pub line: Option<u64>,
    /// What is wrong, and what would be right.
    pub reason: String,
}

impl Fault {
    /// About the whole file.
    pub fn whole(reason: impl Into<String>) -> Self {
        Self {
            line: None,
            reason: reason.into(),
        }
    }

    /// About one line, counted from 1.
    pub fn at(line: usize, reason: impl Into<String>) -> Self {
        Self {
            line: Some(line as u64),
            reason: reason.into(),
        }
    }
}

/// A file that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    /// The file, as it was looked for.
    pub path: PathBuf,
    /// The line, counted from 1, where one is to blame.
    pub line: Option<u64>,
    /// What is wrong, and what would be right.
    pub reason: String,
}

impl std::error::Error for FileError {}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        if let Some(line) = self.line {
            write!(f, ", line {line}")?;
        }
        write!(f, ": {}", self.reason)
    }
}

/// What a row says about a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileRecord {
    /// The path as the plan has it.
    pub path: String,
    /// SHA-256 of the content in hexadecimal; `None` before it was read.
    pub sha256: Option<String>,
}

impl FileRecord {
    /// Of a file with this content.
    pub fn of(path: String, content: &[u8]) -> Self {
        let hash = digest::digest(&digest::SHA256, content);
        let hash = hash.as_ref().iter().map(|b| format!("{b:02x}")).collect();
        Self {
            path,
            sha256: Some(hash),
        }
    }
}

/// A file in a plan; in the plan just its path.
#[derive(Clone, Debug)]
pub struct PlanFile<T> {
    path: String,
    loaded: Option<(String, Arc<T>)>,
}

impl<T> PartialEq for PlanFile<T> {
    /// Whether the path is the same and, where both were read, the content.
    fn eq(&self, other: &Self) -> bool {
        let hash = |file: &Self| file.loaded.as_ref().map(|(hash, _)| hash.clone());
        self.path == other.path && hash(self) == hash(other)
    }
}

impl<T> Serialize for PlanFile<T> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        self.path.serialize(s)
    }
}

impl<'de, T> Deserialize<'de> for PlanFile<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d).map(Self::new)
    }
}

impl<T> PlanFile<T> {
    /// A file that was not read yet.
    pub fn new(path: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            loaded: None,
        }
    }

    /// What a row says about it.
    pub fn record(&self) -> FileRecord {
        FileRecord {
            path: self.path.clone(),
            sha256: self.loaded.as_ref().map(|(hash, _)| hash.clone()),
        }
    }

    /// The content.
    ///
    /// # Errors
    /// When it was not read.
    pub fn get(&self) -> Result<&T, String> {
        self.loaded
            .as_ref()
            .map(|(_, content)| &**content)
            .ok_or_else(|| format!("{} was not read: resolve the workload first", self.path))
    }
}

impl<T: Parse> PlanFile<T> {
    /// Reads the file. Reads it once: a second call does nothing.
    ///
    /// # Errors
    /// When it cannot be read, is too large, or is not of this kind.
    pub fn load(&mut self, inputs: &Inputs) -> Result<(), FileError> {
        if self.loaded.is_some() {
            return Ok(());
        }
        let path = inputs.place(&self.path);
        let error = |fault: Fault| FileError {
            path: path.clone(),
            line: fault.line,
            reason: fault.reason,
        };
        let content = inputs.read(&self.path, T::MAX_BYTES);
        let content = content.map_err(|reason| error(Fault::whole(reason)))?;
        let parsed = T::parse(&content).map_err(error)?;
        let record = FileRecord::of(self.path.clone(), &content);
        self.loaded = record.sha256.map(|hash| (hash, Arc::new(parsed)));
        Ok(())
    }
}

/// The content of a regular file of at most `max_bytes`.
pub(crate) fn read(path: &Path, max_bytes: u64) -> Result<Vec<u8>, String> {
    let describe = |error: std::io::Error| format!("cannot be read: {error}");
    // Asked before it is opened: opening a pipe would wait for its other end.
    let about = path.metadata().map_err(|error| {
        let like = (error.kind() == ErrorKind::NotFound).then(|| beside(path));
        match like.flatten() {
            Some(name) => format!("{}; did you mean `{name}`?", describe(error)),
            None => describe(error),
        }
    })?;
    if !about.is_file() {
        return Err("is not a regular file".to_owned());
    }
    let mut content = Vec::new();
    File::open(path)
        .and_then(|file| file.take(max_bytes + 1).read_to_end(&mut content))
        .map_err(describe)?;
    if content.len() as u64 > max_bytes {
        return Err(format!("is larger than {} MiB", max_bytes >> 20));
    }
    Ok(content)
}

/// The file beside one that is not there that is called most like it.
fn beside(path: &Path) -> Option<String> {
    let wrong = path.file_name()?.to_string_lossy();
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    let entries = folder.unwrap_or(Path::new(".")).read_dir().ok()?;
    // A folder of all the world's files need not be read to its end.
    let names = entries.take(10_000).filter_map(|entry| {
        let entry = entry.ok()?;
        let file = entry.path().is_file();
        file.then(|| entry.file_name().to_string_lossy().into_owned())
    });
    let mut names: Vec<String> = names.collect();
    names.sort();
    nearest(&wrong, names.iter().map(String::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Shout(String);

    impl Parse for Shout {
        const MAX_BYTES: u64 = 1 << 20;
        fn parse(content: &[u8]) -> Result<Self, Fault> {
            let text = std::str::from_utf8(content).map_err(|_| Fault::at(1, "not text"))?;
            Ok(Self(text.to_uppercase()))
        }
    }

    #[test]
    fn a_file_is_read_from_beside_the_plan_and_hashed() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("a.txt"), "abc").expect("written");
        let mut file = PlanFile::<Shout>::new("a.txt");
        assert!(file.get().is_err());
        assert_eq!(file.record().sha256, None);
        file.load(&folder.path().into()).expect("loads");
        assert_eq!(file.get().map(|shout| shout.0.as_str()), Ok("ABC"));
        let hash = file.record().sha256.expect("hashed");
        assert!(hash.starts_with("ba7816bf8f01cfea"), "{hash}");
        assert_eq!(hash.len(), 64);
    }

    #[test]
    fn what_was_kept_needs_no_disk() {
        let kept = [("a/b.txt".to_owned(), "abc".into())];
        let inputs = Inputs::Kept(Arc::new(kept.into()));
        let mut file = PlanFile::<Shout>::new("a/b.txt");
        file.load(&inputs).expect("loads");
        assert_eq!(file.get().map(|shout| shout.0.as_str()), Ok("ABC"));
        let error = PlanFile::<Shout>::new("b.txt").load(&inputs);
        let told = error.expect_err("refused").to_string();
        assert_eq!(told, "b.txt: was not kept with the results");
    }

    #[test]
    fn files_that_cannot_be_used_say_why() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("big"), vec![b'x'; (1 << 20) + 1]).expect("written");
        std::fs::write(folder.path().join("binary"), [0xff]).expect("written");
        let why = |name: &str| {
            let mut file = PlanFile::<Shout>::new(name);
            let inputs = Inputs::from(folder.path());
            file.load(&inputs).expect_err("refused").to_string()
        };
        assert!(why("missing").contains("missing: cannot be read: "));
        assert!(why("bniary").ends_with("; did you mean `binary`?"));
        assert!(why("elsewhere/binary").ends_with("(os error 2)"));
        assert!(why(".").ends_with("is not a regular file"));
        assert!(why("big").ends_with("is larger than 1 MiB"));
        assert!(why("binary").ends_with("binary, line 1: not text"));
    }
}
