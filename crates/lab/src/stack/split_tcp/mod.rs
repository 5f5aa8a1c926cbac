//! Split TCP: what a performance-enhancing proxy makes of a satellite link, as a baseline.
//!
//! **What it stands for.** Operators split TCP connections at a proxy on either side of the
//! satellite (RFC 3135; Martin, *Enhancing QUIC over Satellite Networks*, 2022, s2.2.2): each part
//! recovers its own losses, and the satellite's part is governed by somebody who knows it. A stack
//! that cannot be split has to be measured against that.
//!
//! **Where the proxies stand.** At the places of the network that `proxies` names, a host of its own for
//! each connection. The parts of the way between ends and proxies are connections of their own, each with
//! its own round trip and recovery: that of the satellite with `congestion`, `rate` and `ack`, those on land
//! with `land_congestion` and standard acknowledgements. Which one is the satellite's: the one that the
//! link `satellite` is of, or with two proxies the one between them.
//!
//! Unless a plan says so, they stand at the two hosts of the flow: in most scenes clients and servers
//! are next to the bottleneck, so the parts of a connection on land take no time and lose nothing, and
//! the whole is modelled as its satellite part, from proxy to proxy. A flow's `access_delay` and
//! further links belong to that part.
//!
//! The proxies answer the opening of a connection themselves and carry what
//! the client sends first at once, so TCP's handshake costs nothing, also on land (as with RFC 7413). TLS
//! 1.3 runs from end to end and
//! costs its round trip, as QUIC's handshake does: after it both are equal, and neither resumes.
//!
//! **What is modelled.** IP packets of 1,500 bytes with TCP's header bytes, time stamps and SACK
//! blocks ([`segment`](self)); selective acknowledgement, loss detection by time, tail probes and
//! timeouts (RFC 2018, 6298, 8985), receive windows, delayed acknowledgements, pacing; records and
//! frames of HTTP/2 over TLS on one byte stream, hence head-of-line blocking. Congestion control is
//! `fixed` or `hybla`, which only a proxy would use, or any of our transport's. Unreliable datagrams
//! go as UDP packets past the connection, with no congestion control; a proxy passes them on at once.
//!
//! A proxy at a place keeps at most `receive_window` and `send_buffer` of either direction. Beyond that the
//! window before it shuts; what it keeps cannot be overtaken by more urgent data. When one of its legs
//! gives up (`idle_timeout`), both ends are told why; a close is passed on, and drops what waits.
//!
//! **What is not**, mostly in favour of this baseline: proxies that run out of time; at the hosts, also
//! those that run out of buffer or
//! hold data that more urgent ones cannot overtake, and congestion on land; Nagle's algorithm; HTTP/2
//! flow control and header compression; several connections under one budget, so that `fixed` has
//! to be told its share; ECN; a close that waits for what was sent.
//!
//! Owns: [`SplitTcp`], its options. Parts: `segment` (the wire), `ranges`, `scoreboard`, `rtt`, `rate`
//! (what a sender knows), `send`, `growth` (when it sends), `receive`, `leg` (one connection between
//! neighbours), `mux` (streams), `host` (an end), `proxy` (what stands between two legs).

mod growth;
mod host;
mod leg;
mod mux;
mod proxy;
mod ranges;
mod rate;
mod receive;
mod record;
mod rtt;
mod scoreboard;
mod segment;
mod send;
#[cfg(test)]
mod tests;

use std::{any::Any, collections::BTreeMap, fmt, net::SocketAddr, sync::Arc, time::Duration};

use tautline_sim::{Node, ip_overhead};
use tautline_transport::{
    congestion::{self, ControllerContext, SharedControllerFactory},
    rng::Rng,
    time::Instant,
    units::Rate,
};

use self::{
    growth::{FixedFactory, HyblaFactory},
    host::Host,
    proxy::Proxy,
    receive::AckRule,
    segment::HEADER_BYTES,
};
use super::{EndSetup, Inspection, OptionError, Part, ProxySetup, Stack, StackOptions};

/// Payload of a 1,500-byte packet over IPv4.
const PAYLOAD: u16 = 1472;
/// Twice the bandwidth-delay product of 100 Mb/s over 600 ms, and some more.
const RECEIVE_BUFFER: u64 = 32 << 20;
const SEND_BUFFER: u64 = 32 << 20;
/// HTTP/2 recommends no less (RFC 9113 s6.5.2).
const STREAMS: u32 = 100;
/// As is usual.
const ACK_DELAY: Duration = Duration::from_millis(40);
/// RFC 6298 s2.1.
const INITIAL_TIMEOUT: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(120);
/// RFC 6928.
const INITIAL_WINDOW: u32 = 10;
/// What servers on land have (RFC 9438).
const LAND_CONGESTION: &str = "cubic";

/// Split TCP with streams. Of the options it has `congestion` (`fixed`, which needs a `rate`;
/// `hybla`, the default without one; or a controller of our transport), `rate`, `ack` (`standard` or
/// `aggregated`, which spares thin return links), `initial_window`, `receive_window`, `send_buffer`, `max_streams`, `mtu`, `pacing`, `initial_rtt` (the timeout
/// before the first sample), `max_ack_delay` and `idle_timeout` (how long data may go unanswered); and
/// where proxies stand on the way `proxies`, `satellite` and `land_congestion` (`hybla`, or a controller of our
/// transport).
#[derive(Clone, Copy, Debug, Default)]
pub struct SplitTcp;

/// What the options say, checked.
struct Chosen {
    factory: SharedControllerFactory,
    land: SharedControllerFactory,
    payload: u16,
    initial_window: u32,
    receive_buffer: u64,
    send_buffer: u64,
    streams: u32,
    ack: AckRule,
    initial_timeout: Duration,
    patience: Duration,
    paced: bool,
}

fn wrong(option: &'static str, problem: impl Into<String>) -> OptionError {
    OptionError {
        option,
        problem: problem.into(),
        names: Vec::new(),
    }
}

fn within<T: PartialOrd + Copy>(
    option: &'static str,
    given: Option<T>,
    default: T,
    (least, most): (T, T),
    words: &str,
) -> Result<T, OptionError> {
    let value = given.unwrap_or(default);
    if value < least || value > most {
        return Err(wrong(option, format!("is not {words}")));
    }
    Ok(value)
}

fn controller(
    options: &StackOptions,
    payload: u16,
) -> Result<SharedControllerFactory, OptionError> {
    let packet = f64::from(payload) + f64::from(ip_overhead(([0, 0, 0, 0], 0).into()));
    // Links count IP bytes, controllers those of the payload.
    let rate = match options.rate {
        Some(rate) if rate.0.bits_per_second() < 1000 => {
            return Err(wrong("rate", "is below 1 kb/s"));
        }
        Some(rate) => Some(rate.0.mul_f64(f64::from(payload) / packet)),
        None => None,
    };
    let chosen = match (options.congestion.as_deref(), rate) {
        (None | Some("fixed"), Some(rate)) => Some(fixed(rate)),
        (Some("fixed"), None) => {
            let problem = "fixed needs the rate of the satellite segment: rate = \"20 Mb/s\"";
            return Err(wrong("congestion", problem));
        }
        (None | Some("hybla"), rate) => Some(Arc::new(HyblaFactory { rate }) as _),
        (Some(name), None) => congestion::registry::by_name(name),
        (Some(name), Some(_)) if congestion::registry::by_name(name).is_some() => {
            let problem = format!("{name} finds it out; fixed and hybla take it");
            return Err(wrong("rate", problem));
        }
        (Some(_), Some(_)) => None,
    };
    chosen.ok_or_else(|| {
        let names = growth::NAMES
            .into_iter()
            .chain(congestion::registry::names());
        OptionError {
            option: "congestion",
            problem: format!(
                "split-tcp has no congestion control called {:?}",
                options.congestion.as_deref().unwrap_or_default()
            ),
            names: names.map(str::to_owned).collect(),
        }
    })
}

/// What governs the parts of the way on land.
fn on_land(options: &StackOptions) -> Result<SharedControllerFactory, OptionError> {
    let option = "land_congestion";
    let name = options.land_congestion.as_deref();
    let chosen = match name.unwrap_or(LAND_CONGESTION) {
        "hybla" => Some(Arc::new(HyblaFactory { rate: None }) as _),
        "fixed" => {
            let problem = "nobody divides the capacity on land, so that fixed has no rate there";
            return Err(wrong(option, problem));
        }
        name => congestion::registry::by_name(name),
    };
    chosen.ok_or_else(|| OptionError {
        option,
        problem: format!(
            "split-tcp has no congestion control on land called {:?}",
            name.unwrap_or_default()
        ),
        names: std::iter::once("hybla")
            .chain(congestion::registry::names())
            .map(str::to_owned)
            .collect(),
    })
}

fn fixed(rate: Rate) -> SharedControllerFactory {
    Arc::new(FixedFactory { rate })
}

fn acknowledging(options: &StackOptions) -> Result<AckRule, OptionError> {
    let delay = within(
        "max_ack_delay",
        options.max_ack_delay.map(|span| span.0),
        ACK_DELAY,
        (Duration::ZERO, Duration::from_millis(500)),
        "at most 500 ms (RFC 9293 s3.8.6.3)",
    )?;
    match options.ack.as_deref() {
        None | Some("standard") => Ok(AckRule::standard(delay)),
        Some("aggregated") => Ok(AckRule::aggregated(delay)),
        Some(other) => Err(OptionError {
            option: "ack",
            problem: format!("split-tcp has no acknowledgement policy called {other:?}"),
            names: vec!["standard".to_owned(), "aggregated".to_owned()],
        }),
    }
}

fn choose(options: &StackOptions) -> Result<Chosen, OptionError> {
    for (option, given) in [
        ("streams", options.streams.is_some()),
        ("fec", options.fec.is_some()),
        ("fec_code", options.fec_code.is_some()),
        ("fec_window", options.fec_window.is_some()),
        (
            "receive_window_share",
            options.receive_window_share.is_some(),
        ),
        ("fec_datagrams", options.fec_datagrams.is_some()),
        ("fec_mode", options.fec_mode.is_some()),
        ("multipath", options.multipath.is_some()),
        ("ack_routing", options.ack_routing.is_some()),
        ("path_echoes", options.path_echoes.is_some()),
        ("window_rtt", options.window_rtt.is_some()),
        ("window_tuning", options.window_tuning == Some(true)),
        ("mtu_discovery", options.mtu_discovery == Some(true)),
        ("ecn", options.ecn == Some(true)),
    ] {
        if given {
            return Err(wrong(option, "split-tcp has no such choice"));
        }
    }
    for (option, given) in [
        ("satellite", options.satellite.is_some()),
        ("land_congestion", options.land_congestion.is_some()),
    ] {
        if given && options.proxies.is_none() {
            let problem = "the way has no parts unless proxies = [\"a place\"] stand on it";
            return Err(wrong(option, problem));
        }
    }
    let payload = within(
        "mtu",
        options.mtu,
        PAYLOAD,
        (576, 9000),
        "between 576 and 9000 bytes",
    )?;
    let sizes = (1200, 1 << 30);
    let words = "between 1200 B and 1 GiB";
    let receive = options.receive_window.map(|size| size.0);
    let send = options.send_buffer.map(|size| size.0);
    let second = Duration::from_secs(1);
    Ok(Chosen {
        factory: controller(options, payload)?,
        land: on_land(options)?,
        payload,
        initial_window: within(
            "initial_window",
            options.initial_window,
            INITIAL_WINDOW,
            (2, 10_000),
            "between 2 and 10000 segments",
        )?,
        receive_buffer: within("receive_window", receive, RECEIVE_BUFFER, sizes, words)?,
        send_buffer: within("send_buffer", send, SEND_BUFFER, sizes, words)?,
        streams: within(
            "max_streams",
            options.max_streams,
            STREAMS,
            (1, 1_000_000),
            "between 1 and 1000000",
        )?,
        ack: acknowledging(options)?,
        initial_timeout: within(
            "initial_rtt",
            options.initial_rtt.map(|span| span.0),
            INITIAL_TIMEOUT,
            (Duration::from_millis(1), 60 * second),
            "between 1 ms and 60 s",
        )?,
        patience: within(
            "idle_timeout",
            options.idle_timeout.map(|span| span.0),
            PATIENCE,
            (Duration::from_millis(1), 100_000 * second),
            "between 1 ms and 100000 s",
        )?,
        paced: options.pacing.unwrap_or(true),
    })
}

impl Chosen {
    fn of(options: &StackOptions) -> Result<Self, String> {
        choose(options).map_err(|error| format!("{}: {}", error.option, error.problem))
    }

    /// One end of a part of the way, between two addresses.
    fn leg(
        &self,
        (local, remote, part): (SocketAddr, SocketAddr, Part),
        start: Instant,
        rng: &mut Rng,
    ) -> leg::Settings {
        let payload = u64::from(self.payload);
        let mut context = ControllerContext::new(
            start,
            payload,
            u64::from(self.initial_window) * payload,
            self.initial_timeout,
            rng.fork(),
        );
        context.paced = self.paced;
        let (factory, ack) = match part {
            Part::Whole | Part::Satellite => (&self.factory, self.ack),
            Part::Land => (&self.land, AckRule::standard(self.ack.delay)),
        };
        leg::Settings {
            local,
            remote,
            start,
            segment: usize::from(self.payload) - HEADER_BYTES,
            receive_buffer: self.receive_buffer,
            send_buffer: self.send_buffer,
            ack,
            initial_timeout: self.initial_timeout,
            patience: self.patience,
            paced: self.paced,
            controller: factory.build(context),
        }
    }
}

fn node(
    options: &StackOptions,
    client: bool,
    mut setup: EndSetup,
) -> Result<Box<dyn Node>, String> {
    let chosen = Chosen::of(options)?;
    let way = (setup.local, setup.remote, setup.part);
    let settings = host::Settings {
        client,
        streams: chosen.streams,
        leg: chosen.leg(way, setup.start, &mut setup.rng),
    };
    Ok(Box::new(Host::new(settings, setup.half)))
}

impl Stack for SplitTcp {
    fn client(&self, options: &StackOptions, setup: EndSetup) -> Result<Box<dyn Node>, String> {
        node(options, true, setup)
    }

    fn server(&self, options: &StackOptions, setup: EndSetup) -> Result<Box<dyn Node>, String> {
        node(options, false, setup)
    }

    fn has_proxies(&self) -> bool {
        true
    }

    fn proxy(
        &self,
        options: &StackOptions,
        mut setup: ProxySetup,
    ) -> Result<Box<dyn Node>, String> {
        let chosen = Chosen::of(options)?;
        let legs = setup
            .sides
            .map(|side| chosen.leg(side, setup.start, &mut setup.rng));
        Ok(Box::new(Proxy::new(setup.place, legs)))
    }

    fn inspect<'a>(&self, node: &'a dyn Any) -> Option<Inspection<'a>> {
        let host = node.downcast_ref::<Host>()?;
        Some(Inspection {
            half: host.half(),
            wire: Some(host.wire_stats()),
        })
    }

    fn defaults(&self) -> BTreeMap<String, String> {
        let values: [(&str, &dyn fmt::Debug); 9] = [
            ("ack_delay", &ACK_DELAY),
            ("initial_timeout", &INITIAL_TIMEOUT),
            ("initial_window", &INITIAL_WINDOW),
            ("land_congestion", &LAND_CONGESTION),
            ("payload", &PAYLOAD),
            ("patience", &PATIENCE),
            ("receive_buffer", &RECEIVE_BUFFER),
            ("send_buffer", &SEND_BUFFER),
            ("streams", &STREAMS),
        ];
        let text = |(name, value): (&str, &dyn fmt::Debug)| (name.to_owned(), format!("{value:?}"));
        values.into_iter().map(text).collect()
    }

    fn datagram_limit(&self, options: &StackOptions, udp_payload: u16) -> u64 {
        let payload = choose(options).map_or(udp_payload, |chosen| chosen.payload);
        u64::from(payload.min(udp_payload)).saturating_sub(HEADER_BYTES as u64)
    }

    fn check(&self, options: &StackOptions) -> Result<(), OptionError> {
        choose(options).map(|_| ())
    }
}
