//! One run of one case: server, wire, client, and what is left of them.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use aws_lc_rs::digest::{SHA256, digest};
use tautline::tls::self_signed;

use crate::{
    case::{Case, Family},
    dissect::Trace,
    judge::{self, Evidence},
    keys::{Secret, read_key_log},
    process::{Program, free_ports},
    wire::{Capture, Fronts, Place, Wire},
};

const SERVER_V4: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
const SERVER_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2));
/// Ports on the simulated side.
const PORT: u16 = 443;
const PREFERRED_PORT: u16 = 4433;
const BESIDE_PORT: u16 = 444;
/// More than the second flow can move while the first one runs.
const BESIDE_BYTES: usize = 100 << 20;
/// The second flow is past its slow start when the first one begins.
const BESIDE_LEAD: Duration = Duration::from_secs(3);
/// For what is still on the wire when the client has ended.
const LINGER: Duration = Duration::from_millis(300);
/// Certificates in a chain that is to be long, and names that make each about a kilobyte.
const LONG_CHAIN: usize = 9;
const LONG_CHAIN_NAMES: usize = 5;

/// What came of a run.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// What was seen, or what was wrong.
    pub(crate) verdict: Result<String, String>,
    /// From the client's first datagram to the last one.
    pub(crate) took: Duration,
    /// The longest time that the wire was late.
    pub(crate) late: Duration,
    /// What the second flow received per second meanwhile, in bytes.
    pub(crate) beside: Option<f64>,
}

/// Runs `case` once in the folder `home`.
pub(crate) fn play(case: &Case, program: &Path, home: &Path, seed: u64) -> Outcome {
    match run(case, program, home, seed) {
        Ok(outcome) => outcome,
        Err(error) => Outcome {
            verdict: Err(format!("{error:#}")),
            took: Duration::ZERO,
            late: Duration::ZERO,
            beside: None,
        },
    }
}

/// The server's addresses on the simulated side and where its processes listen.
struct Layout {
    places: Vec<Place>,
}

const MAIN_V4: usize = 0;
const MAIN_V6: usize = 1;
const PREFERRED_V4: usize = 2;
const PREFERRED_V6: usize = 3;
const BESIDE: usize = 4;

impl Layout {
    fn new() -> Result<Self> {
        let ports = free_ports(3)?;
        let [main, preferred, beside] = ports.as_slice() else {
            bail!("no free ports");
        };
        let v4 = |port, real| Place {
            simulated: SocketAddr::new(SERVER_V4, port),
            real: SocketAddr::from((Ipv4Addr::LOCALHOST, real)),
            watched: port != BESIDE_PORT,
        };
        let v6 = |port, real| Place {
            simulated: SocketAddr::new(SERVER_V6, port),
            real: SocketAddr::from((Ipv6Addr::LOCALHOST, real)),
            watched: true,
        };
        Ok(Self {
            places: vec![
                v4(PORT, *main),
                v6(PORT, *main),
                v4(PREFERRED_PORT, *preferred),
                v6(PREFERRED_PORT, *preferred),
                v4(BESIDE_PORT, *beside),
            ],
        })
    }

    fn port(&self, place: usize) -> u16 {
        self.places.get(place).map_or(0, |place| place.real.port())
    }
}

/// A folder per process: what it serves or fetches, its keys, its qlog.
struct Home {
    path: PathBuf,
}

impl Home {
    fn new(parent: &Path, name: &str) -> Result<Self> {
        let path = parent.join(name);
        for folder in ["files", "qlog", "certs"] {
            std::fs::create_dir_all(path.join(folder))?;
        }
        Ok(Self { path })
    }

    fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The program as this end, with the runner's environment.
    fn command(&self, program: &Path, role: &str, testcase: &str) -> Command {
        let mut command = Command::new(program);
        command
            .args(["interop", role])
            .env("ROLE", role)
            .env("TESTCASE", testcase)
            .env("SSLKEYLOGFILE", self.join("keys.log"))
            .env("QLOGDIR", self.join("qlog"));
        command
    }
}

fn run(case: &Case, program: &Path, home: &Path, seed: u64) -> Result<Outcome> {
    let layout = Layout::new()?;
    let fronts = Fronts::bind(&layout.places)?;
    let server_home = Home::new(home, "server")?;
    let client_home = Home::new(home, "client")?;
    for (name, len) in case.files() {
        std::fs::write(server_home.join("files").join(&name), content(&name, len))?;
    }
    certificates(&server_home.join("certs"), case.has_long_chain())?;

    let mut command = server(case, program, &server_home, layout.port(MAIN_V4));
    if let Some(family) = case.preferred {
        let place = match family {
            Family::V4 => PREFERRED_V4,
            Family::V6 => PREFERRED_V6,
        };
        let front = fronts.addresses().get(place).copied();
        let front = front.context("no front")?;
        command.args(["--preferred", &front.to_string()]);
        command.args(["--also-listen", &format!("[::]:{}", layout.port(place))]);
    }
    let mut server = Program::start(&mut command, &server_home.join("log"))?;
    server.wait_until_listening()?;
    let scenario = case.scenario().context("no network for this case")?;
    let wire = fronts.run(scenario, seed)?;
    let beside = if case.has_crosstraffic() {
        Some(second_flow(program, home, &layout, &wire)?)
    } else {
        None
    };

    let place = match case.family {
        Family::V4 => MAIN_V4,
        Family::V6 => MAIN_V6,
    };
    let front = *wire.fronts().get(place).context("no front")?;
    let urls: Vec<_> = case
        .files()
        .iter()
        .map(|(name, _)| format!("https://{front}/{name}"))
        .collect();
    let mut command = client_home.command(program, "client", case.client_testcase());
    command
        .env("REQUESTS", urls.join(" "))
        .arg("--downloads")
        .arg(client_home.join("files"));
    let mut client = Program::start(&mut command, &client_home.join("log"))?;
    let ended = client.wait(case.limit())?;
    std::thread::sleep(LINGER);
    drop(beside);
    let words = server.last_words();
    server.stop();
    let capture = wire.finish();

    match ended {
        None => bail!(
            "the client did not end within {:?}: {}",
            case.limit(),
            client.last_words()
        ),
        Some(status) if !status.success() => {
            bail!(
                "the client ended with {status}: {}; the server: {words}",
                client.last_words()
            )
        }
        Some(_) => {}
    }
    compare(case, &server_home, &client_home)?;
    evidence(case, capture, &server_home, &client_home)
}

fn server(case: &Case, program: &Path, home: &Home, port: u16) -> Command {
    let mut command = home.command(program, "server", case.server_testcase());
    command
        .args(["--listen", &format!("[::]:{port}"), "--www"])
        .arg(home.join("files"))
        .arg("--certs")
        .arg(home.join("certs"));
    command
}

/// A transfer through the same queue that outlasts ours. Ends when dropped.
fn second_flow(program: &Path, home: &Path, layout: &Layout, wire: &Wire) -> Result<[Program; 2]> {
    let server_home = Home::new(home, "beside-server")?;
    let client_home = Home::new(home, "beside-client")?;
    std::fs::write(
        server_home.join("files").join("long"),
        content("long", BESIDE_BYTES),
    )?;
    certificates(&server_home.join("certs"), false)?;
    let mut command = Command::new(program);
    command
        .args(["interop", "server", "--testcase", "transfer"])
        .args([
            "--listen",
            &format!("[::]:{}", layout.port(BESIDE)),
            "--www",
        ])
        .arg(server_home.join("files"))
        .arg("--certs")
        .arg(server_home.join("certs"));
    let mut server = Program::start(&mut command, &server_home.join("log"))?;
    server.wait_until_listening()?;
    let front = *wire.fronts().get(BESIDE).context("no front")?;
    let mut command = Command::new(program);
    command
        .args(["interop", "client", "--testcase", "transfer"])
        .arg("--downloads")
        .arg(client_home.join("files"))
        .arg(format!("https://{front}/long"));
    let client = Program::start(&mut command, &client_home.join("log"))?;
    std::thread::sleep(BESIDE_LEAD);
    Ok([client, server])
}

/// Judges what was captured.
fn evidence(case: &Case, capture: Capture, server: &Home, client: &Home) -> Result<Outcome> {
    let secrets = key_logs([server, client])?;
    qlogs(case, [server, client])?;
    let Capture {
        left,
        right,
        beside,
        latest,
    } = capture;
    let seen = Evidence {
        left: Trace::read(left, &secrets),
        right: Trace::read(right, &secrets),
    };
    let took = seen.left.duration();
    let start = seen
        .left
        .datagrams
        .first()
        .map_or(Duration::ZERO, |first| first.time);
    let meanwhile = beside
        .iter()
        .filter(|(time, _)| (start..start + took).contains(time));
    let meanwhile: usize = meanwhile.map(|(_, bytes)| bytes).sum();
    Ok(Outcome {
        verdict: judge::judge(case, &seen).map_err(|error| format!("{error:#}")),
        took,
        late: latest,
        beside: case
            .has_crosstraffic()
            .then(|| meanwhile as f64 / took.as_secs_f64().max(1e-9)),
    })
}

/// What both ends wrote to $SSLKEYLOGFILE; each must have written something, and the same.
fn key_logs(homes: [&Home; 2]) -> Result<Vec<Secret>> {
    let mut secrets: Vec<Secret> = Vec::new();
    for home in homes {
        let file = home.join("keys.log");
        let text = std::fs::read_to_string(&file)
            .with_context(|| format!("{} is missing", file.display()))?;
        let logged = read_key_log(&text);
        ensure!(!logged.is_empty(), "{} holds no secret", file.display());
        for secret in logged {
            if !secrets.contains(&secret) {
                secrets.push(secret);
            }
        }
    }
    Ok(secrets)
}

/// Both ends traced every connection to $QLOGDIR.
fn qlogs(case: &Case, homes: [&Home; 2]) -> Result<()> {
    for home in homes {
        let mut traces = 0;
        for entry in std::fs::read_dir(home.join("qlog"))? {
            let text = std::fs::read(entry?.path())?;
            traces += usize::from(String::from_utf8_lossy(&text).contains("packet_sent"));
        }
        ensure!(
            traces >= case.handshakes(),
            "{}: {traces} qlog traces for {} connections",
            home.path.display(),
            case.handshakes()
        );
    }
    Ok(())
}

/// `cert.pem` and `priv.key`, as the runner lays them out.
fn certificates(folder: &Path, long: bool) -> Result<()> {
    let made = self_signed(["localhost"])?;
    let mut chain = made.certificate_pem().to_owned();
    if long {
        // The client accepts any certificate: length is all that matters of the others.
        for number in 1..LONG_CHAIN {
            let names = (0..LONG_CHAIN_NAMES).map(|name| {
                let labels: Vec<_> = (0..3).map(|_| "x".repeat(60)).collect();
                format!("{number}.{name}.{}", labels.join("."))
            });
            chain.push_str(self_signed(names)?.certificate_pem());
        }
    }
    std::fs::write(folder.join("cert.pem"), chain)?;
    std::fs::write(folder.join("priv.key"), made.key_pem())?;
    Ok(())
}

fn compare(case: &Case, server: &Home, client: &Home) -> Result<()> {
    for (name, _) in case.files() {
        let hash = |home: &Home| {
            let bytes = std::fs::read(home.join("files").join(&name))
                .with_context(|| format!("{name} is missing"))?;
            Ok::<_, anyhow::Error>(digest(&SHA256, &bytes).as_ref().to_vec())
        };
        ensure!(hash(server)? == hash(client)?, "{name} differs");
    }
    Ok(())
}

/// Bytes that look random and differ from file to file.
fn content(name: &str, len: usize) -> Vec<u8> {
    let mut state = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}
