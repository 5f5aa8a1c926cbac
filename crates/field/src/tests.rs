//! Both ends over loopback, in one process.

use std::{
    collections::BTreeSet,
    fs,
    future::Future,
    net::SocketAddr,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use tautline::{
    Endpoint,
    tls::{self, ClientTls},
};
use tautline_lab::{
    campaign::{self, Ending},
    plan::{FieldOptions, Plan, ReadOptions},
    report,
    stack::Stacks,
    table::Value,
};

use crate::{
    far::{Far, Limits},
    near::{Address, FieldError, Settings, campaign},
    talk::{self, Answer, Ask, Hello},
};

const TOKEN: &str = "a word that nobody guesses";

/// A far end on loopback that serves until the test is over.
fn far(limits: Limits) -> SocketAddr {
    let identity = tls::self_signed(["localhost"]).unwrap();
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let far = Far::bind(listen, TOKEN.to_owned(), limits, move || identity.server()).unwrap();
    let at = far.endpoint().local_addr();
    tokio::spawn(async move { far.serve(|line| println!("far: {line}")).await });
    at
}

fn address(at: SocketAddr) -> Address {
    Address {
        host: at.ip().to_string(),
        port: at.port(),
        token: TOKEN.to_owned(),
        pin: None,
    }
}

fn settings(folder: &Path) -> Settings {
    Settings {
        folder: folder.to_owned(),
        resume: false,
        pause: Duration::ZERO,
    }
}

fn options() -> ReadOptions {
    ReadOptions {
        field: Some(FieldOptions::default()),
        ..ReadOptions::default()
    }
}

fn read(text: &str, options: &ReadOptions) -> Result<Plan, String> {
    let plan = Plan::parse(text, Path::new("."), options, &Stacks::default());
    plan.map_err(|error| error.to_string())
}

fn plan(flows: &str) -> String {
    format!(
        "name = 'small'\ntitle = 'A small plan'\n[network]\nlink = 'wifi'\n{flows}\n\
         [[solution]]\nname = 'cubic'\ncongestion = 'cubic'\n\
         [[solution]]\nname = 'bbr3'\ncongestion = 'bbr3'\n\
         [[design.factor]]\nname = 'loss'\npath = 'network.loss'\nvalues = ['0 %', '5 %']\n\
         [[design.factor]]\nname = 'size'\npath = 'flow.main.workload.bytes'\nvalues = ['20 kB', '2 MB']\n\
         [run]\nseeds = 2\nlimit = '20 s'\nsample = '10 ms'\nitems = true\nseries = '50 ms'\n\
         [report]\nbaseline = 'cubic'\nx = 'loss'\n"
    )
}

const BULK: &str = "[[flow]]\nname = 'main'\nworkload = { kind = 'bulk', bytes = '1 MB' }";

/// A plan of one point with this workload, and `cubic` alone.
fn only(workload: &str) -> String {
    format!(
        "name = 'one'\ntitle = 'One'\n[network]\nlink = 'wifi'\n[[flow]]\nname = 'main'\n\
         workload = {{ {workload} }}\n[[solution]]\nname = 'cubic'\ncongestion = 'cubic'\n\
         [run]\nlimit = '20 s'\nsample = '10 ms'\nitems = true\n"
    )
}

/// In a runtime as the program has it.
fn run<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let bounded = tokio::time::timeout(Duration::from_secs(120), work);
        bounded.await.expect("the test hangs")
    })
}

fn texts(results: &campaign::Results, column: &str) -> Vec<String> {
    let text = |value: &Value| match value {
        Value::None(()) => String::new(),
        Value::Text(text) => text.clone(),
        Value::Integer(number) => number.to_string(),
        Value::Number(number) => number.to_string(),
    };
    results.cells.values(column).map(text).collect()
}

fn number(results: &campaign::Results, column: &str) -> Option<f64> {
    results.cells.values(column).next()?.as_number()
}

/// Plays a plan of one run; its results.
async fn one(at: SocketAddr, text: &str) -> campaign::Results {
    let folder = tempfile::tempdir().unwrap();
    let plan = read(text, &options()).unwrap();
    let never = AtomicBool::new(false);
    let ending = campaign(
        &plan,
        &address(at),
        &settings(folder.path()),
        &never,
        |_| {},
    )
    .await;
    assert!(matches!(ending.unwrap(), Ending::Complete(_)));
    campaign::results(&plan, folder.path()).unwrap()
}

/// The order follows from the draw, runs of a block stand together, and each is there once.
#[test]
fn the_order_is_drawn_and_reproducible() {
    let order = |draw| {
        let options = ReadOptions {
            draw,
            seeds: Some(20),
            ..options()
        };
        let plan = read(&plan(BULK), &options).unwrap();
        let turns = campaign::turns(&plan);
        let all: BTreeSet<usize> = turns.iter().map(|turn| turn.cell.index).collect();
        // The network's factor is gone, and with it half of the points.
        assert_eq!((all.len(), plan.factors.len()), (80, 1));
        for (place, turn) in (0..).zip(&turns) {
            assert_eq!((turn.order, turn.block), (place, place / 2));
        }
        for block in turns.chunks(2) {
            let of = |turn: &campaign::Turn| (turn.cell.point, turn.cell.repetition);
            assert_eq!(of(&block[0]), of(&block[1]));
        }
        turns.iter().map(|turn| turn.cell.index).collect::<Vec<_>>()
    };
    assert_eq!(order(1), order(1));
    assert_ne!(order(1), order(2));
    // Neither solution comes first always.
    let first: Vec<usize> = order(1).chunks(2).map(|block| block[0] / 20 % 2).collect();
    assert!(first.contains(&0) && first.contains(&1), "{first:?}");
}

/// Rows are complete; stopped and resumed, none is lost and none is made twice.
#[test]
fn a_campaign_is_made_stopped_and_resumed() {
    run(async {
        let at = far(Limits::default());
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let plan = read(&plan(BULK), &options()).unwrap();
        assert_eq!(plan.len(), 8);
        let stop = AtomicBool::new(false);
        let mut how = settings(folder);
        let there = address(at);
        let ending = campaign(&plan, &there, &how, &stop, |progress| {
            stop.store(progress.done == 3, Ordering::Relaxed);
        });
        assert!(matches!(ending.await.unwrap(), Ending::Stopped(_)));
        let journal = fs::read_to_string(folder.join("journal.jsonl")).unwrap();
        assert_eq!(journal.lines().count(), 3);
        // As a kill leaves it: the last row is cut off, and made again.
        let cut = journal.len() - 10;
        fs::write(folder.join("journal.jsonl"), &journal[..cut]).unwrap();
        stop.store(false, Ordering::Relaxed);
        let again = campaign(&plan, &address(at), &how, &stop, |_| {}).await;
        assert!(again.unwrap_err().to_string().contains("--resume"));
        how.resume = true;
        let ending = campaign(&plan, &address(at), &how, &stop, |_| {}).await;
        assert!(matches!(ending.unwrap(), Ending::Complete(_)));

        let resumed = fs::read_to_string(folder.join("journal.jsonl")).unwrap();
        let kept: Vec<&str> = journal.lines().take(2).collect();
        let lines: Vec<&str> = resumed.lines().collect();
        assert_eq!(lines.len(), 8);
        assert_eq!(lines[..2], kept[..]);
        let cells: Vec<usize> = lines
            .iter()
            .map(|line| serde_json::from_str::<campaign::Entry>(line).unwrap().cell)
            .collect();
        let turns = campaign::turns(&plan);
        let drawn: Vec<usize> = turns.iter().map(|turn| turn.cell.index).collect();
        assert_eq!(cells, drawn);

        let results = campaign::results(&plan, folder).unwrap();
        assert_eq!(results.missing, 0);
        assert!(
            texts(&results, "status")
                .iter()
                .all(|status| status == "ok")
        );
        for column in [
            "completion_s",
            "request_completion_s",
            "goodput_mbps",
            "rtt_mean_ms",
            "packets_sent",
            "packets_lost",
            "spurious_losses",
            "ptos",
            "overhead",
            "acks_per_packet",
            "item_p50_ms",
            "control_rtt_ms",
            "clock_error_ms",
            "started",
            "order",
            "block",
            "network",
        ] {
            let rows = texts(&results, column);
            assert_eq!(rows.len(), 8, "{column}");
            assert!(
                rows.iter().all(|value| !value.is_empty()),
                "{column}: {rows:?}"
            );
        }
        for column in ["utilisation", "queue_delay_ms", "events"] {
            assert!(
                texts(&results, column).iter().all(String::is_empty),
                "{column}"
            );
        }
        assert_eq!(results.items.rows.len(), 8);
        assert!(!results.series.rows.is_empty());
        assert_eq!(results.flows.rows.len(), 8);
        let parameters = texts(&results, "parameters");
        assert!(parameters[0].contains("left aside"), "{}", parameters[0]);

        report::write(&plan, &results, folder).unwrap();
        let page = fs::read_to_string(folder.join("summary.md")).unwrap();
        for words in [
            "(field data)",
            "two real machines",
            "lab field small",
            "pairs",
        ] {
            assert!(page.contains(words), "{words}: {page}");
        }
        let schema = fs::read_to_string(folder.join("schema.md")).unwrap();
        assert!(schema.contains("Rows are measurements") && schema.contains("`started`"));
    });
}

/// Every kind of workload, and both directions, over sockets.
#[test]
fn every_workload_runs() {
    run(async {
        let at = far(Limits::default());
        for (workload, received, items) in [
            ("kind = 'bulk', bytes = '3 MB'", 3e6, 1.0),
            ("kind = 'bulk', bytes = '3 MB', direction = 'up'", 3e6, 1.0),
            ("kind = 'bulk', bytes = '100 kB', streams = 30", 3e6, 30.0),
            (
                "kind = 'objects', bytes = '10 kB', count = 200, parallel = 6",
                2e6,
                200.0,
            ),
            (
                "kind = 'objects', bytes = '1 kB', count = 20, every = '5 ms', think = '3 ms'",
                2e4,
                20.0,
            ),
            (
                "kind = 'messages', trace = { constant = { bytes = '2 kB', every = '10 ms', count = 50 } }",
                1e5,
                50.0,
            ),
            (
                "kind = 'messages', direction = 'up', api = 'messages', deadline = '300 ms', \
                 trace = { constant = { bytes = '2 kB', every = '10 ms', count = 50 } }",
                1e5,
                50.0,
            ),
            (
                "kind = 'datagrams', rate = '800 kb/s', bytes = '1000 B', duration = '1 s'",
                1e5,
                100.0,
            ),
            (
                "kind = 'datagrams', rate = '800 kb/s', bytes = '1000 B', duration = '1 s', direction = 'up'",
                1e5,
                100.0,
            ),
            (
                "kind = 'page', page = 'objects-30', compute = 0.0",
                1_818_624.0,
                30.0,
            ),
            (
                "kind = 'urgent', transfer = '20 MB', object = '1 kB', count = 3, within = '10 ms'",
                2e7,
                0.0,
            ),
            (
                "kind = 'video', duration = '2 s', segment = '1 s', startup = '1 s'",
                0.0,
                2.0,
            ),
        ] {
            let results = one(at, &only(workload)).await;
            let status = texts(&results, "status");
            assert_eq!(
                status,
                ["ok"],
                "{workload}: {:?}",
                texts(&results, "reason")
            );
            let flow = results.flows.values("received_bytes").next().unwrap();
            let got = flow.as_number().unwrap();
            assert!(got >= received, "{workload}: {got} of {received}");
            let done = number(&results, "items_done").unwrap();
            assert!(done >= items, "{workload}: {done} of {items}");
            let took = number(&results, "completion_s").unwrap();
            assert!(took > 0.0 && took < 15.0, "{workload}: {took}");
            for column in ["packets_sent", "overhead", "acks_per_packet"] {
                assert!(number(&results, column).is_some(), "{workload}: {column}");
            }
            if let Some(error) = number(&results, "clock_error_ms") {
                // Both ends have one clock here: what is told of the difference bounds it.
                let most = number(&results, "item_max_ms").unwrap_or(0.0);
                assert!(error < 1_000.0 && most >= -error, "{workload}: {error}");
            }
        }
    });
}

/// Cross traffic, erasure correction, a stop: what a scene may have besides one download.
#[test]
fn several_connections_run_at_once() {
    run(async {
        let at = far(Limits::default());
        let text = "name = 'two'\ntitle = 'Two'\n[network]\nlink = 'wifi'\n\
                    [[flow]]\nname = 'main'\nworkload = { kind = 'bulk', bytes = '5 MB' }\nstart = '100 ms'\n\
                    [[flow]]\nname = 'other'\nworkload = { kind = 'bulk' }\nmeasure = false\ncount = 2\n\
                    stop = '500 ms'\nstack = { congestion = 'newreno' }\n\
                    [[solution]]\nname = 'fec'\nfec = 'constant:25,20'\n[run]\nlimit = '20 s'\n";
        let results = one(at, text).await;
        assert_eq!(
            texts(&results, "status"),
            ["ok"],
            "{:?}",
            texts(&results, "reason")
        );
        assert_eq!(results.flows.rows.len(), 3);
        let repairs: Vec<f64> = results
            .flows
            .values("repair_sent")
            .filter_map(Value::as_number)
            .collect();
        assert!(repairs[0] > 0.0 && repairs[1] == 0.0, "{repairs:?}");
        let got = results.flows.values("received_bytes");
        assert!(got.filter_map(Value::as_number).all(|bytes| bytes > 0.0));
    });
}

/// What a plan cannot have between two machines is said before anybody is called.
#[test]
fn what_cannot_be_played_is_said() {
    for (solution, words) in [
        ("stack = 'split-tcp'", "has no sockets here"),
        (
            "multipath = 'auto'",
            "the one path that the system's routes give",
        ),
        (
            "fec = 'constant:25,20'\nfec_mode = 'mask'",
            "no real network should see it",
        ),
        ("receive_window = '1 GiB'", "more than the 64 MiB"),
    ] {
        let text = plan(BULK).replace("congestion = 'bbr3'", solution);
        let told = read(&text, &options()).unwrap_err();
        assert!(
            told.contains(words) && told.contains("solution.bbr3"),
            "{told}"
        );
        let chosen = ReadOptions {
            field: Some(FieldOptions {
                solutions: vec!["cubic".to_owned()],
            }),
            ..ReadOptions::default()
        };
        assert_eq!(read(&text, &chosen).unwrap().len(), 4);
    }
    let unknown = ReadOptions {
        field: Some(FieldOptions {
            solutions: vec!["cubik".to_owned()],
        }),
        ..ReadOptions::default()
    };
    let told = read(&plan(BULK), &unknown).unwrap_err();
    assert!(told.contains("did you mean `cubic`"), "{told}");
    let many = "[[flow]]\nname = 'main'\ncount = 17\nworkload = { kind = 'bulk', bytes = '1 MB' }";
    let told = read(&plan(many), &options()).unwrap_err();
    assert!(told.contains("at most 16"), "{told}");
}

/// A run that the far end refuses, or that does not finish, is a row; the others are made.
#[test]
fn a_run_that_fails_is_a_row() {
    run(async {
        let limits = Limits {
            bytes: 1_000_000,
            ..Limits::default()
        };
        let at = far(limits);
        let folder = tempfile::tempdir().unwrap();
        let plan = read(&plan(BULK), &options()).unwrap();
        let never = AtomicBool::new(false);
        let (there, how) = (address(at), settings(folder.path()));
        let ending = campaign(&plan, &there, &how, &never, |_| {}).await;
        assert!(matches!(ending.unwrap(), Ending::Complete(progress) if progress.troubled == 4));
        let results = campaign::results(&plan, folder.path()).unwrap();
        let sizes = texts(&results, "f_size");
        for ((size, status), reason) in sizes
            .iter()
            .zip(texts(&results, "status"))
            .zip(texts(&results, "reason"))
        {
            match size.as_str() {
                "20 kB" => assert_eq!(status, "ok", "{reason}"),
                _ => assert!(
                    status == "refused" && reason.contains("--max-bytes"),
                    "{reason}"
                ),
            }
        }
        assert!(
            texts(&results, "started")
                .iter()
                .all(|at| at.ends_with('Z'))
        );

        // Without a size it gets what is left of the far end's limit, and then no more.
        let endless = one(at, &only("kind = 'bulk'")).await;
        assert_eq!(texts(&endless, "status"), ["error"]);
        let reason = &texts(&endless, "reason")[0];
        assert!(
            reason.contains("more bytes than the run may have"),
            "{reason}"
        );
        let got = endless.flows.values("received_bytes").next().unwrap();
        assert!(got.as_number().unwrap() <= 1e6, "{got:?}");

        let short = only("kind = 'bulk'").replace("'20 s'", "'300 ms'");
        let short = one(far(Limits::default()), &short).await;
        assert_eq!(texts(&short, "status"), ["ok"]);
        let window = number(&short, "end_s").unwrap();
        assert!((0.29..0.35).contains(&window), "{window}");

        let long = only("kind = 'bulk'").replace("'20 s'", "'7200 s'");
        let long = one(at, &long).await;
        assert!(texts(&long, "reason")[0].contains("--max-duration"));
    });
}

/// Who cannot be had, or should not be, is told apart, and nothing is written.
#[test]
fn those_who_may_not_are_told_why() {
    run(async {
        let at = far(Limits::default());
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("none");
        let plan = read(&plan(BULK), &options()).unwrap();
        let never = AtomicBool::new(false);
        let how = settings(&folder);
        let fail = async |address: &Address| {
            let ending = campaign(&plan, address, &how, &never, |_| {}).await;
            ending.unwrap_err()
        };
        let token = Address {
            token: "another word".to_owned(),
            ..address(at)
        };
        let told = fail(&token).await;
        assert!(matches!(told, FieldError::Refused { .. }), "{told}");
        assert!(
            told.to_string().contains("the token is another one"),
            "{told}"
        );
        let pin = Address {
            pin: Some("00".repeat(32).parse().unwrap()),
            ..address(at)
        };
        assert!(matches!(fail(&pin).await, FieldError::Pin { .. }));
        let nobody = Address {
            port: 1,
            ..address(at)
        };
        let told = fail(&nobody).await;
        assert!(matches!(told, FieldError::Unreachable { .. }), "{told}");
        // A server of something else.
        let identity = tls::self_signed(["localhost"]).unwrap();
        let other = identity.server().alpn(["h3"]).build().unwrap();
        let other = Endpoint::server(other, SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let elsewhere = address(other.local_addr());
        tokio::spawn(async move {
            while let Some(incoming) = other.accept().await {
                tokio::spawn(incoming.into_future());
            }
        });
        let told = fail(&elsewhere).await;
        assert!(matches!(told, FieldError::Stranger { .. }), "{told}");
        assert!(!folder.exists());
        let simulated = read(&self::plan(BULK), &ReadOptions::default()).unwrap();
        let ending = campaign(&simulated, &address(at), &how, &never, |_| {}).await;
        assert!(matches!(ending, Err(FieldError::Simulated)));
    });
}

/// A control connection that does as it likes.
struct Rude {
    _endpoint: Endpoint,
    connection: tautline::Connection,
    send: tautline::SendStream,
    recv: tautline::RecvStream,
}

impl Rude {
    async fn connect(at: SocketAddr) -> Self {
        let tls = ClientTls::danger_accept_any_certificate().alpn([talk::CONTROL]);
        let endpoint = Endpoint::client(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let connecting = endpoint.connect_with(tls.build().unwrap(), at, "localhost");
        let connection = connecting.unwrap().await.unwrap();
        let (send, recv) = connection.open_bi().await.unwrap();
        Self {
            _endpoint: endpoint,
            connection,
            send,
            recv,
        }
    }

    async fn say(&mut self, text: &[u8]) -> Option<Answer> {
        let mut message = (text.len() as u32).to_be_bytes().to_vec();
        message.extend_from_slice(text);
        self.send.write_all(&message).await.ok()?;
        talk::read(&mut self.recv, 1 << 20).await.ok()
    }

    async fn ask(&mut self, ask: &Ask) -> Option<Answer> {
        self.say(&serde_json::to_vec(ask).unwrap()).await
    }

    fn hello(&self, version: u32) -> Ask {
        use crate::trust::{Prover, proof};
        Ask::Hello(Hello {
            version,
            laboratory: crate::far::laboratory(),
            proof: proof(&self.connection, TOKEN, Prover::Near).unwrap(),
        })
    }
}

fn reason(answer: Option<Answer>) -> String {
    match answer {
        Some(Answer::Refused { reason }) => reason,
        other => format!("{other:?}"),
    }
}

/// Whatever comes, the far end answers with a sentence or hangs up, and serves the next one.
#[test]
fn hostile_peers_get_nothing() {
    run(async {
        let limits = Limits {
            peers: 2,
            ..Limits::default()
        };
        let at = far(limits);
        let mut rude = Rude::connect(at).await;
        let other_version = rude.hello(7);
        assert!(reason(rude.ask(&other_version).await).contains("the same tautline"));
        for garbage in [&b"{}"[..], b"[[[[", b"{\"ask\":\"clock\"}", b"\xff\xfe"] {
            let answer = Rude::connect(at).await.say(garbage).await;
            assert!(
                matches!(answer, None | Some(Answer::Refused { .. })),
                "{answer:?}"
            );
        }
        // More than a stranger may say is not read.
        assert!(
            Rude::connect(at)
                .await
                .say(&[b' '; 8 << 10])
                .await
                .is_none()
        );
        let knock = Ask::Knock {
            key: "x".to_owned(),
        };
        assert!(reason(Rude::connect(at).await.ask(&knock).await).contains("no run"));

        let mut peer = Rude::connect(at).await;
        let hello = peer.hello(talk::VERSION);
        assert!(matches!(peer.ask(&hello).await, Some(Answer::Hello(_))));
        assert!(reason(peer.ask(&Ask::Finish).await).contains("no run was prepared"));
        assert!(reason(peer.ask(&Ask::Begin { zero_nanos: 0 }).await).contains("no run"));
        let prepare = |workload: &str, options: &str| {
            format!(
                "{{\"ask\":\"prepare\",\"limit_nanos\":1000000000,\"sample_nanos\":0,\"files\":{{}},\
                 \"flows\":[{{\"workload\":{workload},\"options\":{{{options}}},\"seed\":1}}]}}"
            )
        };
        let bulk = "{\"kind\":\"bulk\",\"bytes\":1000}";
        for (workload, options, words) in [
            (
                "{\"kind\":\"bulk\",\"bytes\":0}",
                "",
                "nothing would be sent",
            ),
            (
                "{\"kind\":\"bulk\",\"bytes\":1000000000000000}",
                "",
                "--max-bytes",
            ),
            (
                "{\"kind\":\"page\",\"page\":{\"har\":\"/etc/passwd\"}}",
                "",
                "was not kept",
            ),
            (
                "{\"kind\":\"messages\",\"trace\":{\"file\":\"/etc/passwd\"}}",
                "",
                "was not kept",
            ),
            (bulk, "\"stack\":\"split-tcp\"", "has no sockets"),
            (bulk, "\"receive_window\":\"1 GiB\"", "64 MiB"),
            (bulk, "\"congestion\":\"nothing\"", "is called"),
        ] {
            let told = reason(peer.say(prepare(workload, options).as_bytes()).await);
            assert!(told.contains(words), "{workload} {options}: {told}");
        }
        let prepared = peer.say(prepare(bulk, "").as_bytes()).await;
        let Some(Answer::Prepared { keys }) = prepared else {
            panic!("{prepared:?}");
        };
        assert_eq!(keys.len(), 1);
        assert!(
            reason(
                peer.ask(&Ask::Begin {
                    zero_nanos: u64::MAX
                })
                .await
            )
            .contains("within")
        );

        // A second peer has its place, a third has none.
        let mut second = Rude::connect(at).await;
        let hello = second.hello(talk::VERSION);
        assert!(matches!(second.ask(&hello).await, Some(Answer::Hello(_))));
        let mut third = Rude::connect(at).await;
        let hello = third.hello(talk::VERSION);
        assert!(reason(third.ask(&hello).await).contains("serves 2 peers already"));
        drop((peer, second));
        let results = one_when_free(at).await;
        assert_eq!(texts(&results, "status"), ["ok"]);
    });
}

/// As [`one`], once a place is free again.
async fn one_when_free(at: SocketAddr) -> campaign::Results {
    loop {
        let mut probe = Rude::connect(at).await;
        let hello = probe.hello(talk::VERSION);
        let free = matches!(probe.ask(&hello).await, Some(Answer::Hello(_)));
        drop(probe);
        if free {
            // Its own place is free as soon as it has gone.
            tokio::time::sleep(Duration::from_millis(300)).await;
            return one(at, &only("kind = 'bulk', bytes = '100 kB'")).await;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Who asks for more than its run's workload comes to gets that, and no more.
#[test]
fn a_run_gets_what_its_workload_comes_to() {
    use tautline_lab::session::Half;
    use tautline_lab::workload::Program;

    use crate::{
        clock::{self, RunClock},
        live::{Allowance, Seat, play},
    };

    run(async {
        let identity = tls::self_signed(["localhost"]).unwrap();
        let server = identity.server().alpn([talk::RUN]).build().unwrap();
        let server = Endpoint::server(server, SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let at = server.local_addr();
        let (_stop, stopped) = tokio::sync::watch::channel(false);
        let seat = |half: Box<dyn Half>, allowance| Seat {
            half,
            clock: RunClock::from(clock::now()),
            until: tautline_transport::time::Instant::from_nanos(20_000_000_000),
            sample: Duration::from_millis(10),
            allowance,
            stop: stopped.clone(),
        };
        let little = Allowance {
            sent_bytes: 50_000,
            received_bytes: 1_000,
            streams: 3,
        };
        let program = tautline_lab::workload::Bulk::default();
        let serve = async {
            let incoming = server.accept().await.unwrap();
            play(
                incoming.into_future(),
                seat(program.server(1), little),
                || {},
            )
            .await
        };
        let client = Endpoint::client(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let config = ClientTls::pinned([identity.fingerprint]).alpn([talk::RUN]);
        let connecting = client.connect_with(config.build().unwrap(), at, "localhost");
        let ask = play(
            connecting.unwrap(),
            seat(program.client(1), Allowance::NO_LIMIT),
            || {},
        );
        let (served, asked) = tokio::join!(serve, ask);
        assert!(asked.outcome.received_bytes <= 50_000);
        let error = asked.outcome.error.unwrap();
        assert!(
            error.contains("more bytes than the run may have"),
            "{error}"
        );
        assert!(served.wire.is_some_and(|wire| wire.bytes_sent < 80_000));
    });
}
