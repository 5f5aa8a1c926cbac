//! The transport on hosts with several addresses.

use std::sync::Arc;

use tautline_sim::{
    Direction, DirectionConfig, LinkConfig, World,
    quic::{App, Context, QuicHost},
    tls,
};
use tautline_transport::{
    config::{ClientConfig, EndpointConfig, ServerConfig},
    connection::Event,
    endpoint::{ConnectionHandle, Endpoint},
    path::PathStats,
    units::PathId,
};

use crate::nodes::{B, addr, at, ms};

const HOMES: [&str; 2] = ["10.0.0.1:1000", "10.0.1.1:1000"];

/// Connects from one of its addresses.
struct Caller {
    from: Option<&'static str>,
    connected: bool,
}

impl App for Caller {
    fn on_start(&mut self, cx: &mut Context<'_>) {
        let config = ClientConfig::new(Arc::new(tls::client(1)));
        if let Some(from) = self.from {
            cx.connect_from(addr(from), config, addr(B), "localhost")
                .unwrap();
        }
    }

    fn on_event(&mut self, _: &mut Context<'_>, _: ConnectionHandle, event: Event) {
        self.connected |= matches!(event, Event::Connected);
    }
}

/// A connection goes over the link of the address that it was made from, and so do answers.
#[test]
fn connections_keep_to_the_address_they_were_made_from() {
    for (chosen, from) in HOMES.into_iter().enumerate() {
        let mut world = World::new(1);
        let endpoint = Arc::new(EndpointConfig::default());
        let client = Endpoint::new(Arc::clone(&endpoint), None, world.rng(1));
        let server = ServerConfig::new(Arc::new(tls::server(1)));
        let server = Endpoint::new(endpoint, Some(Arc::new(server)), world.rng(2));
        let app = |from| Caller {
            from,
            connected: false,
        };
        let homes = HOMES.map(addr);
        let near = QuicHost::new(client, homes[0], app(Some(from)));
        let near = world.add_host(homes, Box::new(near));
        let far = QuicHost::new(server, addr(B), app(None));
        let far = world.add_host(addr(B), Box::new(far));
        let links = homes.map(|home| {
            let config = LinkConfig::symmetric(DirectionConfig {
                delay: ms(10),
                ..DirectionConfig::default()
            });
            let ends = ((near, Some(home.ip())), (far, None));
            world.try_connect(ends.0, ends.1, config).unwrap()
        });
        world.run_until(at(ms(500)));
        let (near, far) = (
            world.node::<QuicHost<Caller>>(near),
            world.node::<QuicHost<Caller>>(far),
        );
        assert!(near.app().connected && far.app().connected);
        let (_, ours) = near.connections().next().unwrap();
        let (_, theirs) = far.connections().next().unwrap();
        let at = |stats: Option<PathStats>| stats.unwrap().four_tuple.local;
        assert_eq!(at(ours.path_stats(PathId::ZERO)), addr(from));
        assert_eq!(theirs.remote_address(), addr(from));
        assert_eq!(at(theirs.path_stats(PathId::ZERO)), addr(B));
        for (index, link) in links.into_iter().enumerate() {
            for direction in [Direction::Forward, Direction::Backward] {
                let sent = world.link_stats(link, direction).sent_packets;
                assert_eq!(sent > 0, index == chosen, "{from} {direction:?}");
            }
        }
    }
}
