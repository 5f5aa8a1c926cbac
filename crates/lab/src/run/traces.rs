//! Traces of one cell: qlog of its connections, packets of its first link, keys.
//!
//! Owns: [`Traces`], which files there are and what they are called. Does not own: which cells are
//! traced (`campaign`), the formats (`capture`, the transport's qlog, `KeyLines`).

use std::{
    cell::RefCell,
    fs::{self, File},
    io::{self, BufWriter},
    path::{Path, PathBuf},
    rc::Rc,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use tautline_sim::tls::KeyLines;
use tautline_transport::observe::{ConnectionInfo, QlogFactory, QlogWriter, SharedSinkFactory};

use super::{Capture, Stage};
use crate::stack::Watch;

/// What of a cell is written down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// A qlog trace of each end of each connection whose stack writes one.
    pub qlog: bool,
    /// `packets.pcap`, the packets of both directions of the first link as they reach it, and
    /// `keys.log`, the secrets of clients.
    pub packets: bool,
}

impl Wanted {
    /// Whether it is anything.
    pub fn is_any(self) -> bool {
        self.qlog || self.packets
    }
}

/// A trace that cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("{path} cannot be written: {source}")]
pub struct TraceError {
    /// The file or folder.
    pub path: PathBuf,
    /// Why.
    pub source: io::Error,
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> TraceError {
    let path = path.to_owned();
    move |source| TraceError { path, source }
}

/// The qlog traces of a cell as they are opened, by whichever connection comes.
#[derive(Debug, Default)]
struct Opened {
    number: AtomicUsize,
    failed: Mutex<Option<TraceError>>,
}

/// The traces of one cell while it plays. They change nothing about what is played.
#[derive(Debug)]
pub struct Traces {
    folder: PathBuf,
    wanted: Wanted,
    opened: Arc<Opened>,
    keys: Arc<KeyLines>,
    capture: Option<Rc<RefCell<Capture<BufWriter<File>>>>>,
}

impl Traces {
    /// Traces into this folder, which is made.
    ///
    /// # Errors
    /// When the folder cannot be made, or the capture not begun.
    pub fn into_folder(folder: &Path, wanted: Wanted) -> Result<Self, TraceError> {
        fs::create_dir_all(folder).map_err(at(folder))?;
        let capture = match wanted.packets {
            true => {
                let path = packets(folder);
                let capture =
                    File::create(&path).and_then(|file| Capture::new(BufWriter::new(file)));
                Some(Rc::new(RefCell::new(capture.map_err(at(&path))?)))
            }
            false => None,
        };
        Ok(Self {
            folder: folder.to_owned(),
            wanted,
            opened: Arc::default(),
            keys: Arc::default(),
            capture,
        })
    }

    /// What the stage is to be built with.
    pub fn watch(&self) -> Watch {
        Watch {
            observer: self.wanted.qlog.then(|| self.qlog()),
            keys: self.wanted.packets.then(|| Arc::clone(&self.keys)),
        }
    }

    /// Looks on while the stage plays.
    pub fn attach(&self, stage: &mut Stage) {
        if let Some(capture) = &self.capture {
            stage.capture(capture);
        }
    }

    /// Writes the rest, after the stage is gone. Returns how many qlog traces there are.
    ///
    /// # Errors
    /// The first thing that could not be written.
    pub fn finish(self) -> Result<usize, TraceError> {
        if let Some(capture) = &self.capture {
            let finished = capture.borrow_mut().finish();
            finished.map_err(at(&packets(&self.folder)))?;
            let path = self.folder.join("keys.log");
            fs::write(&path, self.keys.text()).map_err(at(&path))?;
        }
        let failed = self.opened.failed.lock();
        match failed.unwrap_or_else(PoisonError::into_inner).take() {
            Some(error) => Err(error),
            None => Ok(self.opened.number.load(Ordering::Relaxed)),
        }
    }

    fn qlog(&self) -> SharedSinkFactory {
        let (folder, opened) = (self.folder.clone(), Arc::clone(&self.opened));
        let make = move |info: &ConnectionInfo| {
            let path = folder.join(QlogFactory::file_name(info));
            match File::create(&path) {
                Ok(file) => {
                    opened.number.fetch_add(1, Ordering::Relaxed);
                    Some(Box::new(file) as QlogWriter)
                }
                Err(error) => {
                    let mut failed = opened.failed.lock().unwrap_or_else(PoisonError::into_inner);
                    failed.get_or_insert(at(&path)(error));
                    None
                }
            }
        };
        Arc::new(QlogFactory::new(make))
    }
}

/// Where packets are written.
pub fn packets(folder: &Path) -> PathBuf {
    folder.join("packets.pcap")
}
