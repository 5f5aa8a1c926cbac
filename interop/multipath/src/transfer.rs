//! What goes over the paths: one stream of bytes that both ends can tell from any other.

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

const CHUNK: usize = 64 * 1024;

/// The byte at a place of the stream.
fn byte(at: u64) -> u8 {
    // Any mixing that no offset or repetition survives will do.
    let mixed = at.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 56) as u8 ^ (mixed >> 29) as u8
}

fn chunk(from: u64, len: usize) -> Vec<u8> {
    (from..from + len as u64).map(byte).collect()
}

/// Asks for `bytes`, or sends as many; ready when the other end has all of them too.
pub async fn as_client(
    mut send: impl AsyncWrite + Unpin,
    mut recv: impl AsyncRead + Unpin,
    download: bool,
    bytes: u64,
    progress: &AtomicU64,
) -> Result<()> {
    send.write_all(&[u8::from(download)]).await?;
    send.write_all(&bytes.to_be_bytes()).await?;
    if download {
        send.shutdown().await?;
        return compare(&mut recv, bytes, progress).await;
    }
    write(&mut send, bytes, progress).await?;
    send.shutdown().await?;
    let mut verdict = [0];
    recv.read_exact(&mut verdict)
        .await
        .context("the server says nothing about what came")?;
    ensure!(verdict == [1], "the server got other bytes");
    Ok(())
}

/// Answers one request.
pub async fn as_server(
    mut send: impl AsyncWrite + Unpin,
    mut recv: impl AsyncRead + Unpin,
) -> Result<()> {
    let progress = AtomicU64::new(0);
    let download = recv.read_u8().await? == 1;
    let bytes = recv.read_u64().await?;
    if download {
        write(&mut send, bytes, &progress).await?;
    } else {
        let whole = compare(&mut recv, bytes, &progress).await;
        if let Err(error) = &whole {
            eprintln!("server: {error:#}");
        }
        send.write_all(&[u8::from(whole.is_ok())]).await?;
    }
    send.shutdown().await?;
    Ok(())
}

async fn write(
    send: &mut (impl AsyncWrite + Unpin),
    bytes: u64,
    progress: &AtomicU64,
) -> Result<()> {
    let mut at = 0;
    while at < bytes {
        let len = CHUNK.min(usize::try_from(bytes - at).unwrap_or(CHUNK));
        send.write_all(&chunk(at, len)).await?;
        at += len as u64;
        progress.store(at, Ordering::Relaxed);
    }
    Ok(())
}

async fn compare(
    recv: &mut (impl AsyncRead + Unpin),
    bytes: u64,
    progress: &AtomicU64,
) -> Result<()> {
    let mut buffer = vec![0; CHUNK];
    let mut at = 0;
    loop {
        let len = recv.read(&mut buffer).await?;
        if len == 0 {
            break;
        }
        ensure!(
            buffer[..len] == chunk(at, len)[..],
            "other bytes than sent, between {at} and {}",
            at + len as u64
        );
        at += len as u64;
        progress.store(at, Ordering::Relaxed);
    }
    ensure!(at == bytes, "{at} bytes came, not {bytes}");
    Ok(())
}
