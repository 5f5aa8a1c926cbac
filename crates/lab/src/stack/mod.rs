//! What carries a workload: transport stacks as nodes of the simulated network.
//!
//! Owns: [`Stack`] (builds the two ends of a flow and looks into them), [`StackOptions`] (what a
//! plan may say about a stack), [`Stacks`] (names). Does not own: the transports.
//! To add a stack: a type that implements [`Stack`], registered with [`Stacks::register`].

mod options;
mod ours;
mod split_tcp;

use std::{any::Any, collections::BTreeMap, fmt, net::SocketAddr, sync::Arc, time::Duration};

pub use options::{Ready, Speed, StackOptions};
pub use ours::{Tautline, wire_of};
pub use split_tcp::SplitTcp;
use tautline_sim::{Node, tls::KeyLines};
use tautline_transport::{
    congestion::{CongestionController, ControllerContext},
    fec::FecStats,
    observe::SharedSinkFactory,
    rng::Rng,
    time::Instant,
    units::{FourTuple, Rate},
};

use crate::session::Half;

/// Which part of a connection's way, between two neighbours of those who end it, is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// All of it: no proxy stands on it.
    #[default]
    Whole,
    /// The part that the satellite's link is of.
    Satellite,
    /// Any other.
    Land,
}

/// Everything that a proxy on the way of a connection needs to begin.
pub struct ProxySetup {
    /// The place that it stands at.
    pub place: String,
    /// Towards the client, then towards the server: its own address, that of the next who ends the
    /// connection, and which part of the way lies between.
    pub sides: [(SocketAddr, SocketAddr, Part); 2],
    /// When the client connects.
    pub start: Instant,
    /// Randomness of its own.
    pub rng: Rng,
}

/// Everything that an end of a flow needs to begin.
pub struct EndSetup {
    /// Its address.
    pub local: SocketAddr,
    /// Further addresses of its own, each with a way to the other end; only ever of a client whose
    /// options ask for several paths.
    pub others: Vec<SocketAddr>,
    /// The other end's address, or that of the nearest proxy.
    pub remote: SocketAddr,
    /// Which part of the way begins here.
    pub part: Part,
    /// The program.
    pub half: Box<dyn Half>,
    /// When a client connects.
    pub start: Instant,
    /// Randomness of its own.
    pub rng: Rng,
    /// Seed of handshakes.
    pub seed: u64,
    /// Who looks on.
    pub watch: Watch,
}

/// What is written down about the transports, beside the record; nothing by default.
#[derive(Clone, Default)]
pub struct Watch {
    /// Where events of the transport go.
    pub observer: Option<SharedSinkFactory>,
    /// Where clients write their secrets.
    pub keys: Option<Arc<KeyLines>>,
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch")
            .field("observer", &self.observer.is_some())
            .field("keys", &self.keys.is_some())
            .finish()
    }
}

/// What can be seen of a transport at one moment. What a stack does not tell is `None`, and empty in
/// tables.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WireStats {
    /// Smoothed round-trip time.
    pub rtt: Option<Duration>,
    /// Smallest round-trip time.
    pub min_rtt: Option<Duration>,
    /// Congestion window in bytes.
    pub window: u64,
    /// Pacing rate, where the controller sets one.
    pub pacing_rate: Option<Rate>,
    /// Bytes in flight.
    pub in_flight: Option<u64>,
    /// UDP datagrams sent.
    pub datagrams_sent: u64,
    /// UDP payload bytes sent.
    pub bytes_sent: u64,
    /// Packets sent that count as in flight.
    pub packets_sent: u64,
    /// Packets declared lost.
    pub packets_lost: u64,
    /// Of these, acknowledged after all.
    pub spurious_losses: Option<u64>,
    /// Probe timeouts.
    pub ptos: Option<u64>,
    /// ACK frames sent.
    pub acks_sent: u64,
    /// What erasure correction did, where the stack has it.
    pub fec: Option<FecStats>,
}

impl WireStats {
    /// Two paths as one: sums, and the shorter round-trip times.
    #[must_use]
    pub fn beside(self, other: Self) -> Self {
        fn sum(a: Option<u64>, b: Option<u64>) -> Option<u64> {
            Some(a? + b?)
        }
        let rate = |rate: Option<Rate>| rate.map(Rate::bits_per_second);
        let rate = sum(rate(self.pacing_rate), rate(other.pacing_rate));
        let least = |a: Option<Duration>, b: Option<Duration>| match (a, b) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        Self {
            rtt: least(self.rtt, other.rtt),
            min_rtt: least(self.min_rtt, other.min_rtt),
            window: self.window + other.window,
            pacing_rate: rate.map(Rate::from_bits_per_second),
            in_flight: sum(self.in_flight, other.in_flight),
            datagrams_sent: self.datagrams_sent + other.datagrams_sent,
            bytes_sent: self.bytes_sent + other.bytes_sent,
            packets_sent: self.packets_sent + other.packets_sent,
            packets_lost: self.packets_lost + other.packets_lost,
            spurious_losses: sum(self.spurious_losses, other.spurious_losses),
            ptos: sum(self.ptos, other.ptos),
            acks_sent: self.acks_sent + other.acks_sent,
            fec: self.fec.or(other.fec),
        }
    }
}

/// What can be seen of one path of a transport, from one end, since it was opened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathWire {
    /// Its number: 0 is the one of the handshake.
    pub id: u64,
    /// Its addresses, seen from this end.
    pub four_tuple: FourTuple,
    /// Smoothed round-trip time.
    pub rtt: Duration,
    /// Smallest round-trip time.
    pub min_rtt: Duration,
    /// UDP payload bytes sent in packets that were recorded for loss detection.
    pub bytes_sent: u64,
    /// Packets sent that count as in flight.
    pub packets_sent: u64,
    /// Of these, declared lost.
    pub packets_lost: u64,
    /// Probe timeouts.
    pub ptos: u64,
    /// When it was known to be usable: the first one with the handshake.
    pub validated: Option<Instant>,
    /// When the first packet with stream data or datagrams came over it.
    pub first_data: Option<Instant>,
}

/// An end of a flow, looked into.
pub struct Inspection<'a> {
    /// The program.
    pub half: &'a dyn Half,
    /// The transport; after its end, as it was then.
    pub wire: Option<WireStats>,
}

/// A transport that can carry workloads.
pub trait Stack: fmt::Debug + Send + Sync {
    /// The end that connects.
    ///
    /// # Errors
    /// When the options ask for what the stack does not have.
    fn client(&self, options: &StackOptions, setup: EndSetup) -> Result<Box<dyn Node>, String>;
    /// The end that accepts.
    ///
    /// # Errors
    /// When the options ask for what the stack does not have.
    fn server(&self, options: &StackOptions, setup: EndSetup) -> Result<Box<dyn Node>, String>;
    /// Whether proxies can stand on the way of its connections.
    fn has_proxies(&self) -> bool {
        false
    }
    /// A proxy on the way; of stacks that have them alone.
    ///
    /// # Errors
    /// When the options ask for what the stack does not have.
    fn proxy(&self, _options: &StackOptions, _setup: ProxySetup) -> Result<Box<dyn Node>, String> {
        Err("the stack has no proxies".to_owned())
    }
    /// Looks into a node made by `client` or `server`.
    fn inspect<'a>(&self, node: &'a dyn Any) -> Option<Inspection<'a>>;
    /// The paths of a node's connection, by number, also those that are gone; none where a stack
    /// knows of one alone.
    fn paths(&self, _node: &dyn Any) -> Vec<PathWire> {
        Vec::new()
    }
    /// Application bytes of the longest unreliable datagram that may ever leave under these options
    /// where the way carries UDP payloads of up to `udp_payload` bytes; an upper bound. Unless a stack
    /// tells, those bytes themselves.
    fn datagram_limit(&self, _options: &StackOptions, udp_payload: u16) -> u64 {
        u64::from(udp_payload)
    }
    /// Whether two runs with one seed and these options are the same.
    fn is_deterministic(&self, _options: &StackOptions) -> bool {
        true
    }
    /// What holds where the options say nothing, by name: part of what results are of.
    fn defaults(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }
    /// Whether the options can be had, before anything runs.
    ///
    /// # Errors
    /// The option, what is wrong with it, and the names that would do.
    fn check(&self, options: &StackOptions) -> Result<(), OptionError>;
}

/// An option that a stack does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionError {
    /// The field of [`StackOptions`].
    pub option: &'static str,
    /// What is wrong.
    pub problem: String,
    /// What was given and the values there are, when names were asked for.
    pub names: Vec<String>,
}

/// What one types before `run PLAN` of the laboratory with the stacks of this crate.
const PROGRAM: &str = "tautline lab";
/// Stacks that other programs register, and the same of such a program.
const ELSEWHERE: &[(&str, &str)] = &[
    ("quinn", "cargo xtask lab-peers --"),
    ("noq", "cargo xtask lab-peers --"),
];

/// What one types before `run PLAN` to have all of these stacks.
pub(crate) fn program<'a>(mut stacks: impl Iterator<Item = &'a str>) -> &'static str {
    stacks
        .find_map(|name| ELSEWHERE.iter().find(|(known, _)| *known == name))
        .map_or(PROGRAM, |(_, program)| *program)
}

/// Stacks by name.
#[derive(Clone, Debug)]
pub struct Stacks(BTreeMap<String, Arc<dyn Stack>>);

impl Default for Stacks {
    /// The stacks of this crate.
    fn default() -> Self {
        let mut stacks = Self(BTreeMap::new());
        stacks.register("tautline", Arc::new(Tautline::default()));
        stacks.register("split-tcp", Arc::new(SplitTcp));
        stacks
    }
}

impl Stacks {
    /// The stacks of this crate, `tautline` with one more congestion controller under this name,
    /// which `build` makes for each path.
    pub fn with_controller<C: CongestionController + 'static>(
        name: &'static str,
        build: impl Fn(ControllerContext) -> C + Send + Sync + 'static,
    ) -> Self {
        let mut stacks = Self::default();
        let ours = Tautline::default().with_controller_fn(name, build);
        stacks.register("tautline", Arc::new(ours));
        stacks
    }

    /// Adds a stack, or replaces the one of that name.
    pub fn register(&mut self, name: &str, stack: Arc<dyn Stack>) {
        self.0.insert(name.to_owned(), stack);
    }

    /// The stack of that name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Stack>> {
        self.0.get(name)
    }

    /// What one types before `run PLAN` to have a stack that is not among these, if it is known.
    pub fn elsewhere(&self, name: &str) -> Option<&'static str> {
        let known = ELSEWHERE.iter().find(|(known, _)| *known == name);
        known
            .filter(|_| self.get(name).is_none())
            .map(|(_, program)| *program)
    }

    /// All names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use tautline_transport::multipath::WindowRtt;

    use super::*;
    use crate::quantity::Size;

    /// What would have no effect is refused, so that nobody takes a run for one with it.
    #[test]
    fn what_erasure_correction_is_to_do_needs_erasure_correction() {
        let check = |options: StackOptions| Tautline::default().check(&options);
        for (option, given) in [
            (
                "fec_code",
                StackOptions {
                    fec_code: Some("tetrys".to_owned()),
                    ..StackOptions::default()
                },
            ),
            (
                "fec_window",
                StackOptions {
                    fec_window: Some(64),
                    ..StackOptions::default()
                },
            ),
            (
                "fec_datagrams",
                StackOptions {
                    fec_datagrams: Some(true),
                    ..StackOptions::default()
                },
            ),
            (
                "fec_padding",
                StackOptions {
                    fec_padding: Some(true),
                    ..StackOptions::default()
                },
            ),
            (
                "fec_mode",
                StackOptions {
                    fec_mode: Some("mask".to_owned()),
                    ..StackOptions::default()
                },
            ),
        ] {
            let with = |fec: Option<&str>| StackOptions {
                fec: fec.map(str::to_owned),
                ..given.clone()
            };
            for (fec, lacks) in [
                (None, "and there is no `fec`"),
                (Some("none"), "and `fec` is \"none\""),
            ] {
                let error = check(with(fec)).unwrap_err();
                assert_eq!(error.option, option);
                let said = &error.problem;
                assert!(said.ends_with(lacks), "{said}");
            }
            assert_eq!(check(with(Some("auto"))), Ok(()), "{option}");
        }
    }

    #[test]
    fn windows_out_of_bounds_are_refused() {
        let check = |options: StackOptions| Tautline::default().check(&options);
        let share = |share| StackOptions {
            receive_window: Some(Size(100_000)),
            receive_window_share: Some(share),
            ..StackOptions::default()
        };
        assert_eq!(check(share(0.95)), Ok(()));
        for wrong in [0.0, -1.0, 0.01, 8.5, f64::NAN, f64::INFINITY] {
            let error = check(share(wrong)).unwrap_err();
            assert_eq!(error.option, "receive_window_share");
        }
        let of_nothing = StackOptions {
            receive_window: None,
            ..share(0.95)
        };
        assert!(check(of_nothing).is_err());
        for symbols in [0, 4096] {
            let options = StackOptions {
                fec: Some("auto".to_owned()),
                fec_window: Some(symbols),
                ..StackOptions::default()
            };
            assert_eq!(check(options).unwrap_err().option, "fec_window");
        }
    }

    #[test]
    fn windows_are_tuned_by_a_round_trip_of_several_paths() {
        let read = |text: &str| toml::from_str::<StackOptions>(text).unwrap();
        let check = |text: &str| Tautline::default().check(&read(text));
        let refused = |text: &str| {
            let error = check(text).unwrap_err();
            assert_eq!(error.option, "window_rtt", "{text}");
            error
        };
        for name in WindowRtt::names() {
            let text = format!("multipath = \"auto\"\nwindow_rtt = \"{name}\"");
            let config = Tautline::default().transport(&read(&text)).unwrap();
            assert_eq!(config.multipath.unwrap().window_rtt.name(), name);
            for fixed in ["receive_window = \"1 MB\"", "window_tuning = false"] {
                let error = refused(&format!("{text}\n{fixed}"));
                assert!(error.problem.ends_with("and they are fixed"));
            }
        }
        let error = refused("multipath = \"auto\"\nwindow_rtt = \"median\"");
        assert_eq!(error.names, ["largest", "smallest", "mean"]);
        let error = refused("window_rtt = \"mean\"");
        assert!(error.problem.ends_with("and there is no `multipath`"));
    }

    /// As short as the documentation says, blank lines and all.
    #[test]
    fn a_controller_of_ones_own_takes_sixty_lines() {
        let text = include_str!("../../examples/my_controller.rs");
        assert!(text.lines().count() <= 60);
    }
}
