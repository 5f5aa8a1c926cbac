//! HTTP/0.9 over streams: `GET /path` CR LF, then the bytes.

use std::path::Path;

use anyhow::{Context, Result};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::{client::Progress, files};

const MAX_REQUEST_BYTES: u64 = 4096;

pub(crate) async fn request(send: &mut (impl AsyncWrite + Unpin), path: &str) -> Result<()> {
    send.write_all(format!("GET {path}\r\n").as_bytes()).await?;
    send.shutdown().await?;
    Ok(())
}

pub(crate) async fn response(
    recv: &mut (impl AsyncRead + Unpin),
    progress: &Progress<'_>,
) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let before = body.len();
        if recv.read_buf(&mut body).await? == 0 {
            return Ok(body);
        }
        progress.received((body.len() - before) as u64);
    }
}

pub(crate) async fn serve(
    mut send: impl AsyncWrite + Unpin,
    recv: impl AsyncRead + Unpin,
    www: &Path,
) -> Result<()> {
    let mut request = Vec::new();
    recv.take(MAX_REQUEST_BYTES)
        .read_to_end(&mut request)
        .await?;
    let request = std::str::from_utf8(&request)?;
    let path = request
        .strip_prefix("GET ")
        .context("not a GET")?
        .trim_end();
    let body = files::read(www, path)?;
    send.write_all(&body).await?;
    send.shutdown().await?;
    Ok(())
}
