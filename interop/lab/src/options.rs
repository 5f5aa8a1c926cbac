//! What a plan may ask of the peers.
//!
//! Owns: [`Settings`], a plan's options as far as both peers have them, and the words for those
//! that they have not. Does not own: their configuration types (`quinn`, `noq`).

use std::time::Duration;

use tautline_lab::stack::{OptionError, StackOptions};

/// What asking for fewer acknowledgements means: one for so many ack-eliciting packets.
pub(crate) const ACK_EVERY: u32 = 10;
/// No window or buffer is larger.
const MAX_BYTES: u64 = 1 << 30;
/// Their idle timeouts are whole milliseconds in a variable-length integer; this is long enough.
const MAX_IDLE: Duration = Duration::from_secs(7 * 24 * 3600);

/// Options that can be had. What is `None` is the peer's default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    /// One of the peer's controllers.
    pub(crate) congestion: Option<&'static str>,
    /// Whether fewer acknowledgements are asked for, and how long the peer may then hold them.
    pub(crate) ack_frequency: Option<Option<Duration>>,
    /// Whether streams of one priority take turns; else the first is served first.
    pub(crate) fair: Option<bool>,
    /// In datagrams.
    pub(crate) initial_window: Option<u32>,
    /// Of each stream and of the connection, in bytes.
    pub(crate) receive_window: Option<u32>,
    /// Bytes not yet acknowledged that a sender holds.
    pub(crate) send_buffer: Option<u64>,
    pub(crate) max_streams: Option<u32>,
    pub(crate) mtu_discovery: Option<bool>,
    pub(crate) mtu: Option<u16>,
    pub(crate) initial_rtt: Option<Duration>,
    pub(crate) idle_timeout: Option<Duration>,
    /// Several paths at once, by the peer's own rule.
    pub(crate) several: bool,
}

fn wrong(option: &'static str, problem: impl Into<String>) -> OptionError {
    OptionError {
        option,
        problem: problem.into(),
        names: Vec::new(),
    }
}

fn unnamed(option: &'static str, given: &str, names: &[&str], maker: &str) -> OptionError {
    OptionError {
        option,
        problem: format!("no {option} of {maker} is called {given:?}"),
        names: names.iter().map(|name| (*name).to_owned()).collect(),
    }
}

fn bytes(option: &'static str, size: u64) -> Result<u64, OptionError> {
    if (1200..=MAX_BYTES).contains(&size) {
        return Ok(size);
    }
    Err(wrong(
        option,
        format!("{size} bytes is not between 1200 B and 1 GiB"),
    ))
}

impl Settings {
    /// Reads a plan's options for a peer with these controllers.
    pub(crate) fn read(
        options: &StackOptions,
        maker: &str,
        controllers: &[&'static str],
        several: bool,
    ) -> Result<Self, OptionError> {
        let mut settings = Self::default();
        if let Some(name) = &options.congestion {
            let known = controllers.iter().find(|known| *known == name);
            let known = known.ok_or_else(|| unnamed("congestion", name, controllers, maker))?;
            settings.congestion = Some(known);
        }
        match options.ack.as_deref() {
            None | Some("standard") => {}
            Some("frequency") => settings.ack_frequency = Some(None),
            Some(name) => return Err(unnamed("ack", name, &["standard", "frequency"], maker)),
        }
        if let Some(delay) = options.max_ack_delay {
            if settings.ack_frequency.is_none() {
                let problem = format!("{maker} has it only with ack = \"frequency\"");
                return Err(wrong("max_ack_delay", problem));
            }
            if delay.0.is_zero() || delay.0 > Duration::from_secs(10) {
                return Err(wrong("max_ack_delay", "not above 0 and at most 10 s"));
            }
            settings.ack_frequency = Some(Some(delay.0));
        }
        if options.fec.is_some() || options.fec_mode.is_some() {
            return Err(wrong("fec", format!("{maker} has no erasure correction")));
        }
        match options.multipath.as_deref() {
            None => {}
            Some(_) if !several => {
                return Err(wrong("multipath", format!("{maker} has one path")));
            }
            // Its rule has no name of its own and cannot be changed.
            Some(name) if name == maker => settings.several = true,
            Some(name) => return Err(unnamed("multipath", name, &[maker], maker)),
        }
        match options.streams.as_deref() {
            None => {}
            Some("round-robin") => settings.fair = Some(true),
            Some("fifo") => settings.fair = Some(false),
            Some(name) => return Err(unnamed("streams", name, &["round-robin", "fifo"], maker)),
        }
        if let Some(packets) = options.initial_window {
            if !(2..=10_000).contains(&packets) {
                let problem = format!("{packets} datagrams is not between 2 and 10000");
                return Err(wrong("initial_window", problem));
            }
            settings.initial_window = Some(packets);
        }
        if options.window_tuning == Some(true) {
            let problem = format!("{maker} has fixed windows: give receive_window");
            return Err(wrong("window_tuning", problem));
        }
        if let Some(size) = options.receive_window {
            let size = bytes("receive_window", size.0)?;
            settings.receive_window = u32::try_from(size).ok();
        }
        if let Some(size) = options.send_buffer {
            settings.send_buffer = Some(bytes("send_buffer", size.0)?);
        }
        settings.max_streams = options.max_streams;
        settings.mtu_discovery = options.mtu_discovery;
        if let Some(mtu) = options.mtu {
            if !(1200..=9000).contains(&mtu) {
                let problem = format!("{mtu} bytes is not between 1200 and 9000");
                return Err(wrong("mtu", problem));
            }
            settings.mtu = Some(mtu);
        }
        if options.pacing == Some(false) {
            return Err(wrong("pacing", format!("{maker} always paces")));
        }
        if options.ecn == Some(false) {
            return Err(wrong(
                "ecn",
                format!("{maker} always sends ECT(0) at first"),
            ));
        }
        if let Some(rtt) = options.initial_rtt {
            if rtt.0.is_zero() || rtt.0.as_secs() > 60 {
                let problem = format!("{:?} is not above 0 and at most 60 s", rtt.0);
                return Err(wrong("initial_rtt", problem));
            }
            settings.initial_rtt = Some(rtt.0);
        }
        if let Some(timeout) = options.idle_timeout {
            if timeout.0 < Duration::from_millis(1) || timeout.0 > MAX_IDLE {
                return Err(wrong("idle_timeout", "not between 1 ms and 7 days"));
            }
            settings.idle_timeout = Some(timeout.0);
        }
        Ok(settings)
    }

    /// The initial window in bytes, in datagrams of the size that a path begins with.
    pub(crate) fn initial_window_bytes(&self) -> Option<u64> {
        let size = u64::from(self.mtu.unwrap_or(1200));
        self.initial_window.map(|packets| u64::from(packets) * size)
    }
}

#[cfg(test)]
mod tests {
    use tautline_lab::quantity::{Size, Span};

    use super::*;

    fn read(change: impl FnOnce(&mut StackOptions)) -> Result<Settings, OptionError> {
        let mut options = StackOptions::default();
        change(&mut options);
        Settings::read(&options, "quinn", &["newreno", "cubic"], false)
    }

    #[test]
    fn several_paths_go_by_the_peers_own_rule() {
        let with = |name: &str, several| {
            let options = StackOptions {
                multipath: Some(name.to_owned()),
                ..StackOptions::default()
            };
            Settings::read(&options, "noq", &["cubic"], several)
        };
        assert!(with("noq", true).unwrap().several);
        assert_eq!(with("auto", true).unwrap_err().names, ["noq"]);
        assert_eq!(with("noq", false).unwrap_err().option, "multipath");
    }

    #[test]
    fn what_is_not_said_is_the_peers_default() {
        assert_eq!(read(|_| {}), Ok(Settings::default()));
    }

    #[test]
    fn what_a_peer_lacks_is_refused_by_name() {
        type Change = fn(&mut StackOptions);
        let cases: [(&str, Change); 11] = [
            ("congestion", |o| o.congestion = Some("bbr3-taut".into())),
            ("ack", |o| o.ack = Some("asymmetric".into())),
            ("streams", |o| o.streams = Some("priority".into())),
            ("window_tuning", |o| o.window_tuning = Some(true)),
            ("fec", |o| o.fec = Some("constant".to_owned())),
            ("fec", |o| o.fec_mode = Some("mask".to_owned())),
            ("pacing", |o| o.pacing = Some(false)),
            ("ecn", |o| o.ecn = Some(false)),
            ("max_ack_delay", |o| {
                o.max_ack_delay = Some(Span(Duration::from_millis(5)));
            }),
            ("receive_window", |o| o.receive_window = Some(Size(100))),
            ("mtu", |o| o.mtu = Some(20_000)),
        ];
        for (option, change) in cases {
            let error = read(change).expect_err(option);
            assert_eq!(error.option, option);
        }
    }

    #[test]
    fn windows_are_in_datagrams_of_the_first_size() {
        let settings = read(|o| o.initial_window = Some(10)).unwrap();
        assert_eq!(settings.initial_window_bytes(), Some(12_000));
        let settings = read(|o| (o.initial_window, o.mtu) = (Some(10), Some(1452))).unwrap();
        assert_eq!(settings.initial_window_bytes(), Some(14_520));
    }
}
