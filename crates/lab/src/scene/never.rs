//! What could be written down and never come to pass.
//!
//! Owns: changes of links after the run's end, links that let nothing through for ever, datagrams that
//! are never sent. Does not own: whether a value is possible by itself (`network`, `flow`, the
//! simulator).

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use tautline_sim::{Direction, DirectionConfig, LinkConfig, ip_overhead};

use super::{Flow, Scene, SceneError, Wire};
use crate::{quantity::Size, stack::Stacks, workload::End};

/// Whether every link and every datagram gets something through.
///
/// # Errors
/// The first one that does not.
pub(super) fn check(scene: &Scene, stacks: &Stacks) -> Result<(), SceneError> {
    for wire in &scene.network.wires {
        lets_something_through(wire)?;
    }
    for flow in &scene.flows {
        datagrams_fit(scene, flow, stacks)?;
    }
    Ok(())
}

/// The dotted path of a key of a link.
fn field(wire: &Wire, inner: &str) -> String {
    match wire.field.as_str() {
        "" => format!("network.{inner}"),
        outer => format!("network.{outer}.{inner}"),
    }
}

const SIDES: [(&str, Direction); 2] = [("up", Direction::Forward), ("down", Direction::Backward)];

fn side(config: &LinkConfig, direction: Direction) -> &DirectionConfig {
    match direction {
        Direction::Forward => &config.forward,
        Direction::Backward => &config.backward,
    }
}

/// Everything that a link is one after the other, each with where that is said.
fn stages(wire: &Wire) -> impl Iterator<Item = (String, &LinkConfig)> {
    let changes = wire.changes.iter().enumerate();
    let changes = changes.map(|(index, (_, config))| (format!("changes[{index}]."), config));
    std::iter::once((String::new(), &wire.config)).chain(changes)
}

/// Whether all that a link's plan has a time for happens before `limit`.
///
/// # Errors
/// The first thing that comes later.
pub(super) fn in_time(wire: &Wire, limit: Duration) -> Result<(), SceneError> {
    let late = |inner: String, what: &str, at: Duration| {
        let problem = format!(
            "{what} at {at:?} never comes, for the run is over after {limit:?} (run.limit); write an \
             earlier time, or leave it out"
        );
        Err(SceneError::new(field(wire, &inner), problem))
    };
    for (index, (at, _)) in wire.changes.iter().enumerate() {
        if *at >= limit {
            return late(format!("changes[{index}].at"), "a change", *at);
        }
    }
    for (stage, config) in stages(wire) {
        for (name, direction) in SIDES {
            if let Some((inner, what, at)) = first_late(side(config, direction), limit) {
                return late(format!("{stage}{name}.{inner}"), what, at);
            }
        }
    }
    Ok(())
}

/// What one direction schedules for `limit` or later: the key, what it is, and when.
fn first_late(
    config: &DirectionConfig,
    limit: Duration,
) -> Option<(String, &'static str, Duration)> {
    let steps = config.rate_steps.iter().flat_map(|steps| &steps.steps);
    let steps = steps.enumerate().map(|(index, step)| {
        let field = format!("rate_steps.steps[{index}].at");
        (field, "a step", step.at)
    });
    let outages = config.outages.iter().enumerate().map(|(index, outage)| {
        let field = format!("outages[{index}].start");
        (field, "an outage", outage.start)
    });
    // A grid that says no time of its own begins after a slot; of slots longer than the run the
    // delay that is drawn remains.
    let handovers = config.handover.iter().filter_map(|handover| {
        let (key, at) = match handover.offset.is_zero() {
            true => ("every", handover.every),
            false => ("offset", handover.offset),
        };
        let draws = handover.offset.is_zero() && !handover.delay_spread.is_zero();
        (!draws).then(|| (format!("handover.{key}"), "the first hand-over", at))
    });
    steps
        .chain(outages)
        .chain(handovers)
        .find(|(_, _, at)| *at >= limit)
}

/// A link that goes away has a time for that: an outage, or a change. From beginning to end is
/// something else.
fn lets_something_through(wire: &Wire) -> Result<(), SceneError> {
    for (name, direction) in SIDES {
        let always = |is: fn(&DirectionConfig) -> bool| {
            stages(wire).all(|(_, config)| is(side(config, direction)))
        };
        let (key, what) = if always(|config| config.loss.picks_all()) {
            ("loss", "every packet would be lost")
        } else if always(|config| config.corruption.picks_all()) {
            ("corruption", "every packet would be broken")
        } else {
            continue;
        };
        let problem = format!(
            "{what}, from the beginning to the end; a share below 1, or for a link that is down \
             outages = [{{ start = '0 s', duration = '600 s' }}]"
        );
        return Err(SceneError::new(
            field(wire, &format!("{name}.{key}")),
            problem,
        ));
    }
    Ok(())
}

fn datagrams_fit(scene: &Scene, flow: &Flow, stacks: &Stacks) -> Result<(), SceneError> {
    let program = flow.workload.program();
    let options = scene.options(flow);
    let Some((bytes, stack)) = program.datagram_bytes().zip(stacks.get(&options.stack)) else {
        return Ok(());
    };
    let Some(widest) = widest(scene, flow, program.receiver())? else {
        return Ok(());
    };
    let limit = stack.datagram_limit(options, widest.saturating_sub(headers()));
    if bytes <= limit {
        return Ok(());
    }
    let problem = format!(
        "a datagram of {} would never be sent: one has at most {} with stack {} and IP packets of up \
         to {widest} bytes (the mtu of its links)",
        Size(bytes),
        Size(limit),
        options.stack,
    );
    Err(SceneError::new(
        format!("flow.{}.workload.bytes", flow.name),
        problem,
    ))
}

/// Bytes of IP and UDP before a payload: every host of a scene has an IPv4 address.
fn headers() -> u16 {
    let host = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    u16::try_from(ip_overhead(host)).unwrap_or(u16::MAX)
}

/// The largest IP packet that ever gets from a flow's sender to its receiver, by whichever of its
/// paths; `None` if there is none.
fn widest(scene: &Scene, flow: &Flow, receiver: End) -> Result<Option<u16>, SceneError> {
    let network = &scene.network;
    // Every host has a link of its own to its place.
    let access = DirectionConfig::default().mtu;
    let of_link = |(index, direction): (usize, Direction)| {
        let wire = network.wires.get(index)?;
        let mtus = stages(wire).map(|(_, config)| side(config, direction).mtu);
        mtus.max()
    };
    let of_path = |home: &str| {
        let (from, to) = match receiver {
            End::Client => (flow.server.as_str(), home),
            End::Server => (home, flow.server.as_str()),
        };
        let links = network.way(from, to)?;
        let narrowest = links.into_iter().filter_map(of_link).min();
        Some(narrowest.map_or(access, |mtu| mtu.min(access)))
    };
    Ok(scene.homes(flow)?.into_iter().filter_map(of_path).max())
}

#[cfg(test)]
mod tests;
