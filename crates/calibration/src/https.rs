//! HTTP/2 over TLS over the kernel's TCP or MPTCP: what a web server on them gives.
//!
//! The windows of HTTP/2 are as large as the kernel's buffers may become, so that they limit nothing;
//! its frames have their default size. TLS is that of the other ends (`tautline_sim::tls`), 1.3.

use std::{
    net::{SocketAddr, TcpListener as StdListener, TcpStream as StdStream},
    os::fd::AsRawFd,
    sync::{Arc, mpsc},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use socket2::Socket;
use tautline::Bytes;
use tautline_lab::stack::Ready;
use tautline_sim::tls;
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    runtime::Runtime,
    time::{sleep, timeout},
};
use tokio_rustls::{
    TlsAcceptor, TlsConnector,
    rustls::{ClientConfig, ServerConfig, pki_types::ServerName},
};

use crate::{
    clock::now,
    conversation::{self, FILLER},
    place::Place,
    system,
    task::Task,
    tcp::{Kernel, LOOK},
};

const ALPN: &[u8] = b"h2";
const WINDOW_BYTES: u32 = 64 << 20;

/// Plays a task. How long it took.
pub(crate) fn play(
    task: &Task,
    kernel: Kernel,
    seed: u64,
    places: (&Arc<Place>, &Arc<Place>),
    server_at: SocketAddr,
) -> Result<Duration> {
    let mut server = tls::server_config(seed);
    server.alpn_protocols = vec![ALPN.to_vec()];
    let mut client = tls::client_config(seed.wrapping_add(1));
    client.alpn_protocols = vec![ALPN.to_vec()];

    let (bytes, ends) = (task.bytes, task.ends);
    let serve = move |runtime: &Runtime, told: mpsc::SyncSender<()>, stopped| {
        runtime.block_on(async {
            let socket = kernel.socket()?;
            socket.bind(&server_at.into())?;
            socket.listen(1)?;
            socket.set_nonblocking(true)?;
            let listener = TcpListener::from_std(StdListener::from(socket))?;
            told.send(())?;
            tokio::select! {
                answered = answer(&listener, kernel, Arc::new(server), bytes) => answered,
                _ = stopped => Ok(()),
            }
        })
    };
    let task = task.clone();
    let fetch = move |runtime: &Runtime| {
        runtime.block_on(async {
            let work = fetch(kernel, Arc::new(client), server_at, &task);
            let took = timeout(task.limit, work).await;
            took.context("not finished within the plan's limit")?
        })
    };
    conversation::hold(ends, places, serve, fetch)
}

async fn answer(
    listener: &TcpListener,
    kernel: Kernel,
    config: Arc<ServerConfig>,
    bytes: u64,
) -> Result<()> {
    let (stream, _) = listener.accept().await?;
    stream.set_nodelay(true)?;
    let stream = Socket::from(stream.into_std()?);
    kernel.check(&stream)?;
    let stream = TcpStream::from_std(StdStream::from(stream))?;
    let stream = TlsAcceptor::from(config).accept(stream).await?;
    let mut connection = h2::server::Builder::new().handshake(stream).await?;
    let mut answering = None;
    // Until the client has gone, in whatever way; what that means to it, it says.
    while let Some(Ok((_, mut respond))) = connection.accept().await {
        let response = http::Response::new(());
        let body = respond.send_response(response, false)?;
        // The connection has to be driven meanwhile, by the loop.
        answering = Some(tokio::spawn(send(body, bytes)));
    }
    answering.context("no request came")?.await?
}

async fn send(mut body: h2::SendStream<Bytes>, bytes: u64) -> Result<()> {
    let mut left = bytes;
    while left > 0 {
        let want = usize::try_from(left).map_or(FILLER.len(), |n| n.min(FILLER.len()));
        body.reserve_capacity(want);
        let may = std::future::poll_fn(|cx| body.poll_capacity(cx)).await;
        let take = may.context("the stream was closed")??.min(want);
        left -= take as u64;
        let chunk = Bytes::from_static(FILLER.get(..take).unwrap_or(&FILLER));
        body.send_data(chunk, left == 0)?;
    }
    Ok(())
}

async fn fetch(
    kernel: Kernel,
    config: Arc<ClientConfig>,
    server: SocketAddr,
    task: &Task,
) -> Result<Duration> {
    let socket = kernel.socket()?;
    socket.set_nonblocking(true)?;
    let mut start = now();
    let stream = TcpSocket::from_std_stream(StdStream::from(socket));
    let stream = stream.connect(server).await?;
    let descriptor = stream.as_raw_fd();
    let name = ServerName::try_from("localhost")?;
    let stream = TlsConnector::from(config).connect(name, stream).await?;
    let (sender, connection) = h2::client::Builder::new()
        .initial_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .handshake::<_, Bytes>(stream)
        .await?;
    // Open, and with it the descriptor, until the task is told to end.
    let driving = tokio::spawn(connection);
    let subflows = || system::further_subflows(&descriptor);
    if task.ready == Ready::Paths {
        while kernel.links > 1 && subflows()? + 1 < kernel.links {
            sleep(LOOK).await;
        }
        start = now();
    }
    let mut sender = sender.ready().await?;
    let request = http::Request::get("https://localhost/").body(())?;
    let (response, _) = sender.send_request(request, true)?;
    let mut body = response.await?.into_body();
    let mut got = 0;
    while let Some(chunk) = body.data().await {
        let len = chunk?.len();
        got += len as u64;
        body.flow_control().release_capacity(len)?;
    }
    let took = now().saturating_duration_since(start);
    ensure!(got == task.bytes, "{got} of {} bytes came", task.bytes);
    if kernel.links > 1 {
        subflows().context("the connection is not of MPTCP")?;
    }
    drop(sender);
    // Its end is the server's, too.
    driving.abort();
    Ok(took)
}
