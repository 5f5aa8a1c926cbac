//! Name to redundancy scheduler: the CLI, plans and configuration pick by these names.

use std::{sync::Arc, time::Duration};

use super::{
    Constant, Occasion, Quirl, RedundancyFactory, RedundancyScheduler, RedundancyView, Repairs,
    SharedRedundancyFactory,
};

/// The name of the scheduler that protects nothing.
pub const NONE: &str = "none";

/// Why a scheduler cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RedundancyError {
    /// No scheduler has this name.
    #[error("no redundancy scheduler is called {0:?}; there are: {known}", known = names().collect::<Vec<_>>().join(", "))]
    Unknown(String),
    /// The scheduler does not take these options.
    #[error("{name} does not take {given:?}; give it as {usage}")]
    Options {
        /// The scheduler.
        name: &'static str,
        /// What was written behind its name.
        given: String,
        /// What may be written.
        usage: &'static str,
    },
}

/// One built-in scheduler: its name, how it is written, and what reads its options.
struct BuiltIn {
    name: &'static str,
    usage: &'static str,
    parse: fn(&[u32]) -> Option<SharedRedundancyFactory>,
}

/// To add a scheduler, add its line here.
const BUILT_IN: [BuiltIn; 4] = [
    BuiltIn {
        name: NONE,
        usage: "none",
        parse: |options| options.is_empty().then(none),
    },
    BuiltIn {
        name: Constant::NAME,
        usage: "constant:N,K or constant:N,K,C with 0 < K < N and C >= K",
        parse: |options| {
            let small: Option<Vec<u16>> = options.iter().map(|n| (*n).try_into().ok()).collect();
            let constant = match *small? {
                [] => Constant::new(25, 20, None),
                [n, k] => Constant::new(n, k, None),
                [n, k, c] => Constant::new(n, k, Some(c)),
                _ => None,
            };
            Some(Arc::new(constant?))
        },
    },
    BuiltIn {
        name: Quirl::OBJECT,
        usage: "quirl-object",
        parse: |options| {
            let object: SharedRedundancyFactory = Arc::new(Quirl::object());
            options.is_empty().then_some(object)
        },
    },
    BuiltIn {
        name: Quirl::BURST,
        usage: "quirl-burst or quirl-burst:BYTES,MILLISECONDS (burst size, jitter)",
        parse: |options| {
            let (bytes, jitter) = match *options {
                [] => (0, 0),
                [bytes, jitter] => (bytes, jitter),
                _ => return None,
            };
            let jitter = Duration::from_millis(u64::from(jitter));
            Some(Arc::new(Quirl::burst(bytes, jitter)))
        },
    },
];

/// The scheduler that protects nothing, and leaves the extension out of the handshake.
pub fn none() -> SharedRedundancyFactory {
    Arc::new(Nothing)
}

/// The scheduler that this describes: a name, or a name, a colon and numbers with commas between.
///
/// # Errors
/// [`RedundancyError`].
pub fn parse(text: &str) -> Result<SharedRedundancyFactory, RedundancyError> {
    let (name, options) = text.split_once(':').unwrap_or((text, ""));
    let Some(built_in) = BUILT_IN.iter().find(|built_in| built_in.name == name) else {
        return Err(RedundancyError::Unknown(name.to_owned()));
    };
    let numbers: Result<Vec<u32>, _> = match options {
        "" => Ok(Vec::new()),
        _ => options.split(',').map(|n| n.trim().parse()).collect(),
    };
    let factory = numbers.ok().and_then(|numbers| (built_in.parse)(&numbers));
    factory.ok_or_else(|| RedundancyError::Options {
        name: built_in.name,
        given: options.to_owned(),
        usage: built_in.usage,
    })
}

/// Every name that [`parse`] knows, the default first.
pub fn names() -> impl Iterator<Item = &'static str> {
    BUILT_IN.iter().map(|built_in| built_in.name)
}

/// `none`.
#[derive(Debug)]
struct Nothing;

impl RedundancyScheduler for Nothing {
    fn name(&self) -> &'static str {
        NONE
    }

    fn protects(&self, _view: &RedundancyView) -> bool {
        false
    }

    fn ask(&mut self, _occasion: Occasion, _view: &RedundancyView) -> Repairs {
        Repairs::NONE
    }
}

impl RedundancyFactory for Nothing {
    fn name(&self) -> &'static str {
        NONE
    }

    fn build(&self) -> Box<dyn RedundancyScheduler> {
        Box::new(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_options() {
        for text in [
            "none",
            "constant",
            "constant:25,20",
            "constant:3, 2, 20",
            "quirl-burst:5000,40",
        ] {
            let name = text.split(':').next();
            assert_eq!(parse(text).ok().map(|factory| factory.name()), name);
        }
        for name in names() {
            let factory = parse(name).unwrap();
            assert_eq!((factory.name(), factory.build().name()), (name, name));
        }
    }

    #[test]
    fn errors_say_what_would_do() {
        let error = parse("flec").unwrap_err().to_string();
        assert!(error.contains("none, constant"), "{error}");
        for text in [
            "constant:20",
            "constant:5,20",
            "constant:70000,2",
            "constant:a",
            "none:1",
            "quirl-object:1",
            "quirl-burst:1",
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains("give it as"), "{error}");
        }
    }
}
