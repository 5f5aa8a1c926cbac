//! What can be wrong, told apart by who can do something about it.

use core::fmt;

use crate::code::CodingWindow;

/// The code has no such repair symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CodeError {
    /// The window has no symbols.
    EmptyWindow,
    /// The code's windows are shorter.
    WindowTooLong {
        /// Symbols asked for.
        len: usize,
        /// The most there can be.
        max: usize,
    },
    /// The code has no repair symbol with this key.
    KeyTooLarge {
        /// The key asked for. Of several repair symbols, one that does not exist, or the first if
        /// keys run out at [`u32::MAX`].
        key: u32,
        /// The largest that could stand there, for this window.
        max: u32,
    },
}

/// Why limits cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LimitsError {
    /// `window_symbols` is 0 or above [`Limits::MAX_WINDOW`](crate::Limits::MAX_WINDOW).
    Window(u16),
    /// `symbol_bytes` is 0.
    SymbolBytes,
    /// `equations` is 0.
    Equations,
}

/// Why the encoder cannot do what it was asked: the caller's mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EncodeError {
    /// The source symbol is longer than the limit.
    SymbolTooLong {
        /// Its bytes.
        len: usize,
        /// The limit.
        max: usize,
    },
    /// All symbol IDs are used up.
    IdsExhausted,
    /// Some symbol of the window is not, or no longer, held.
    NotHeld {
        /// The window asked for.
        asked: CodingWindow,
        /// The window held.
        held: CodingWindow,
    },
    /// The output cannot hold the repair symbol.
    OutputTooShort {
        /// Bytes needed.
        needed: usize,
        /// Bytes there.
        len: usize,
    },
    /// The code has no such repair symbol.
    Code(CodeError),
}

/// Why the decoder does not take what it was given: the sender's mistake.
///
/// Nothing is changed by a symbol that is refused, except by one that turns out to be garbage
/// ([`Self::Garbage`]): what else it gave is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeError {
    /// The source symbol is longer than the limit.
    SymbolTooLong {
        /// Its bytes.
        len: usize,
        /// The limit.
        max: usize,
    },
    /// The repair symbol is shorter than the shortest, or longer than the longest, that symbols
    /// within the limit can give.
    RepairLength {
        /// Its bytes.
        len: usize,
        /// The least there must be.
        min: usize,
        /// The most there can be.
        max: usize,
    },
    /// The ID is above [`MAX_SYMBOL_ID`](crate::MAX_SYMBOL_ID).
    IdTooLarge(u64),
    /// The coding window is longer than the decoder's window.
    WindowTooLong {
        /// Symbols of the coding window.
        len: u16,
        /// Symbols of the decoder's window.
        max: u16,
    },
    /// A source symbol of the window is longer than the repair symbol that claims to cover it.
    LongerThanRepair {
        /// The source symbol's ID.
        id: u64,
    },
    /// What was rebuilt is no symbol: its length does not fit or its padding is not zero. Some
    /// repair symbol was wrong; the symbol stays missing.
    Garbage {
        /// The symbol's ID; the first, if there are several.
        id: u64,
    },
    /// The code has no such repair symbol.
    Code(CodeError),
}

impl From<CodeError> for EncodeError {
    fn from(error: CodeError) -> Self {
        Self::Code(error)
    }
}

impl From<CodeError> for DecodeError {
    fn from(error: CodeError) -> Self {
        Self::Code(error)
    }
}

impl fmt::Display for CodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmptyWindow => write!(f, "coding window without symbols"),
            Self::WindowTooLong { len, max } => {
                write!(
                    f,
                    "coding window of {len} symbols, the code has {max} at most"
                )
            }
            Self::KeyTooLarge { key, max } => {
                write!(f, "repair key {key}, the largest for this window is {max}")
            }
        }
    }
}

impl fmt::Display for LimitsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Window(len) => write!(
                f,
                "window_symbols is {len}, must be in 1..={}",
                crate::Limits::MAX_WINDOW
            ),
            Self::SymbolBytes => write!(f, "symbol_bytes is 0"),
            Self::Equations => write!(f, "equations is 0"),
        }
    }
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SymbolTooLong { len, max } => {
                write!(f, "source symbol of {len} bytes, limit {max}")
            }
            Self::IdsExhausted => write!(f, "symbol IDs exhausted"),
            Self::NotHeld { asked, held } => write!(
                f,
                "coding window {:?} reaches outside the symbols held, {:?}",
                asked.ids(),
                held.ids()
            ),
            Self::OutputTooShort { needed, len } => {
                write!(f, "output of {len} bytes, the repair symbol has {needed}")
            }
            Self::Code(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SymbolTooLong { len, max } => {
                write!(f, "source symbol of {len} bytes, limit {max}")
            }
            Self::RepairLength { len, min, max } => {
                write!(f, "repair symbol of {len} bytes, must be in {min}..={max}")
            }
            Self::IdTooLarge(id) => write!(f, "symbol ID {id} above 2^62 - 1"),
            Self::WindowTooLong { len, max } => {
                write!(f, "coding window of {len} symbols, the decoder holds {max}")
            }
            Self::LongerThanRepair { id } => {
                write!(
                    f,
                    "source symbol {id} is longer than a repair symbol over it"
                )
            }
            Self::Garbage { id } => write!(f, "symbol {id} rebuilt from repair symbols is garbage"),
            Self::Code(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for CodeError {}
impl core::error::Error for LimitsError {}
impl core::error::Error for EncodeError {}
impl core::error::Error for DecodeError {}
