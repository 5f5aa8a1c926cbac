//! The networks of the QUIC interop runner's test cases.
//!
//! Owns: [`Scenario`], one per test case. The names are the runner's.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tautline_transport::units::Rate;

use crate::{
    DirectionConfig, HostId, LinkConfig, LinkId, LossModel, Outage, OutageMode, QueueSize, Rebind,
    RebindSchedule, World,
};

/// A network between one client and one server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The link; the client is the first host.
    pub link: LinkConfig,
    /// What the NAT in front of the client does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rebind: Option<RebindSchedule>,
}

impl Scenario {
    /// Links `client` and `server` and schedules the rebindings.
    ///
    /// # Panics
    /// When a host is unknown.
    pub fn install(self, world: &mut World, client: HostId, server: HostId) -> LinkId {
        let link = world.connect(client, server, self.link);
        if let Some(schedule) = self.rebind {
            world.schedule_rebind(client, schedule);
        }
        link
    }
}

/// The runner's default link: 15 ms each way, 10 Mb/s, a queue of 25 packets.
pub fn link() -> LinkConfig {
    LinkConfig::symmetric(direction())
}

fn direction() -> DirectionConfig {
    DirectionConfig {
        queue: QueueSize::Packets(25),
        ..DirectionConfig::new(
            Rate::from_bits_per_second(10_000_000),
            Duration::from_millis(15),
        )
    }
}

/// The names that [`scenario`] knows: the runner's active test cases and measurements.
pub const fn names() -> &'static [&'static str] {
    &[
        "handshake",
        "transfer",
        "longrtt",
        "chacha20",
        "multiplexing",
        "retry",
        "resumption",
        "zerortt",
        "http3",
        "blackhole",
        "keyupdate",
        "ecn",
        "amplificationlimit",
        "handshakeloss",
        "transferloss",
        "handshakecorruption",
        "transfercorruption",
        "ipv6",
        "v2",
        "rebind-port",
        "rebind-addr",
        "connectionmigration",
        "goodput",
        "crosstraffic",
    ]
}

/// The network of a test case. Loss and corruption hit both directions, at most three packets in
/// a row.
pub fn scenario(name: &str) -> Option<Scenario> {
    let mut scenario = Scenario {
        link: link(),
        rebind: None,
    };
    match name {
        "longrtt" => scenario.change(|d| d.delay = Duration::from_millis(750)),
        "blackhole" => scenario.change(|d| {
            d.outages.push(Outage {
                start: Duration::from_secs(5),
                duration: Duration::from_secs(2),
                every: Some(Duration::from_secs(7)),
                mode: OutageMode::Drop,
            });
        }),
        // The client's second to seventh datagram.
        "amplificationlimit" => scenario.link.forward.drop_packets.push(1..=6),
        "handshakeloss" => scenario.change(|d| d.loss = short_bursts(0.3)),
        "transferloss" => scenario.change(|d| d.loss = short_bursts(0.02)),
        "handshakecorruption" => scenario.change(|d| d.corruption = short_bursts(0.3)),
        "transfercorruption" => scenario.change(|d| d.corruption = short_bursts(0.02)),
        "rebind-port" => scenario.rebind = Some(rebind(Rebind::Port)),
        "rebind-addr" => scenario.rebind = Some(rebind(Rebind::Address)),
        other if names().contains(&other) => {}
        _ => return None,
    }
    Some(scenario)
}

impl Scenario {
    fn change(&mut self, change: impl Fn(&mut DirectionConfig)) {
        change(&mut self.link.forward);
        change(&mut self.link.backward);
    }
}

const fn short_bursts(probability: f64) -> LossModel {
    LossModel::Uniform {
        probability,
        max_burst: Some(3),
    }
}

const fn rebind(kind: Rebind) -> RebindSchedule {
    RebindSchedule {
        kind,
        first: Duration::from_secs(1),
        every: Some(Duration::from_secs(5)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_valid_and_survives_serde() {
        for name in names() {
            let scenario = scenario(name).unwrap_or_else(|| panic!("{name}"));
            scenario
                .link
                .validate()
                .unwrap_or_else(|e| panic!("{name}: {e}"));
            let text = toml::to_string(&scenario).unwrap();
            assert_eq!(
                toml::from_str::<Scenario>(&text).unwrap(),
                scenario,
                "{name}\n{text}"
            );
        }
        assert_eq!(scenario("versionnegotiation"), None);
    }
}
