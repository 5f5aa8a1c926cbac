//! Any sequence of what may befall several paths, from before the handshake is confirmed on, whatever decides what they carry:
//! while one path works nothing is lost, nothing stalls, and at the end both ends know of each path that it opened or is over.

use std::{cell::Cell, collections::BTreeMap, rc::Rc};

use bytes::Bytes;
use proptest::{prelude::*, sample::select};
use tautline_sim::{Direction, Rebind};
use tautline_transport::{
    config::TransportConfig,
    congestion,
    multipath::{AckRouting, MultipathConfig, PathCost, PathPin, PathStatus, sched},
    path::PathEvent,
    units::{PathId, Side},
};

use crate::{
    fec::protect,
    kit::{MS, SECOND},
    multipath_trouble::{MAX_PATHS, Trouble, local, side, to},
};

/// Something that happens.
#[derive(Clone, Debug)]
enum Act {
    Open {
        link: u8,
    },
    Abandon {
        by: bool,
        which: u8,
    },
    Status {
        by: bool,
        which: u8,
        backup: bool,
    },
    Rebind {
        which: u8,
    },
    Link {
        link: u8,
        up: bool,
    },
    Loss {
        link: u8,
        percent: u8,
    },
    Keys {
        by: bool,
    },
    Transfer {
        by: bool,
        kilobytes: u16,
    },
    Cost {
        by: bool,
        which: u8,
        class: u8,
    },
    Pin {
        by: bool,
        which: u8,
        stream: u8,
    },
    Wait {
        millis: u16,
    },
    /// Nothing passes a link in one direction, or everything again.
    OneWay {
        link: u8,
        forward: bool,
        dead: bool,
    },
    /// A NAT changes port, address or both.
    Nat {
        kind: u8,
    },
    Datagrams {
        by: bool,
        count: u8,
    },
    /// Both ends give a path up at once.
    AbandonByBoth {
        which: u8,
    },
    /// A further path over the link of another one, which then takes the other one's address.
    OpenBeside {
        which: u8,
    },
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let (by, small) = (any::<bool>(), 0..8u8);
    let act = prop_oneof![
        3 => small.clone().prop_map(|link| Act::Open { link }),
        2 => (by, small.clone()).prop_map(|(by, which)| Act::Abandon { by, which }),
        1 => (by, small.clone(), any::<bool>())
            .prop_map(|(by, which, backup)| Act::Status { by, which, backup }),
        2 => small.clone().prop_map(|which| Act::Rebind { which }),
        3 => (small.clone(), any::<bool>()).prop_map(|(link, up)| Act::Link { link, up }),
        1 => (small, 0..30u8).prop_map(|(link, percent)| Act::Loss { link, percent }),
        1 => by.prop_map(|by| Act::Keys { by }),
        3 => (by, 1..800u16).prop_map(|(by, kilobytes)| Act::Transfer { by, kilobytes }),
        2 => (any::<bool>(), 0..8u8, 0..8u8)
            .prop_map(|(by, which, stream)| Act::Pin { by, which, stream }),
        1 => (any::<bool>(), 0..8u8, 0..3u8)
            .prop_map(|(by, which, class)| Act::Cost { by, which, class }),
        4 => (1..1_500u16).prop_map(|millis| Act::Wait { millis }),
        2 => (0..8u8, any::<bool>(), any::<bool>())
            .prop_map(|(link, forward, dead)| Act::OneWay { link, forward, dead }),
        1 => (0..3u8).prop_map(|kind| Act::Nat { kind }),
        1 => (any::<bool>(), 1..40u8).prop_map(|(by, count)| Act::Datagrams { by, count }),
        1 => (0..8u8).prop_map(|which| Act::AbandonByBoth { which }),
        1 => (0..8u8).prop_map(|which| Act::OpenBeside { which }),
    ];
    prop::collection::vec(act, 1..40)
}

/// Which links work.
struct Ways {
    up: Vec<bool>,
    /// By link: what stops a direction.
    one_way: Vec<[Rc<Cell<bool>>; 2]>,
}

impl Ways {
    fn works(&self, link: usize) -> bool {
        self.up[link] && self.one_way[link].iter().all(|dead| !dead.get())
    }
}

impl Trouble {
    fn link_of(&self, id: PathId) -> usize {
        let client = self.net.client_connection();
        let stats = client.path_stats(id);
        let ip = stats.map(|path| path.four_tuple.local.ip());
        (0..self.links.len())
            .find(|link| Some(local(*link, 1).ip()) == ip)
            .unwrap_or(0)
    }

    /// Whether a path works at both ends, over a link that is up and not `but_link`, beside `but`.
    fn one_lives_without(&self, but: Option<PathId>, but_link: Option<usize>, ways: &Ways) -> bool {
        self.net.client_connection().paths().any(|id| {
            let link = self.link_of(id);
            Some(id) != but
                && Some(link) != but_link
                && ways.works(link)
                && self.works(Side::Client, id)
                && self.works(Side::Server, id)
        })
    }

    fn nth(&self, which: u8) -> PathId {
        let paths = self.paths(Side::Client);
        PathId(paths[usize::from(which) % paths.len()])
    }

    fn act(&mut self, act: &Act, ways: &mut Ways) {
        let links = self.links.len();
        match *act {
            Act::Open { link } => {
                let link = usize::from(link) % links;
                self.next_port += 1;
                let to = to(link, self.next_port);
                let _ = self.net.on_client(|client, now| client.open_path(now, to));
            }
            Act::Abandon { by, which } => {
                let id = self.nth(which);
                if self.one_lives_without(Some(id), None, ways) {
                    let _ = self.on(side(by), |connection, now| {
                        connection.abandon_path(now, id, 0x3e)
                    });
                    // The other end must know before it abandons the rest.
                    self.run(300 * MS);
                }
            }
            Act::Status { by, which, backup } => {
                let id = self.nth(which);
                let status = match backup {
                    true => PathStatus::Backup,
                    false => PathStatus::Available,
                };
                let _ = self.on(side(by), |connection, _| {
                    connection.set_path_status(id, status)
                });
            }
            Act::Rebind { which } => {
                let id = self.nth(which);
                let link = self.link_of(id);
                if ways.works(link) || self.one_lives_without(Some(id), None, ways) {
                    self.next_port += 1;
                    let to = local(link, self.next_port);
                    let _ = self
                        .net
                        .on_client(|client, now| client.rebind_path(now, id, to));
                }
            }
            Act::Link { link, up: wanted } => {
                let link = usize::from(link) % links;
                if wanted || self.one_lives_without(None, Some(link), ways) {
                    ways.up[link] = wanted;
                    self.set_link(link, wanted);
                }
            }
            Act::Loss { link, percent } => {
                let link = usize::from(link) % links;
                self.set_loss(link, f64::from(percent) / 100.0);
            }
            Act::Keys { by } => {
                let _ = self.on(side(by), |connection, now| {
                    connection.initiate_key_update(now)
                });
            }
            Act::Transfer { by, kilobytes } => {
                self.transfer(side(by), u64::from(kilobytes) * 1_000);
            }
            Act::Cost { by, which, class } => {
                // No cap: a path that it ends may be the last, if another is abandoned at once.
                let id = self.nth(which);
                let cost = PathCost::default().class(class);
                let _ = self.on(side(by), |connection, now| {
                    connection.set_path_cost(now, id, cost)
                });
            }
            Act::Pin { by, which, stream } => {
                let path = self.nth(which);
                let pin = match stream % 3 {
                    0 => PathPin::Only(path),
                    _ => PathPin::Prefer(path),
                };
                let at = self.flows.len().saturating_sub(1 + usize::from(stream));
                if let Some(flow) = self.flows.get(at).filter(|flow| flow.sender == side(by)) {
                    let id = flow.id;
                    self.pin(side(by), id, Some(pin));
                }
            }
            Act::Wait { millis } => self.run(u32::from(millis) * MS),
            Act::OneWay {
                link,
                forward,
                dead,
            } => {
                let link = usize::from(link) % links;
                if !dead || self.one_lives_without(None, Some(link), ways) {
                    ways.one_way[link][usize::from(forward)].set(dead);
                }
            }
            Act::Nat { kind } => {
                let kinds = [Rebind::Port, Rebind::Address, Rebind::AddressAndPort];
                self.nat(kinds[usize::from(kind)]);
            }
            Act::Datagrams { by, count } => self.on(side(by), |connection, _| {
                for number in 0..count {
                    let data = vec![number; 1 + usize::from(number) * 27];
                    let _ = connection.send_datagram(Bytes::from(data));
                }
                while connection.recv_datagram().is_some() {}
            }),
            Act::AbandonByBoth { which } => {
                let id = self.nth(which);
                if self.one_lives_without(Some(id), None, ways) {
                    for side in [Side::Client, Side::Server] {
                        let _ = self.on(side, |connection, now| {
                            connection.abandon_path(now, id, 0x3e)
                        });
                    }
                    self.run(300 * MS);
                }
            }
            Act::OpenBeside { which } => {
                let id = self.nth(which);
                let beside = self.net.client_connection().path_stats(id);
                let link = self.link_of(id);
                self.next_port += 1;
                let to = to(link, self.next_port);
                let opened = self.net.on_client(|client, now| client.open_path(now, to));
                if let (Ok(new), Some(beside)) = (opened, beside) {
                    let at = beside.four_tuple.local;
                    let _ = self
                        .net
                        .on_client(|client, now| client.rebind_path(now, new, at));
                }
            }
        }
    }

    /// What would wait for a dead path goes by the others.
    fn let_go(&mut self) {
        let all: Vec<_> = self.flows.iter().map(|it| (it.sender, it.id)).collect();
        for (sender, id) in all {
            self.pin(sender, id, None);
        }
    }
}

fn routings() -> impl Strategy<Value = AckRouting> {
    prop_oneof![
        Just(AckRouting::SamePath),
        Just(AckRouting::OnePath),
        Just(AckRouting::Grouped),
        Just(AckRouting::Alternate),
    ]
}

/// What decides, and when it all begins.
#[derive(Clone, Debug)]
struct Policies {
    early: bool,
    /// The client's and the server's.
    routings: [AckRouting; 2],
    scheduler: &'static str,
    controller: &'static str,
    redundancy: Option<&'static str>,
}

fn policies() -> impl Strategy<Value = Policies> {
    let schedulers: Vec<_> = sched::registry::names().collect();
    let controllers: Vec<_> = congestion::registry::names().collect();
    let codes = vec![
        None,
        None,
        Some("auto"),
        Some("constant:10,8"),
        Some("quirl-object"),
        Some("flec-bulk"),
        Some("flec-message"),
        Some("ac-rlnc"),
        Some("rquic"),
        Some("tail"),
    ];
    (
        any::<bool>(),
        [routings(), routings()],
        prop_oneof![1 => Just("auto"), 1 => select(schedulers)],
        select(controllers),
        select(codes),
    )
        .prop_map(
            |(early, routings, scheduler, controller, redundancy)| Policies {
                early,
                routings,
                scheduler,
                controller,
                redundancy,
            },
        )
}

fn live_through(seed: u64, links: usize, policies: &Policies, acts: &[Act]) {
    let next = Cell::new(0);
    let begin = if policies.early {
        Trouble::early
    } else {
        Trouble::new
    };
    let mut trouble = begin(seed, links, &|config: &mut TransportConfig| {
        // First the client's, then the server's.
        let mut multipath = MultipathConfig::default();
        multipath.ack_routing = policies.routings[next.replace(1)];
        multipath.scheduler = sched::registry::by_name(policies.scheduler).expect("one of them");
        config.multipath = Some(multipath);
        config.keep_alive_interval = Some(2 * SECOND);
        config.congestion =
            congestion::registry::by_name(policies.controller).expect("one of them");
        if let Some(redundancy) = policies.redundancy {
            protect(config, redundancy);
            config.fec.protect_datagrams = seed.is_multiple_of(2);
            config.fec.padding = seed.is_multiple_of(3);
        }
    });
    let one_way = |link| Direction::BOTH.map(|direction| trouble.one_way(link, direction));
    let mut ways = Ways {
        up: vec![true; links],
        one_way: (0..links).map(one_way).collect(),
    };
    for act in acts {
        trouble.act(act, &mut ways);
        assert_eq!(trouble.ended(), None, "{act:?}");
        for side in [Side::Client, Side::Server] {
            assert!(trouble.paths(side).len() <= MAX_PATHS);
        }
    }
    for link in 0..links {
        trouble.set_loss(link, 0.0);
    }
    // At least one path lives: that must do.
    trouble.let_go();
    trouble.deliver(120 * SECOND);
    for link in 0..links {
        trouble.set_link(link, true);
        ways.one_way[link].iter().for_each(|dead| dead.set(false));
    }
    trouble.net.run_for(30 * SECOND);
    assert_eq!(trouble.ended(), None);
    for side in [Side::Client, Side::Server] {
        let left = trouble.on(side, |connection, _| connection.stream_stats());
        assert_eq!(left.send_buffered_bytes, 0);
        let events = trouble.path_events(side);
        for id in trouble.paths(side).into_iter().filter(|id| *id > 0) {
            let told = |event: &PathEvent| matches!(event, PathEvent::Validated { path, .. } | PathEvent::Abandoned { path, .. } if path.0 == id);
            assert!(
                events.iter().any(told),
                "{side:?}: path {id} is neither open nor over: {events:?}"
            );
        }
        check_silences(&events);
    }
}

/// Lost follows degraded, recovered either of them, and nothing follows the end.
fn check_silences(events: &[PathEvent]) {
    let mut last = BTreeMap::new();
    for event in events {
        let (path, after): (PathId, &[&str]) = match event {
            PathEvent::Degraded { path } => (*path, &["", "recovered"]),
            PathEvent::Lost { path } => (*path, &["degraded"]),
            PathEvent::Recovered { path } => (*path, &["degraded", "lost"]),
            PathEvent::Abandoned { path, .. } => (*path, &["", "degraded", "lost", "recovered"]),
            _ => continue,
        };
        let now = match event {
            PathEvent::Degraded { .. } => "degraded",
            PathEvent::Lost { .. } => "lost",
            PathEvent::Recovered { .. } => "recovered",
            _ => "over",
        };
        let before = last.insert(path, now).unwrap_or_default();
        assert!(after.contains(&before), "{event:?}: {events:?}");
    }
}

proptest! {
    // PROPTEST_RNG_SEED fixes the cases, PROPTEST_CASES their number.
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        max_shrink_iters: 200,
        ..ProptestConfig::with_cases(
            std::env::var("PROPTEST_CASES").map_or(100, |cases| cases.parse().unwrap_or(100))
        )
    })]
    #[test]
    fn any_sequence_of_troubles_is_survived(
        seed in any::<u64>(),
        links in 1..6usize,
        policies in policies(),
        acts in acts(),
    ) {
        live_through(seed, links, &policies, &acts);
    }
}
