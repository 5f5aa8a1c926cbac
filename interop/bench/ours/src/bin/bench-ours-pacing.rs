//! What the pacer makes of a rate: gaps between datagrams as the receiving kernel stamps them.
//!
//! A server sends at a fixed rate through a relay that reads each datagram's kernel timestamp;
//! a batch that was sent at once arrives at one time.

use std::{
    io::IoSliceMut,
    net::{SocketAddr, UdpSocket},
    os::fd::AsRawFd,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use bench_kit::{
    Connection as _, MAX_UDP_PAYLOAD, Opener as _, RecvHalf as _, SendHalf as _, Stack,
    identity::{self, Identity},
};
use bench_ours::{Ours, Peer};
use bytes::Bytes;
use clap::Parser;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, SockaddrIn, recvmsg, setsockopt, sockopt::ReceiveTimestampns,
};
use tautline::{
    Endpoint, Rate, tls,
    transport::congestion::{
        AckEvent, CongestionController, ControllerContext, ControllerFactory, ControllerMetrics,
        EcnEvent, LossEvent, SentEvent,
    },
};

#[derive(Parser)]
struct Arguments {
    /// Folder with the certificates.
    #[arg(long)]
    identity: PathBuf,
    /// Megabits of UDP payload per second.
    #[arg(long)]
    mbps: f64,
    /// How long to send.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
}

/// A controller that always wants the same rate.
#[derive(Clone, Debug)]
struct Fixed {
    rate: Rate,
}

impl Fixed {
    const NAME: &'static str = "fixed";
}

impl ControllerFactory for Fixed {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn build(&self, _: ControllerContext) -> Box<dyn CongestionController> {
        Box::new(self.clone())
    }
}

impl CongestionController for Fixed {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn on_sent(&mut self, _: &SentEvent) {}
    fn on_ack(&mut self, _: &AckEvent) {}
    fn on_loss(&mut self, _: &LossEvent<'_>) {}
    fn on_ecn(&mut self, _: &EcnEvent) {}
    fn on_mtu(&mut self, _: u64) {}

    fn window(&self) -> u64 {
        // Far beyond what loopback keeps in flight: only the pacer holds packets back.
        8 << 20
    }

    fn pacing_rate(&self) -> Option<Rate> {
        Some(self.rate)
    }

    fn metrics(&self) -> ControllerMetrics {
        ControllerMetrics::new(self.window(), "fixed")
    }
}

/// Forwards until `until`; times in nanoseconds and sizes of datagrams to the client.
fn relay(near: &UdpSocket, server: SocketAddr, until: Instant) -> Result<Vec<(i64, usize)>> {
    let far = identity::socket()?;
    let mut client = None;
    for socket in [near, &far] {
        socket.set_nonblocking(true)?;
    }
    setsockopt(&far, ReceiveTimestampns, &true)?;
    let mut seen = Vec::new();
    let mut buffer = [0; 2_048];
    while Instant::now() < until {
        let mut idle = true;
        while let Ok((len, from)) = near.recv_from(&mut buffer) {
            client = Some(from);
            idle = false;
            far.send_to(&buffer[..len], server)?;
        }
        // In bounded portions, so that acknowledgements pass too.
        for _ in 0..64 {
            let Some((time, len)) = receive(&far, &mut buffer)? else {
                break;
            };
            idle = false;
            seen.push((time, len));
            if let Some(client) = client {
                // A full buffer is a lost packet.
                let _ = near.send_to(&buffer[..len], client);
            }
        }
        if idle {
            std::thread::sleep(Duration::from_micros(50));
        }
    }
    Ok(seen)
}

/// A datagram and the kernel's time of its arrival.
fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> Result<Option<(i64, usize)>> {
    let mut control = nix::cmsg_space!(nix::sys::time::TimeSpec);
    let mut slices = [IoSliceMut::new(buffer)];
    let flags = MsgFlags::empty();
    let message =
        match recvmsg::<SockaddrIn>(socket.as_raw_fd(), &mut slices, Some(&mut control), flags) {
            Ok(message) => message,
            Err(nix::Error::EAGAIN) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
    let mut time = None;
    for control in message.cmsgs()? {
        if let ControlMessageOwned::ScmTimestampns(stamp) = control {
            time = Some(stamp.tv_sec() * 1_000_000_000 + stamp.tv_nsec());
        }
    }
    Ok(Some((time.context("no timestamp")?, message.bytes)))
}

fn in_runtime(name: &str, work: impl Future<Output = Result<()>> + Send + 'static) -> Result<()> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(work)
        })?;
    Ok(())
}

fn serve(identity: &Identity, rate: Rate) -> Result<SocketAddr> {
    let mut config = tls::server_config(identity.rustls_server()?)?;
    let mut transport = bench_ours::transport();
    transport.congestion = Arc::new(Fixed { rate });
    config.transport = Arc::new(transport);
    let (told, address) = std::sync::mpsc::channel();
    in_runtime("server", async move {
        let endpoint = Endpoint::server(config, SocketAddr::from(([127, 0, 0, 1], 0)))?;
        told.send(endpoint.local_addr())?;
        Ours::serve(endpoint).await;
        Ok(())
    })?;
    address.recv().context("the server did not start")
}

fn download(identity: Identity, relay: SocketAddr) -> Result<()> {
    in_runtime("client", async move {
        let client = Ours::client(&identity)?;
        let connection: Peer = Ours::connect(&client, relay).await?;
        let (mut send, mut recv) = connection.opener().open().await?;
        send.send(Bytes::copy_from_slice(&u64::MAX.to_be_bytes()))
            .await?;
        send.finish()?;
        while recv.recv(|_| {}).await?.is_some() {}
        Ok(())
    })
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let identity = Identity::load(&arguments.identity)?;
    let rate = Rate::from_bits_per_second((arguments.mbps * 1e6) as u64);
    let server = serve(&identity, rate)?;
    let near = identity::socket()?;
    download(identity, near.local_addr()?)?;
    let until = Instant::now() + Duration::from_secs_f64(arguments.seconds + 1.0);
    let seen = relay(&near, server, until)?;
    println!("{}", figures(&seen));
    std::process::exit(0)
}

/// Upper bounds of the histogram, microseconds.
const BOUNDS_US: [i64; 12] = [
    10,
    20,
    50,
    100,
    200,
    500,
    1_000,
    2_000,
    5_000,
    10_000,
    20_000,
    i64::MAX,
];

/// As a JSON object. The first second, handshake and MTU search, is left out.
fn figures(seen: &[(i64, usize)]) -> String {
    let start = seen.first().map_or(0, |(time, _)| time + 1_000_000_000);
    let full = usize::from(MAX_UDP_PAYLOAD);
    let kept: Vec<_> = seen
        .iter()
        .filter(|(time, len)| *time >= start && *len == full)
        .copied()
        .collect();
    let mut counts = [0u64; BOUNDS_US.len()];
    let mut between = Vec::new();
    let mut batches = vec![1u64];
    for pair in kept.windows(2) {
        let gap = (pair[1].0 - pair[0].0).max(0);
        let place = BOUNDS_US
            .iter()
            .position(|&bound| gap < bound.saturating_mul(1_000));
        counts[place.unwrap_or(BOUNDS_US.len() - 1)] += 1;
        if gap < 5_000 {
            *batches.last_mut().unwrap_or(&mut 0) += 1;
        } else {
            between.push(gap);
            batches.push(1);
        }
    }
    between.sort_unstable();
    batches.sort_unstable();
    let bytes: usize = kept.iter().skip(1).map(|(_, len)| len).sum();
    let nanos = kept.last().map_or(0, |last| last.0) - kept.first().map_or(0, |first| first.0);
    let micros = |share| at(&between, share) as f64 / 1e3;
    format!(
        "{{\"mbps\":{:.3},\"packets\":{},\"batch_p50\":{},\"batch_max\":{},\
         \"gap_p1_us\":{:.1},\"gap_p50_us\":{:.1},\"gap_p99_us\":{:.1},\"gap_max_us\":{:.1},\
         \"bounds_us\":{:?},\"counts\":{counts:?}}}",
        bytes as f64 * 8e3 / (nanos as f64).max(1.0),
        kept.len(),
        at(&batches, 0.5),
        at(&batches, 1.0),
        micros(0.01),
        micros(0.5),
        micros(0.99),
        micros(1.0),
        BOUNDS_US,
    )
}

fn at<T: Copy + Default>(sorted: &[T], share: f64) -> T {
    let index = (sorted.len() as f64 * share) as usize;
    sorted
        .get(index.min(sorted.len().saturating_sub(1)))
        .copied()
        .unwrap_or_default()
}
