//! Files under way: `NAME.part`, with a note beside it that makes resuming safe.
//!
//! Owns: the part file, `NAME.part.note` (URL and entity tag of what the part is a part of),
//! checksum, the final rename. Devices, pipes and standard output are written to straight.
//! Does not own: the network.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use bytes::Bytes;
use tokio::{task::spawn_blocking, time::Instant};

use crate::{
    checksum::{Digest, Hasher},
    failure::{Failure, Outcome},
};

/// Bytes gathered before they go to the disk in one step,
const BATCH_BYTES: usize = 1 << 20;
/// or the time, on slow links: what is not there when the machine stops must be fetched again.
const BATCH_TIME: Duration = Duration::from_secs(1);

/// Where a download goes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Out {
    File(PathBuf),
    Stdout,
}

/// Where the bytes of a download are put while it runs.
enum Place {
    /// A file of this name, at the end.
    File(PathBuf),
    /// Something that takes bytes as they come and keeps none for us, named for people.
    Straight(String),
}

/// A download under way.
pub(crate) struct Part {
    place: Place,
    /// `None` only while a batch is being written.
    sink: Option<Sink>,
    pending: Vec<Bytes>,
    pending_bytes: usize,
    /// When the first of the gathered bytes came.
    pending_since: Option<Instant>,
    received: u64,
}

struct Sink {
    to: Writer,
    hasher: Hasher,
}

enum Writer {
    File(File),
    Straight(Box<dyn Write + Send>),
}

/// What an earlier attempt left.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Resume {
    pub(crate) offset: u64,
    pub(crate) etag: String,
}

/// What stands at a path.
enum Kind {
    /// A regular file, or nothing yet; symbolic links are followed, so that they stay.
    File(PathBuf),
    /// A device, a pipe, a socket: what must be written to, never replaced.
    Straight,
}

fn kind(path: &Path) -> Outcome<Kind> {
    let Ok(there) = fs::metadata(path) else {
        return Ok(Kind::File(path.to_owned()));
    };
    if there.is_dir() {
        return Err(Failure::new(format!(
            "cannot write {}: it is a directory",
            path.display()
        )));
    }
    if !there.is_file() {
        return Ok(Kind::Straight);
    }
    Ok(Kind::File(
        fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()),
    ))
}

/// `name` with `suffix` at its end.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

fn part_path(path: &Path) -> PathBuf {
    beside(path, ".part")
}

fn note_path(path: &Path) -> PathBuf {
    beside(path, ".part.note")
}

impl Part {
    /// Starts, or goes on where an earlier attempt at the same URL stopped.
    pub(crate) async fn open(out: Out, url: &str) -> Outcome<(Self, Option<Resume>)> {
        let url = url.to_owned();
        blocking(move || Self::open_now(out, &url)).await
    }

    fn open_now(out: Out, url: &str) -> Outcome<(Self, Option<Resume>)> {
        let mut hasher = Hasher::new();
        let (place, to, resume) = match out {
            Out::Stdout => (
                Place::Straight("to standard output".to_owned()),
                Writer::Straight(Box::new(io::stdout())),
                None,
            ),
            Out::File(path) => match kind(&path)? {
                Kind::Straight => {
                    let opened = OpenOptions::new().write(true).open(&path);
                    let to = opened.map_err(|error| Failure::file("write", &path, &error))?;
                    let name = path.display().to_string();
                    (Place::Straight(name), Writer::Straight(Box::new(to)), None)
                }
                Kind::File(path) => {
                    let part = part_path(&path);
                    let mut options = OpenOptions::new();
                    let opened = options.read(true).write(true).create(true).truncate(false);
                    let mut file = opened
                        .open(&part)
                        .map_err(|error| Failure::file("write", &part, &error))?;
                    // Released when the file is closed.
                    if let Err(TryLockError::WouldBlock) = file.try_lock() {
                        return Err(Failure::new(format!(
                            "cannot write {}: another download is writing it",
                            part.display()
                        )));
                    }
                    let resume = left_over(&mut file, &path, url, &mut hasher);
                    let resume = resume.map_err(|error| Failure::file("read", &part, &error))?;
                    (Place::File(path), Writer::File(file), resume)
                }
            },
        };
        let received = resume.as_ref().map_or(0, |resume| resume.offset);
        let sink = Some(Sink { to, hasher });
        Ok((
            Self {
                place,
                sink,
                pending: Vec::new(),
                pending_bytes: 0,
                pending_since: None,
                received,
            },
            resume,
        ))
    }

    /// Bytes there are, earlier attempts included.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    fn fail(&self, error: &io::Error) -> Failure {
        match &self.place {
            Place::File(path) => Failure::file("write", &part_path(path), error),
            Place::Straight(name) => Failure::new(format!("cannot write {name}: {error}")),
        }
    }

    /// The file is now this version of `url`; it can be resumed if the version has a strong tag.
    pub(crate) async fn remember(&mut self, url: &str, etag: Option<&str>) -> Outcome {
        let Place::File(path) = &self.place else {
            return Ok(());
        };
        let note = note_path(path);
        let text = etag
            .filter(|etag| etag.starts_with('"'))
            .map(|etag| format!("{url}\n{etag}\n"));
        blocking(move || match text {
            Some(text) => {
                fs::write(&note, text).map_err(|error| Failure::file("write", &note, &error))
            }
            None => {
                // Usually there was none.
                let _ = fs::remove_file(&note);
                Ok(())
            }
        })
        .await
    }

    /// Forgets what was received.
    pub(crate) async fn restart(&mut self) -> Outcome {
        self.pending.clear();
        self.pending_bytes = 0;
        self.pending_since = None;
        self.received = 0;
        self.with_sink(|sink| {
            sink.hasher = Hasher::new();
            match &mut sink.to {
                Writer::File(file) => {
                    file.set_len(0)?;
                    file.seek(SeekFrom::Start(0)).map(drop)
                }
                Writer::Straight(_) => Ok(()),
            }
        })
        .await
    }

    /// Takes the next bytes.
    pub(crate) async fn write(&mut self, bytes: Bytes) -> Outcome {
        self.pending_bytes += bytes.len();
        self.received += bytes.len() as u64;
        self.pending.push(bytes);
        let since = *self.pending_since.get_or_insert_with(Instant::now);
        if self.pending_bytes >= BATCH_BYTES || since.elapsed() >= BATCH_TIME {
            self.flush().await
        } else {
            Ok(())
        }
    }

    /// Brings everything to the disk.
    pub(crate) async fn flush(&mut self) -> Outcome {
        let batch = std::mem::take(&mut self.pending);
        self.pending_bytes = 0;
        self.pending_since = None;
        self.with_sink(move |sink| {
            for bytes in &batch {
                sink.hasher.update(bytes);
                match &mut sink.to {
                    Writer::File(file) => file.write_all(bytes)?,
                    Writer::Straight(to) => to.write_all(bytes)?,
                }
            }
            match &mut sink.to {
                Writer::File(_) => Ok(()),
                Writer::Straight(to) => to.flush(),
            }
        })
        .await
    }

    async fn with_sink(
        &mut self,
        act: impl FnOnce(&mut Sink) -> io::Result<()> + Send + 'static,
    ) -> Outcome {
        let Some(mut sink) = self.sink.take() else {
            return Err(Failure::new("the download was given up"));
        };
        let (sink, done) = blocking(move || {
            let done = act(&mut sink);
            Ok((sink, done))
        })
        .await?;
        self.sink = Some(sink);
        done.map_err(|error| self.fail(&error))
    }

    /// Everything is there: checks it and gives it its name.
    pub(crate) async fn finish(mut self, expected: Option<Digest>) -> Outcome<Digest> {
        self.flush().await?;
        let Some(sink) = self.sink.take() else {
            return Err(Failure::new("the download was given up"));
        };
        let digest = sink.hasher.finish();
        let wrong = expected.filter(|expected| *expected != digest);
        if let Place::File(path) = self.place {
            blocking(move || {
                let part = part_path(&path);
                if wrong.is_some() {
                    // What is wrong cannot be resumed either.
                    let _ = fs::remove_file(&part);
                } else {
                    let renamed = fs::rename(&part, &path);
                    renamed.map_err(|error| Failure::file("write", &path, &error))?;
                }
                let _ = fs::remove_file(note_path(&path));
                Ok(())
            })
            .await?;
        }
        match wrong {
            Some(expected) => Err(Failure::new(format!(
                "wrong content: its SHA-256 is {digest}, not {expected}; nothing was kept"
            ))),
            None => Ok(digest),
        }
    }

    /// The download broke: saves what there is, and tells whether it can be resumed.
    pub(crate) async fn give_up(mut self) -> bool {
        let saved = self.flush().await.is_ok();
        let Place::File(path) = &self.place else {
            return false;
        };
        if self.received == 0 {
            let _ = fs::remove_file(part_path(path));
            let _ = fs::remove_file(note_path(path));
        }
        saved && self.received > 0 && note_path(path).exists()
    }
}

/// What the part holds, if it is known to be a part of `url`; the file is at its end then.
fn left_over(
    file: &mut File,
    path: &Path,
    url: &str,
    hasher: &mut Hasher,
) -> io::Result<Option<Resume>> {
    let etag = fs::read_to_string(note_path(path)).ok().and_then(|note| {
        let mut lines = note.lines();
        (lines.next() == Some(url)).then(|| lines.next().map(str::to_owned))?
    });
    if let Some(etag) = etag {
        let offset = hasher.update_from(&mut *file)?;
        if offset > 0 {
            return Ok(Some(Resume { offset, etag }));
        }
    }
    file.set_len(0)?;
    file.seek(SeekFrom::Start(0))?;
    Ok(None)
}

/// Runs disk work away from the network's threads.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Outcome<T> + Send + 'static,
) -> Outcome<T> {
    // It cannot panic; it is cancelled when the program ends.
    spawn_blocking(work)
        .await
        .unwrap_or_else(|error| Err(Failure::new(error.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_broken_download_resumes_and_ends_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let out = Out::File(path.clone());
        let (mut part, resume) = Part::open(out.clone(), "u").await.unwrap();
        assert_eq!(resume, None);
        part.remember("u", Some("\"1\"")).await.unwrap();
        part.write(Bytes::from_static(b"abc")).await.unwrap();
        assert!(part.give_up().await);

        // Another URL must not go on with it...
        let (other, resume) = Part::open(out.clone(), "v").await.unwrap();
        assert_eq!(resume, None);
        drop(other);
        fs::write(part_path(&path), "abc").unwrap();
        // ...but the same one does.
        let (mut part, resume) = Part::open(out.clone(), "u").await.unwrap();
        assert_eq!(
            resume,
            Some(Resume {
                offset: 3,
                etag: "\"1\"".into()
            })
        );
        part.write(Bytes::from_static(b"def")).await.unwrap();
        let digest = part.finish(None).await.unwrap();
        let mut hasher = Hasher::new();
        hasher.update(b"abcdef");
        assert_eq!(digest, hasher.finish());
        assert_eq!(fs::read(&path).unwrap(), b"abcdef");
        assert!(!part_path(&path).exists() && !note_path(&path).exists());
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn links_and_pipes_stay_what_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let (real, link) = (dir.path().join("real"), dir.path().join("link"));
        fs::write(&real, "old").unwrap();
        std::os::unix::fs::symlink("real", &link).unwrap();
        let (mut part, _) = Part::open(Out::File(link.clone()), "u").await.unwrap();
        part.write(Bytes::from_static(b"new")).await.unwrap();
        part.finish(None).await.unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&real).unwrap(), b"new");

        let pipe = dir.path().join("pipe");
        // Not by a program: until it runs, it would hold the locks of other tests' files.
        let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, kind, mode, 0).unwrap();
        let reader = spawn_blocking({
            let pipe = pipe.clone();
            move || fs::read(pipe).unwrap()
        });
        let (mut part, resume) = Part::open(Out::File(pipe.clone()), "u").await.unwrap();
        assert_eq!(resume, None);
        part.remember("u", Some("\"1\"")).await.unwrap();
        part.write(Bytes::from_static(b"through")).await.unwrap();
        part.finish(None).await.unwrap();
        assert_eq!(reader.await.unwrap(), b"through");
        use std::os::unix::fs::FileTypeExt;
        assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
        let names = fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(names, 3, "neither part nor note is left");
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_full_device_is_an_error() {
        let full = Out::File("/dev/full".into());
        let (mut part, _) = Part::open(full, "u").await.unwrap();
        part.write(Bytes::from_static(b"x")).await.unwrap();
        let said = part.finish(None).await.unwrap_err().to_string();
        assert!(said.contains("/dev/full"), "{said}");
        use std::os::unix::fs::FileTypeExt;
        let there = fs::metadata("/dev/full").unwrap();
        assert!(there.file_type().is_char_device());
    }

    #[tokio::test]
    async fn wrong_content_is_not_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let (mut part, _) = Part::open(Out::File(path.clone()), "u").await.unwrap();
        part.write(Bytes::from_static(b"x")).await.unwrap();
        let expected = Hasher::new().finish();
        assert!(part.finish(Some(expected)).await.is_err());
        assert!(!path.exists() && !part_path(&path).exists());
    }
}
