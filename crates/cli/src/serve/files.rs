//! From a request path to a file inside the served directory, and never outside.
//!
//! Owns: path decoding, the walls around the root (`..`, encoded slashes, symlinks that lead
//! out, hidden names, devices), reading a file in pieces.
//! Does not own: HTTP (`reply.rs`).

use std::{
    fs::{DirEntry, File, Metadata},
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use bytes::{Bytes, BytesMut};
use percent_encoding::percent_decode_str;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::failure::{Failure, Outcome};

/// Read at once from a file; also what one step of a response writes.
pub(crate) const READ_BYTES: usize = 128 * 1024;
/// ELOOP of Linux.
const TOO_MANY_LINKS: i32 = 40;
/// Longest path that is looked up.
const MAX_PATH_BYTES: usize = 4096;
/// Entries of a directory that a listing shows.
pub(crate) const MAX_LISTED: usize = 10_000;

/// A directory that is served. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    root: Arc<Path>,
    hidden: bool,
    listing: bool,
    /// For the files that are open at once.
    places: Arc<Semaphore>,
}

/// What a path leads to.
#[derive(Debug)]
pub(crate) enum Found {
    File(OpenFile),
    /// A directory to list: its path as requested (decoded, ends in `/`), and its entries.
    Listing {
        path: String,
        entries: Vec<Entry>,
        truncated: bool,
    },
    /// A directory asked for without the final slash; the canonical request path.
    Redirect(String),
}

/// A line of a listing.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) directory: bool,
    pub(crate) len: u64,
    pub(crate) modified: Option<SystemTime>,
}

/// Why a path leads nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoFile {
    /// No such file, or one that is not shown, or one outside of the root.
    NotFound,
    /// It exists, but out of our reach.
    Forbidden,
    /// The path itself is nonsense.
    BadPath,
    /// Too many files are open already.
    Busy,
    /// The disk failed.
    Failed,
}

/// A file handle and its place among those that may be open.
#[derive(Debug)]
pub(crate) struct Held {
    file: File,
    _place: OwnedSemaphorePermit,
}

/// An open regular file.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub(crate) file: Held,
    pub(crate) path: PathBuf,
    pub(crate) len: u64,
    pub(crate) modified: Option<SystemTime>,
}

impl Site {
    /// At most `max_open` files are open at once.
    pub(crate) fn new(root: &Path, hidden: bool, listing: bool, max_open: usize) -> Outcome<Self> {
        let canonical = root
            .canonicalize()
            .map_err(|error| Failure::file("serve", root, &error))?;
        if !canonical.is_dir() {
            return Err(Failure::new(format!(
                "cannot serve {}: not a directory",
                root.display()
            )));
        }
        std::fs::read_dir(&canonical).map_err(|error| Failure::file("serve", root, &error))?;
        Ok(Self {
            root: canonical.into(),
            hidden,
            listing,
            places: Arc::new(Semaphore::new(max_open.clamp(1, Semaphore::MAX_PERMITS))),
        })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Looks a request path up. Blocks on the disk.
    pub(crate) fn find(&self, request_path: &str) -> Result<Found, NoFile> {
        let segments = segments(request_path)?;
        if !self.hidden && segments.iter().any(|segment| is_hidden(segment)) {
            return Err(NoFile::NotFound);
        }
        let wants_directory = ends_in_slash(request_path);
        let mut path = self.root.to_path_buf();
        path.extend(&segments);
        let (canonical, metadata) = self.inside(&path)?;
        if canonical != path {
            self.stays_inside(&segments)?;
        }
        let path = canonical;
        if metadata.is_dir() {
            if !wants_directory {
                return Ok(Found::Redirect(format!("{}/", encode(&segments))));
            }
            return self.directory(&path, &segments);
        }
        if !metadata.is_file() || wants_directory {
            return Err(NoFile::NotFound);
        }
        self.open(path).map(Found::File)
    }

    /// Refuses a way that leaves the root by a link, even if it comes back: what answers differ
    /// by would tell what there is outside.
    fn stays_inside(&self, segments: &[String]) -> Result<(), NoFile> {
        let mut path = self.root.to_path_buf();
        for segment in segments {
            path.push(segment);
            self.inside(&path)?;
        }
        Ok(())
    }

    /// Follows links and refuses what ends outside of the root.
    fn inside(&self, path: &Path) -> Result<(PathBuf, Metadata), NoFile> {
        let canonical = path.canonicalize().map_err(|error| refuse(&error))?;
        if !canonical.starts_with(&self.root) {
            return Err(NoFile::NotFound);
        }
        let metadata = canonical
            .symlink_metadata()
            .map_err(|error| refuse(&error))?;
        Ok((canonical, metadata))
    }

    fn open(&self, path: PathBuf) -> Result<OpenFile, NoFile> {
        let place = Arc::clone(&self.places).try_acquire_owned();
        let place = place.map_err(|_| NoFile::Busy)?;
        let file = File::open(&path).map_err(|error| refuse(&error))?;
        let metadata = file.metadata().map_err(|error| refuse(&error))?;
        if !metadata.is_file() {
            return Err(NoFile::NotFound);
        }
        Ok(OpenFile {
            file: Held {
                file,
                _place: place,
            },
            path,
            len: metadata.len(),
            modified: metadata.modified().ok(),
        })
    }

    fn directory(&self, path: &Path, segments: &[String]) -> Result<Found, NoFile> {
        match self.inside(&path.join("index.html")) {
            Ok((index, metadata)) if metadata.is_file() => {
                return self.open(index).map(Found::File);
            }
            _ if self.listing => {}
            _ => return Err(NoFile::Forbidden),
        }
        // An open directory counts as an open file, which bounds the listings under way too.
        let _place = self.places.try_acquire().map_err(|_| NoFile::Busy)?;
        let mut entries = Vec::new();
        let mut truncated = false;
        for entry in std::fs::read_dir(path).map_err(|error| refuse(&error))? {
            let Ok(entry) = entry else { continue };
            // Names that are not UTF-8 could be shown but not linked to.
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            if !self.hidden && is_hidden(&name) {
                continue;
            }
            if entries.len() == MAX_LISTED {
                truncated = true;
                break;
            }
            // What is neither file nor directory would not be served.
            let Ok(metadata) = self.listed(&entry) else {
                continue;
            };
            if !metadata.is_dir() && !metadata.is_file() {
                continue;
            }
            entries.push(Entry {
                name,
                directory: metadata.is_dir(),
                len: metadata.len(),
                modified: metadata.modified().ok(),
            });
        }
        entries.sort_by(|a, b| (!a.directory, &a.name).cmp(&(!b.directory, &b.name)));
        let mut path = String::from("/");
        for segment in segments {
            path.push_str(segment);
            path.push('/');
        }
        Ok(Found::Listing {
            path,
            entries,
            truncated,
        })
    }

    /// What an entry of a directory inside of the root is. Links are shown as what they lead to,
    /// and not at all if that is outside; only they need a way to be followed, which costs several
    /// times as much as all the rest.
    fn listed(&self, entry: &DirEntry) -> Result<Metadata, NoFile> {
        match entry.file_type() {
            Ok(kind) if !kind.is_symlink() => entry.metadata().map_err(|error| refuse(&error)),
            _ => self.inside(&entry.path()).map(|(_, metadata)| metadata),
        }
    }
}

fn refuse(error: &io::Error) -> NoFile {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => NoFile::NotFound,
        // Links that lead in a circle. The kind for it is not stable yet.
        _ if error.raw_os_error() == Some(TOO_MANY_LINKS) => NoFile::NotFound,
        io::ErrorKind::PermissionDenied => NoFile::Forbidden,
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidFilename => NoFile::BadPath,
        _ => NoFile::Failed,
    }
}

fn path_only(request_path: &str) -> &str {
    request_path.split(['?', '#']).next().unwrap_or_default()
}

fn ends_in_slash(request_path: &str) -> bool {
    path_only(request_path).ends_with('/')
}

/// The decoded segments of a request path. Empty ones are left out; those that could climb or
/// name something else than one file name are refused.
fn segments(request_path: &str) -> Result<Vec<String>, NoFile> {
    let path = path_only(request_path);
    if path.len() > MAX_PATH_BYTES || !path.starts_with('/') {
        return Err(NoFile::BadPath);
    }
    let mut segments = Vec::new();
    for segment in path.split('/').filter(|segment| !segment.is_empty()) {
        let segment = percent_decode_str(segment)
            .decode_utf8()
            .map_err(|_| NoFile::BadPath)?;
        let climbs = matches!(&*segment, "." | "..");
        let odd = |c| matches!(c, '/' | '\0') || (cfg!(windows) && matches!(c, '\\' | ':'));
        if climbs || segment.is_empty() || segment.contains(odd) {
            return Err(NoFile::BadPath);
        }
        segments.push(segment.into_owned());
    }
    Ok(segments)
}

/// Starts with a dot; `.well-known` is there to be found (RFC 8615).
fn is_hidden(name: &str) -> bool {
    name.starts_with('.') && name != ".well-known"
}

/// A request path of these segments, without a final slash.
fn encode(segments: &[String]) -> String {
    let mut path = String::new();
    for segment in segments {
        path.push('/');
        path.push_str(&encode_segment(segment));
    }
    path
}

/// A name as it stands in a URL.
pub(crate) fn encode_segment(segment: &str) -> String {
    use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
    /// RFC 3986 s2.3.
    const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC
        .remove(b'-')
        .remove(b'.')
        .remove(b'_')
        .remove(b'~');
    utf8_percent_encode(segment, UNRESERVED).to_string()
}

/// Reads a part of a file piece by piece.
#[derive(Debug)]
pub(crate) struct Pieces {
    file: Held,
    left: u64,
}

impl Pieces {
    /// `len` bytes from `offset` on.
    pub(crate) fn new(mut file: Held, offset: u64, len: u64) -> io::Result<Self> {
        if offset > 0 {
            file.file.seek(SeekFrom::Start(offset))?;
        }
        Ok(Self { file, left: len })
    }

    /// Bytes that are still to be read.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// The next piece, `None` at the end. Blocks on the disk.
    ///
    /// A file that became shorter meanwhile is an error.
    pub(crate) fn next(&mut self) -> io::Result<Option<Bytes>> {
        if self.left == 0 {
            return Ok(None);
        }
        let want = usize::try_from(self.left)
            .unwrap_or(usize::MAX)
            .min(READ_BYTES);
        let mut buffer = BytesMut::zeroed(want);
        let mut filled = 0;
        while let Some(room) = buffer.get_mut(filled..).filter(|room| !room.is_empty()) {
            match self.file.file.read(room) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.left -= want as u64;
        Ok(Some(buffer.freeze()))
    }

    /// The next piece, read away from the network's threads; gives the reader back with it.
    pub(crate) async fn read(mut self) -> io::Result<(Self, Option<Bytes>)> {
        if self.left == 0 {
            return Ok((self, None));
        }
        let read = tokio::task::spawn_blocking(move || {
            let piece = self.next()?;
            Ok((self, piece))
        });
        // It cannot panic; it is cancelled when the program ends.
        read.await
            .unwrap_or_else(|error| Err(io::Error::other(error)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_climb_or_confuse_are_refused() {
        for bad in [
            "",
            "a",
            "..",
            "/..",
            "/../etc/passwd",
            "/a/../../b",
            "/%2e%2e/x",
            "/%2E./x",
            "/a%2f..%2fb",
            "/a%00b",
            "/.",
            "/a/%2e",
            "/%ff",
            "*",
        ] {
            assert_eq!(segments(bad), Err(NoFile::BadPath), "{bad}");
        }
        let long = format!("/{}", "a".repeat(MAX_PATH_BYTES));
        assert_eq!(segments(&long), Err(NoFile::BadPath));
    }

    #[test]
    fn good_paths_are_decoded() {
        let of = |path| segments(path).unwrap();
        assert!(of("/").is_empty());
        assert_eq!(of("/a%20b//c?x=/../y#z"), ["a b", "c"]);
        assert_eq!(of("/...").len(), 1);
        assert_eq!(encode(&of("/a%20b/%c3%a4")), "/a%20b/%C3%A4");
        // No way to make a redirect to another host.
        assert_eq!(encode(&of("//evil.example/")), "/evil.example");
    }
}
