//! A send buffer that stays full: two links, each with a socket of the client's, of which one stands still. In
//! namespaces of the kernel's; where this user may make none, nothing is tested.
//!
//! The test starts this program again for each end.
#![cfg(target_os = "linux")]

mod common;

use std::{process::Command, sync::Arc, time::Duration};

use common::{ALPN, identity, server_config};
use tautline::{
    Connection, Endpoint, MultipathConfig, PathEvent, PathId, PathPin, TransportConfig,
    tls::ClientTls, transport::multipath::sched,
};
use tokio::time::Instant;

/// Two links: the client's `c0` and `c1`, the server's `s0` and `s1`. Both ends are told by their environment what they
/// are.
const HOSTS: &str = r#"
set -e
unshare -n sleep 600 & host=$!
trap 'kill $host $server' EXIT
there="nsenter -t $host -n"
# Until it has a network of its own, links would stay here.
while [ "$(readlink /proc/$host/ns/net)" = "$(readlink /proc/self/ns/net)" ]; do sleep 0.01; done
ip link set lo up
for i in 0 1; do
    ip link add c$i type veth peer name s$i netns $host
    ip link set c$i up
    ip address add 10.9.$i.2/24 dev c$i
    $there ip link set s$i up
    $there ip address add 10.9.$i.1/24 dev s$i
done
"#;

/// From now on `c1` takes a datagram in two minutes.
const STALL: &str = "tc qdisc add dev c1 root tbf rate 80bit burst 2000 limit 10000000";
/// And now it is as it was.
const MEND: &str = "tc qdisc del dev c1 root";

/// What each end is started with.
const END: &str = "TAUTLINE_TEST_END";

/// Both ends listen at, or lead to, these.
const SERVER: [&str; 2] = ["10.9.0.1:4433", "10.9.1.1:4433"];

/// What may be under way for the kernel; the first flight of a path is more.
const SEND_BUFFER_BYTES: usize = 4_096;

/// What goes on is done in a second or two; what does not stands still for minutes.
const LIMIT: Duration = Duration::from_secs(40);

fn transport() -> TransportConfig {
    let mut config = TransportConfig::default();
    let mut multipath = MultipathConfig::default();
    // Who goes by the rate would hardly use what is slow.
    multipath.scheduler = sched::registry::by_name("round-robin").unwrap();
    config.multipath = Some(multipath);
    config
}

/// Reads whatever comes, for ever.
async fn serve() {
    let endpoint = Endpoint::builder()
        .server(server_config(&identity(), transport()))
        .also_bind(SERVER[1].parse().unwrap())
        .bind(SERVER[0].parse().unwrap())
        .unwrap();
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(async move {
            let Ok(connection) = incoming.await else {
                return;
            };
            while let Ok(mut stream) = connection.accept_uni().await {
                tokio::spawn(async move {
                    let mut buffer = vec![0; 65_536];
                    while let Ok(Some(_)) = stream.read(&mut buffer).await {}
                });
            }
        });
    }
}

/// Sends so much until all has been acknowledged. How long it took.
async fn send(connection: &Connection, bytes: usize, pin: Option<PathPin>) -> Duration {
    let start = Instant::now();
    let mut stream = connection.open_uni().await.unwrap();
    stream.pin(pin).unwrap();
    stream.write_all(&vec![7; bytes]).await.unwrap();
    stream.finish().unwrap();
    stream.stopped().await.unwrap();
    start.elapsed()
}

fn run(command: &str) {
    let mut words = command.split(' ');
    let mut command = Command::new(words.next().unwrap());
    let status = command.args(words).status();
    assert!(status.as_ref().is_ok_and(|it| it.success()), "{status:?}");
}

async fn go_on_beside_a_full_socket() {
    let mut config = ClientTls::danger_accept_any_certificate()
        .alpn([ALPN])
        .build()
        .unwrap();
    config.transport = Arc::new(transport());
    let endpoint = Endpoint::builder()
        .client(config)
        .socket_send_buffer_bytes(SEND_BUFFER_BYTES)
        .bind("10.9.0.2:0".parse().unwrap())
        .unwrap();
    let there = SERVER.map(|address| address.parse().unwrap());
    let connect = || async {
        loop {
            match endpoint.connect(there[0], "localhost").unwrap().await {
                Ok(connection) => return connection,
                // The server is not there yet.
                Err(error) => println!("{error}"),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let (both, other) = (connect().await, connect().await);
    let from: std::net::IpAddr = "10.9.1.2".parse().unwrap();
    let second = both.open_path(from, there[1]).await.unwrap().id;
    send(&both, 2_000_000, None).await;
    let carried = both.path_stats(second).unwrap().recovery.bytes_sent;
    assert!(carried > 100_000, "both paths work: {carried}");

    let mut events = both.path_events();
    let refused = endpoint.stats().send_failures;
    run(STALL);
    // Begins on both, one of which takes nothing.
    let took = tokio::join!(
        send(&both, 5_000_000, None),
        send(&both, 1_000_000, Some(PathPin::Only(PathId(0)))),
        send(&other, 5_000_000, None),
    );
    println!("beside a full socket: {took:?}");
    let refused = endpoint.stats().send_failures - refused;
    println!("{refused} batches found no room");
    assert!(refused > 0, "the socket was never full");
    // On a busy machine others may be silent for a moment.
    let mut until = async |wanted: PathEvent| {
        while events.next().await.expect("the connection lives") != wanted {}
    };
    until(PathEvent::Lost { path: second }).await;

    run(MEND);
    until(PathEvent::Recovered { path: second }).await;
    println!("back after {:?}", send(&both, 5_000_000, None).await);
}

#[test]
fn what_is_full_stops_nothing_else() {
    let runtime = || tokio::runtime::Runtime::new().unwrap();
    match std::env::var(END).as_deref() {
        Ok("server") => return runtime().block_on(serve()),
        Ok(_) => {
            let done = async { tokio::time::timeout(LIMIT, go_on_beside_a_full_socket()).await };
            return runtime().block_on(done).expect("something stands still");
        }
        Err(_) => {}
    }
    let this = std::env::current_exe().unwrap();
    let inside = |script: &str| {
        Command::new("unshare")
            .args(["--user", "--map-root-user", "--net", "sh", "-c"])
            .arg(format!("{HOSTS}{script}"))
            .env("THIS", &this)
            .output()
    };
    let possible = inside(STALL);
    if !possible.as_ref().is_ok_and(|it| it.status.success()) {
        println!("skipped: no namespaces, links or slow links for this user: {possible:?}");
        return;
    }
    let output = inside(&format!(
        "{END}=server $there \"$THIS\" --nocapture & server=$!
        {END}=client \"$THIS\" --nocapture",
    ))
    .unwrap();
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    println!("{}{}", said(&output.stdout), said(&output.stderr));
    assert!(output.status.success());
}
