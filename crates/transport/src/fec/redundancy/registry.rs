//! Name to redundancy scheduler: the CLI, plans and configuration pick by these names.

use std::{sync::Arc, time::Duration};

use super::{
    AcRlnc, Auto, Constant, Occasion, Quirl, RedundancyFactory, RedundancyScheduler,
    RedundancyView, Repairs, Rquic, SharedRedundancyFactory, Tail, flec,
    options::{Options, nearest},
    quirl,
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
    /// The scheduler has no option of this name.
    #[error("{name} has no option {given:?}; did you mean {nearest:?}? give it as {usage}")]
    Key {
        /// The scheduler.
        name: &'static str,
        /// What was written before the `=`.
        given: String,
        /// The option whose name is most like that.
        nearest: &'static str,
        /// What may be written.
        usage: &'static str,
    },
    /// An option does not take this value.
    #[error("{option} of {name} takes {takes}, not {given:?}; give it as {usage}")]
    Value {
        /// The scheduler.
        name: &'static str,
        /// The option.
        option: &'static str,
        /// What was written behind the `=`.
        given: String,
        /// What it takes, bounds included.
        takes: String,
        /// What may be written.
        usage: &'static str,
    },
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

/// Milliseconds that `quirl-burst` may wait: as many as a deadline of `flec-message` may have.
const MOST_JITTER: u32 = 60_000;

/// One built-in scheduler: its name, how it is written, the keys it knows, and what reads its
/// options.
struct BuiltIn {
    name: &'static str,
    usage: &'static str,
    keys: &'static [&'static str],
    parse: fn(&Options<'_>) -> Option<SharedRedundancyFactory>,
}

/// To add a scheduler, add its line here.
const BUILT_IN: [BuiltIn; 11] = [
    BuiltIn {
        name: NONE,
        usage: "none",
        keys: &[],
        parse: |options| options.is_empty().then(none),
    },
    BuiltIn {
        name: Constant::NAME,
        usage: "constant:N,K or constant:N,K,C with 0 < K < N, K <= C, all at most 65535, or constant alone for constant:25,20",
        keys: &[],
        parse: |options| {
            let options = options.places()?.iter();
            let small: Option<Vec<u16>> = options.map(|n| (*n).try_into().ok()).collect();
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
        name: Auto::NAME,
        usage: Auto::USAGE,
        keys: Auto::KEYS,
        parse: |options| Some(Arc::new(Auto::parse(options)?)),
    },
    BuiltIn {
        name: Quirl::OBJECT,
        usage: "quirl-object or quirl-object:beta=SHARE (of the packets in flight, at most: 0 to 1)",
        keys: &["beta"],
        parse: |options| {
            let beta = options.number("beta", quirl::BETA, 0.0..=1.0)?;
            let object: SharedRedundancyFactory = Arc::new(Quirl::object().with_beta(beta));
            options.are_by_key().then_some(object)
        },
    },
    BuiltIn {
        name: Quirl::BURST,
        usage: "quirl-burst, quirl-burst:BYTES,MS (burst size, up to 4294967295; jitter in milliseconds, up to 60000), \
                quirl-burst:beta=SHARE (of the packets in flight, at most: 0 to 1) or quirl-burst:BYTES,MS,beta=SHARE",
        keys: &["beta"],
        parse: |options| {
            let beta = options.number("beta", quirl::BETA, 0.0..=1.0)?;
            let (bytes, jitter) = match *options.before_keys() {
                [] => (0, 0),
                [bytes, jitter @ ..=MOST_JITTER] => (bytes, jitter),
                _ => return None,
            };
            let jitter = Duration::from_millis(u64::from(jitter));
            Some(Arc::new(Quirl::burst(bytes, jitter).with_beta(beta)))
        },
    },
    BuiltIn {
        name: Tail::NAME,
        usage: Tail::NAME,
        keys: &[],
        parse: |options| {
            let tail: SharedRedundancyFactory = Arc::new(Tail);
            options.is_empty().then_some(tail)
        },
    },
    BuiltIn {
        name: flec::Bulk::NAME,
        usage: flec::Bulk::USAGE,
        keys: flec::Bulk::KEYS,
        parse: |options| Some(Arc::new(flec::Bulk::parse(options)?)),
    },
    BuiltIn {
        name: flec::Buffer::NAME,
        usage: flec::Buffer::USAGE,
        keys: flec::Buffer::KEYS,
        parse: |options| Some(Arc::new(flec::Buffer::parse(options)?)),
    },
    BuiltIn {
        name: flec::Message::NAME,
        usage: flec::Message::USAGE,
        keys: flec::Message::KEYS,
        parse: |options| Some(Arc::new(flec::Message::parse(options)?)),
    },
    BuiltIn {
        name: AcRlnc::NAME,
        usage: AcRlnc::USAGE,
        keys: AcRlnc::KEYS,
        parse: |options| Some(Arc::new(AcRlnc::parse(options)?)),
    },
    BuiltIn {
        name: Rquic::NAME,
        usage: Rquic::USAGE,
        keys: Rquic::KEYS,
        parse: |options| Some(Arc::new(Rquic::parse(options)?)),
    },
];

/// The scheduler that protects nothing, and leaves the extension out of the handshake.
pub fn none() -> SharedRedundancyFactory {
    Arc::new(Nothing)
}

/// The scheduler that this describes: a name, or a name, a colon and its options with commas
/// between: numbers by their place, or `key=value` pairs.
///
/// # Errors
/// [`RedundancyError`].
pub fn parse(text: &str) -> Result<SharedRedundancyFactory, RedundancyError> {
    let (name, options) = text
        .split_once(':')
        .map_or((text, None), |(name, options)| (name, Some(options)));
    let given = options.unwrap_or_default();
    let Some(built_in) = BUILT_IN.iter().find(|built_in| built_in.name == name) else {
        return Err(RedundancyError::Unknown(name.to_owned()));
    };
    let (name, usage) = (built_in.name, built_in.usage);
    // A colon promises options.
    let is_cut = options.is_some() && given.trim().is_empty();
    let options = Options::parse(given).filter(|_| !is_cut);
    let unknown = options.as_ref().and_then(|o| o.unknown(built_in.keys));
    if let Some((key, nearest)) = unknown.and_then(|key| Some((key, nearest(key, built_in.keys)?)))
    {
        return Err(RedundancyError::Key {
            name,
            given: key.to_owned(),
            nearest,
            usage,
        });
    }
    let options = options.filter(|_| unknown.is_none());
    let factory = options.as_ref().and_then(built_in.parse);
    factory.ok_or_else(|| match options.as_ref().and_then(Options::refused) {
        Some(refused) => RedundancyError::Value {
            name,
            option: refused.key,
            given: refused.given.clone(),
            takes: refused.takes.clone(),
            usage,
        },
        None => RedundancyError::Options {
            name,
            given: given.to_owned(),
            usage,
        },
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
            "quirl-object:beta=0.1",
            "quirl-burst:5000,40",
            "quirl-burst:5000,40,beta=0.5",
            "quirl-burst:beta=0.5",
            "flec-bulk:fill-cwnd=on",
            "flec-buffer:c=0.5,aside=10",
            "flec-message:deadline=250,interval=33.3,api=off",
            "ac-rlnc:c=2",
            "rquic:initial=32,gamma=0.5,delta=20,periods=1,rtts=2,generation=63,overlap=4,redundancy=2,slow-start=off,tail=on",
        ] {
            let name = text.split(':').next();
            assert_eq!(parse(text).ok().map(|factory| factory.name()), name);
        }
        let [bare, written] = ["constant", "constant:25,20"].map(|text| parse(text).unwrap());
        assert_eq!(format!("{bare:?}"), format!("{written:?}"));
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
            "constant:",
            "auto: ",
            "constant:20",
            "constant:5,20",
            "constant:70000,2",
            "constant:a",
            "none:1",
            "quirl-object:1",
            "quirl-object:beta=2",
            "quirl-burst:1,beta=0.5",
            "quirl-burst:1,1:beta=0",
            "quirl-burst:1",
            "quirl-burst:bytes=1",
            "flec-bulk:1",
            "flec-bulk:fill-cwnd=yes",
            "flec-buffer:c=-1",
            "flec-message:deadline=0",
            "rquic:10",
            "rquic:gamma=101",
            "rquic:frobnicate=1",
            "auto:frobnicate=off",
            "rquic:initial=10,initial=10",
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains("give it as"), "{error}");
        }
        let error = parse("quirl-burst:1,1:beta=0").unwrap_err().to_string();
        assert!(error.contains("quirl-burst:BYTES,MS,beta=SHARE"), "{error}");
        let error = parse("rquic:intial=10").unwrap_err().to_string();
        assert!(error.contains("did you mean \"initial\""), "{error}");
    }

    /// Every option with a key: what lies at its bounds is taken, what lies beyond is refused, by name
    /// and with the bounds.
    #[test]
    fn bounds_are_named() {
        let numbers = [
            ("quirl-object", "beta", "0", "1"),
            ("quirl-burst", "beta", "0", "1"),
            ("flec-buffer", "c", "0", "100"),
            ("flec-buffer", "aside", "0", "100"),
            ("flec-message", "deadline", "0.001", "60000"),
            ("flec-message", "interval", "0.001", "60000"),
            ("flec-message", "epsilon", "0", "60000"),
            ("flec-message", "theta", "1", "100"),
            ("ac-rlnc", "c", "0", "100"),
            ("rquic", "initial", "2", "255"),
            ("rquic", "gamma", "0", "100"),
            ("rquic", "delta", "0", "99"),
            ("rquic", "periods", "1", "16"),
            ("rquic", "rtts", "0.1", "1000"),
            ("rquic", "generation", "2", "4095"),
            ("rquic", "overlap", "1", "64"),
            ("rquic", "redundancy", "1", "64"),
        ];
        let switches = [
            ("auto", "forecast"),
            ("auto", "bursts"),
            ("auto", "cost"),
            ("auto", "tail"),
            ("auto", "retry"),
            ("auto", "way"),
            ("auto", "start"),
            ("auto", "crowd"),
            ("auto", "trial"),
            ("auto", "spare"),
            ("auto", "strain"),
            ("auto", "waits"),
            ("auto", "toll"),
            ("auto", "vain"),
            ("flec-bulk", "fill-cwnd"),
            ("flec-message", "api"),
            ("rquic", "slow-start"),
            ("rquic", "tail"),
        ];
        let refused = |name: &str, key: &str, value: &str, takes: &str| {
            let text = format!("{name}:{key}={value}");
            let error = parse(&text).unwrap_err().to_string();
            let what = format!("{key} of {name} takes {takes}, not {value:?}; give it as {name}");
            assert!(error.starts_with(&what), "{error}");
        };
        for (name, key, least, most) in numbers {
            for value in [least, most] {
                assert!(parse(&format!("{name}:{key}={value}")).is_ok(), "{key}");
            }
            let whole = ["periods", "generation", "overlap", "redundancy"].contains(&key);
            let what = if whole { "a whole number" } else { "a number" };
            let takes = format!("{what} from {least} to {most}");
            let below = (least.parse::<f64>().unwrap() - 1.0).to_string();
            let above = (most.parse::<f64>().unwrap() + 1.0).to_string();
            for value in [&below, &above, "", "nan", "inf", "1e9", "many", "on"] {
                refused(name, key, value, &takes);
            }
            // Who gives something else that is wrong is told of the bounds as well.
            let usage = BUILT_IN.iter().find(|built_in| built_in.name == name);
            let usage = usage.unwrap().usage;
            assert!(usage.contains(most) && usage.contains(least), "{usage}");
        }
        for (name, key) in switches {
            for value in ["on", "off"] {
                assert!(parse(&format!("{name}:{key}={value}")).is_ok(), "{key}");
            }
            for value in ["", "On", "1", "true"] {
                refused(name, key, value, "on or off");
            }
        }
        for built_in in &BUILT_IN {
            for key in built_in.keys {
                let tried = numbers.iter().map(|(name, key, ..)| (name, key));
                let mut tried = tried.chain(switches.iter().map(|(name, key)| (name, key)));
                let is_tried = tried.any(|tried| tried == (&built_in.name, key));
                assert!(is_tried, "{key} of {} is not in the tables", built_in.name);
            }
        }
    }

    /// Numbers without a key have their bounds in the usage.
    #[test]
    fn places_have_bounds() {
        for (text, bound) in [
            ("quirl-burst:0,60001", "up to 60000"),
            ("quirl-burst:4294967296,5", "up to 4294967295"),
            ("quirl-burst:0,-1", "up to 60000"),
            ("constant:65536,2", "at most 65535"),
            ("constant:25,0", "0 < K < N"),
            ("constant:25,25", "0 < K < N"),
            ("constant:25,20,19", "K <= C"),
            ("constant:25,20,65536", "at most 65535"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(bound), "{error}");
        }
        for text in ["quirl-burst:4294967295,60000", "constant:65535,65534,65535"] {
            assert!(parse(text).is_ok(), "{text}");
        }
    }
}
