//! Moves bytes from a server to a client over loopback and prints what it took.
//!
//! `cargo run --release -p tautline --example bulk -- [MEGABYTES]`
#![expect(
    clippy::disallowed_methods,
    reason = "a program at the edge measures real time"
)]

use std::time::Instant;

use tautline::{Bytes, Endpoint, Profile, tls};

type Error = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let megabytes: u64 = std::env::args()
        .nth(1)
        .map_or(Ok(1000), |text| text.parse())?;
    let identity = tls::self_signed(["localhost"])?;
    let mut server_config = identity.server().alpn(["bulk"]).build()?;
    server_config.transport = Profile::Bulk.config().into();
    let server = Endpoint::server(server_config, "127.0.0.1:0".parse()?)?;
    let address = server.local_addr();
    let serving = tokio::spawn(async move {
        if let Some(incoming) = server.accept().await {
            let connection = incoming.await?;
            let mut send = connection.open_uni().await?;
            let block = Bytes::from(vec![7u8; 1 << 20]);
            for _ in 0..megabytes {
                send.write_chunk(block.clone()).await?;
            }
            send.finish()?;
            connection.closed().await;
        }
        Ok::<(), Error>(())
    });

    let client = Endpoint::client("127.0.0.1:0".parse()?)?;
    let mut config = tls::ClientTls::pinned([identity.fingerprint])
        .alpn(["bulk"])
        .build()?;
    config.transport = Profile::Bulk.config().into();
    client.set_default_client_config(config);
    let connection = client.connect(address, "localhost")?.await?;
    let start = Instant::now();
    let mut recv = connection.accept_uni().await?;
    let mut total = 0u64;
    while let Some(chunk) = recv.read_chunk(usize::MAX).await? {
        total += chunk.len() as u64;
    }
    let elapsed = start.elapsed();
    println!(
        "{total} bytes in {:.3} s: {:.2} Gb/s",
        elapsed.as_secs_f64(),
        total as f64 * 8.0 / elapsed.as_secs_f64() / 1e9
    );
    connection.close(0, b"done");
    client.wait_idle().await;
    serving.await??;
    Ok(())
}
