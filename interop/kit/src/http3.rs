//! HTTP/3 by the `h3` crate.

use std::{any::Any, future::poll_fn, path::Path, rc::Rc, time::Duration};

use anyhow::{Result, bail};
use bytes::{Buf, Bytes};
use futures_util::{
    StreamExt, TryStreamExt,
    future::{Either, select},
    stream,
};
use h3::quic;
use tokio::sync::Notify;

use crate::{client::Progress, files};

const REQUESTS_AT_ONCE: usize = 100;

/// What keeps HTTP/3 open on a connection.
pub(crate) type Open = Box<dyn Any>;

pub(crate) async fn fetch<C>(
    connection: C,
    paths: &[String],
    out: &Path,
    progress: &Progress<'_>,
) -> Result<Open>
where
    C: quic::Connection<Bytes> + 'static,
    C::OpenStreams: Clone + 'static,
{
    let (mut driver, requests) = h3::client::new(connection).await?;
    // Clones go with the requests; this one keeps HTTP/3 open.
    let kept = requests.clone();
    let drive = poll_fn(|cx| driver.poll_close(cx));
    let get = stream::iter(paths)
        .map(|path| {
            let mut requests = requests.clone();
            async move {
                let uri = format!("https://localhost{path}");
                let request = http::Request::get(uri).body(())?;
                let mut stream = requests.send_request(request).await?;
                stream.finish().await?;
                let response = stream.recv_response().await?;
                if response.status() != http::StatusCode::OK {
                    bail!("{path}: {}", response.status());
                }
                let mut body = Vec::new();
                while let Some(chunk) = stream.recv_data().await? {
                    progress.received(chunk.remaining() as u64);
                    let mut chunk = chunk;
                    while chunk.has_remaining() {
                        let part = chunk.chunk();
                        body.extend_from_slice(part);
                        let len = part.len();
                        chunk.advance(len);
                    }
                }
                files::save(out, path, &body)
            }
        })
        .buffer_unordered(REQUESTS_AT_ONCE)
        .try_collect::<()>();
    // Both are consumed: nothing borrows the driver any more.
    match select(Box::pin(get), Box::pin(drive)).await {
        Either::Left((done, _)) => done?,
        Either::Right((closed, _)) => return Err(closed.into()),
    }
    Ok(Box::new((driver, kept)))
}

/// A request for this path ends the connection: browsers have no other way to be told.
const CLOSE_PATH: &str = "/close";
/// Time for tickets to arrive.
const CLOSE_AFTER: Duration = Duration::from_millis(200);

pub(crate) async fn serve<C>(connection: C, www: &Path, close: impl Fn()) -> Result<()>
where
    C: quic::Connection<Bytes> + 'static,
    C::BidiStream: 'static,
{
    let mut http = h3::server::Connection::<C, Bytes>::new(connection).await?;
    let closing = Rc::new(Notify::new());
    loop {
        let resolver = tokio::select! {
            accepted = http.accept() => match accepted? {
                Some(resolver) => resolver,
                None => return Ok(()),
            },
            () = closing.notified() => {
                close();
                continue;
            }
        };
        let closing = Rc::clone(&closing);
        let www = www.to_owned();
        tokio::task::spawn_local(async move {
            let answer = async {
                let (request, mut stream) = resolver.resolve_request().await?;
                let end = request.uri().path() == CLOSE_PATH;
                let (status, body) = match files::read(&www, request.uri().path()) {
                    Ok(body) => (http::StatusCode::OK, body),
                    Err(_) if end => (http::StatusCode::OK, Vec::new()),
                    Err(_) => (http::StatusCode::NOT_FOUND, Vec::new()),
                };
                let kind = if request.uri().path().ends_with(".html") {
                    "text/html"
                } else {
                    "application/octet-stream"
                };
                let response = http::Response::builder()
                    .status(status)
                    .header("content-length", if end { 1 } else { body.len() })
                    .header("content-type", kind)
                    .body(())?;
                stream.send_response(response).await?;
                if end {
                    // The page waits for a byte that never comes, and so for the end.
                    tokio::time::sleep(CLOSE_AFTER).await;
                    closing.notify_one();
                    return Ok(());
                }
                stream.send_data(Bytes::from(body)).await?;
                stream.finish().await?;
                anyhow::Ok(())
            };
            if let Err(error) = answer.await {
                eprintln!("request: {error:#}");
            }
        });
    }
}
