//! Frames of a synthetic video call over loopback, each of use for 250 ms, and what became of them.
//!
//! `cargo run --release -p tautline --example messages -- [SECONDS]`
#![expect(
    clippy::disallowed_methods,
    reason = "a program at the edge measures real time"
)]

use std::time::{Duration, Instant};

use tautline::{
    Bytes, Endpoint, MessageOptions, TransportConfig, tls, transport::stream::sched::registry,
};

type Error = Box<dyn std::error::Error + Send + Sync>;

const INTERVAL: Duration = Duration::from_millis(33);
const DEADLINE: Duration = Duration::from_millis(250);
const FRAMES_PER_KEY: u64 = 60;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let seconds: u64 = std::env::args().nth(1).map_or(Ok(5), |text| text.parse())?;
    let mut transport = TransportConfig::default();
    if let Some(deadline) = registry::by_name("deadline") {
        transport.stream_scheduler = deadline;
    }
    let identity = tls::self_signed(["localhost"])?;
    let server = Endpoint::server(
        identity.server().alpn(["call"]).build()?,
        "127.0.0.1:0".parse()?,
    )?;
    let address = server.local_addr();
    let receiving = tokio::spawn(async move {
        let (mut frames, mut bytes) = (0u64, 0u64);
        if let Some(incoming) = server.accept().await
            && let Ok(connection) = incoming.await
        {
            while let Ok(message) = connection.next_message().await {
                frames += 1;
                bytes += message.data.len() as u64;
            }
        }
        (frames, bytes)
    });

    let client = Endpoint::client("127.0.0.1:0".parse()?)?;
    let mut config = tls::ClientTls::pinned([identity.fingerprint])
        .alpn(["call"])
        .build()?;
    config.transport = transport.into();
    client.set_default_client_config(config);
    let connection = client.connect(address, "localhost")?.await?;
    let begin = Instant::now();
    let mut key = None;
    let mut sent = Vec::new();
    let frames = seconds * 1000 / INTERVAL.as_millis() as u64;
    for frame in 0..frames {
        let is_key = frame % FRAMES_PER_KEY == 0;
        let bytes = if is_key { 40_000 } else { 1_500 };
        // Without its key frame, no frame can be shown.
        let depends_on = if is_key { None } else { key };
        let options = MessageOptions::within(DEADLINE).depends_on(depends_on);
        let id = connection.send_message(Bytes::from(vec![0; bytes]), &options)?;
        if is_key {
            key = Some(id);
        }
        sent.push(id);
        let next = begin + INTERVAL * (frame as u32 + 1);
        connection.next_message_at(next);
        tokio::time::sleep_until(next.into()).await;
    }
    if let Some(last) = sent.last() {
        println!(
            "the last frame: {:?}",
            connection.message_fate(*last).await?
        );
    }
    println!("{:?}", connection.message_stats());
    connection.close(0, b"done");
    client.wait_idle().await;
    let (frames, bytes) = receiving.await?;
    println!("received {frames} frames, {bytes} bytes");
    Ok(())
}
