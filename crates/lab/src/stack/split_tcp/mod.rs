//! Split TCP: what a performance-enhancing proxy makes of a satellite link, as a baseline.
//!
//! **What it stands for.** Operators split TCP connections at a proxy on either side of the
//! satellite (RFC 3135; Martin, *Enhancing QUIC over Satellite Networks*, 2022, s2.2.2): each part
//! recovers its own losses, and the satellite's part is governed by somebody who knows it. A stack
//! that cannot be split has to be measured against that.
//!
//! **Where the proxies stand.** At the two hosts of the flow: in the laboratory's scenes clients and servers
//! are next to the bottleneck, so the parts of a connection on land take no time and lose nothing, and
//! the whole is modelled as its satellite part, from proxy to proxy. A flow's `access_delay` and
//! further links belong to that part. The proxies answer the opening of a connection themselves and carry what
//! the client sends first at once, so TCP's handshake costs nothing. TLS 1.3 runs from end to end and
//! costs its round trip, as QUIC's handshake does: after it both are equal, and neither resumes.
//!
//! **What is modelled.** IP packets of 1,500 bytes with TCP's header bytes, time stamps and SACK
//! blocks ([`segment`](self)); selective acknowledgement, loss detection by time, tail probes and
//! timeouts (RFC 2018, 6298, 8985), receive windows, delayed acknowledgements, pacing; records and
//! frames of HTTP/2 over TLS on one byte stream, hence head-of-line blocking. Congestion control is
//! `fixed` or `hybla`, which only a proxy would use, or any of our transport's. Unreliable datagrams
//! go as UDP packets past the connection, with no congestion control and no proxy.
//!
//! **What is not**, mostly in favour of this baseline: proxies that run out of buffer or time, or
//! hold data that more urgent ones cannot overtake; congestion on land; Nagle's algorithm; HTTP/2
//! flow control and header compression; several connections under one budget, so that `fixed` has
//! to be told its share; ECN; a close that waits for what was sent.
//!
//! Owns: [`SplitTcp`], its options. Parts: `segment` (the wire), `ranges`, `scoreboard`, `rtt`, `rate`
//! (what a sender knows), `send`, `growth` (when it sends), `receive`, `mux` (streams), `host` (an end).

mod growth;
mod host;
mod mux;
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

use std::{any::Any, collections::BTreeMap, fmt, sync::Arc, time::Duration};

use tautline_sim::{Node, ip_overhead};
use tautline_transport::{
    congestion::{self, ControllerContext, SharedControllerFactory},
    units::Rate,
};

use self::{
    growth::{FixedFactory, HyblaFactory},
    host::{Host, Settings},
    receive::AckRule,
    segment::HEADER_BYTES,
};
use super::{EndSetup, Inspection, OptionError, Stack, StackOptions};

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

/// Split TCP with streams. Of the options it has `congestion` (`fixed`, which needs a `rate`;
/// `hybla`, the default without one; or a controller of our transport), `rate`, `ack` (`standard` or
/// `aggregated`, which spares thin return links), `initial_window`, `receive_window`, `send_buffer`, `max_streams`, `mtu`, `pacing`, `initial_rtt` (the timeout
/// before the first sample), `max_ack_delay` and `idle_timeout` (how long data may go unanswered).
#[derive(Clone, Copy, Debug, Default)]
pub struct SplitTcp;

/// What the options say, checked.
struct Chosen {
    factory: SharedControllerFactory,
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
        ("fec_datagrams", options.fec_datagrams.is_some()),
        ("fec_mode", options.fec_mode.is_some()),
        ("multipath", options.multipath.is_some()),
        ("ack_routing", options.ack_routing.is_some()),
        ("window_tuning", options.window_tuning == Some(true)),
        ("mtu_discovery", options.mtu_discovery == Some(true)),
        ("ecn", options.ecn == Some(true)),
    ] {
        if given {
            return Err(wrong(option, "split-tcp has no such choice"));
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

fn node(
    options: &StackOptions,
    client: bool,
    mut setup: EndSetup,
) -> Result<Box<dyn Node>, String> {
    let chosen = choose(options).map_err(|error| format!("{}: {}", error.option, error.problem))?;
    let payload = u64::from(chosen.payload);
    let mut context = ControllerContext::new(
        setup.start,
        payload,
        u64::from(chosen.initial_window) * payload,
        chosen.initial_timeout,
        setup.rng.fork(),
    );
    context.paced = chosen.paced;
    let settings = Settings {
        client,
        local: setup.local,
        remote: setup.remote,
        start: setup.start,
        segment: usize::from(chosen.payload) - HEADER_BYTES,
        receive_buffer: chosen.receive_buffer,
        send_buffer: chosen.send_buffer,
        streams: chosen.streams,
        ack: chosen.ack,
        initial_timeout: chosen.initial_timeout,
        patience: chosen.patience,
        paced: chosen.paced,
        controller: chosen.factory.build(context),
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

    fn inspect<'a>(&self, node: &'a dyn Any) -> Option<Inspection<'a>> {
        let host = node.downcast_ref::<Host>()?;
        Some(Inspection {
            half: host.half(),
            wire: Some(host.wire_stats()),
        })
    }

    fn defaults(&self) -> BTreeMap<String, String> {
        let values: [(&str, &dyn fmt::Debug); 8] = [
            ("ack_delay", &ACK_DELAY),
            ("initial_timeout", &INITIAL_TIMEOUT),
            ("initial_window", &INITIAL_WINDOW),
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
