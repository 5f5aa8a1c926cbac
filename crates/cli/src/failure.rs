//! How the program fails: one sentence that says what and what to do, and an exit code.

use std::{fmt, io, path::Path, process::ExitCode};

use tautline::{
    BindError, ConnectError, ConnectHostError, ConnectionError, HandshakeError, tls::TlsError,
};

/// Why the program ends without success.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    sentence: String,
    code: u8,
}

/// What a subcommand returns.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// A failure with this sentence, which starts small and ends without a full stop.
    pub(crate) fn new(sentence: impl Into<String>) -> Self {
        Self {
            sentence: sentence.into(),
            code: 1,
        }
    }

    /// The interop runner's "this test is not for me".
    pub(crate) fn unsupported(sentence: impl Into<String>) -> Self {
        Self {
            sentence: sentence.into(),
            code: 127,
        }
    }

    /// The user ended the program; the code is what shells report for SIGINT.
    pub(crate) fn interrupted(sentence: impl Into<String>) -> Self {
        Self {
            sentence: sentence.into(),
            code: 130,
        }
    }

    /// The file system would not let us.
    pub(crate) fn file(doing: &str, path: &Path, error: &io::Error) -> Self {
        let path = path.display();
        Self::new(match error.kind() {
            io::ErrorKind::NotFound => format!("cannot {doing} {path}: no such file or directory"),
            io::ErrorKind::PermissionDenied => format!("cannot {doing} {path}: permission denied"),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                format!("cannot {doing} {path}: the disk is full")
            }
            io::ErrorKind::ReadOnlyFilesystem => {
                format!("cannot {doing} {path}: the file system is read-only")
            }
            _ => format!("cannot {doing} {path}: {error}"),
        })
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code)
    }

    /// The same failure, with a clause behind it.
    pub(crate) fn then(mut self, clause: impl fmt::Display) -> Self {
        self.sentence = format!("{}; {clause}", self.sentence);
        self
    }

    /// The same failure, with where it happened in front.
    pub(crate) fn at(mut self, place: impl fmt::Display) -> Self {
        self.sentence = format!("{place}: {}", self.sentence);
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

macro_rules! from {
    ($($error:ty),*) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::new(error.to_string())
            }
        }
    )*};
}

from!(
    io::Error,
    BindError,
    ConnectError,
    ConnectHostError,
    ConnectionError,
    HandshakeError,
    TlsError,
    tautline::WriteError,
    tautline::ReadError
);
