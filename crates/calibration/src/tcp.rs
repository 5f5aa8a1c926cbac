//! The kernel's TCP with CUBIC, over the same link: a request, an answer, the same clock.

use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    sync::Arc,
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use socket2::{Domain, Socket, Type};

use crate::{REQUEST_BYTES, clock::now, place::Place, system};

static FILLER: [u8; 64 * 1024] = [0x74; 64 * 1024];

/// Fetches so many bytes. How long it took.
pub(crate) fn play(
    bytes: u64,
    limit: Duration,
    near: &Arc<Place>,
    far: &Arc<Place>,
    server_at: SocketAddr,
) -> Result<Duration> {
    let place = Arc::clone(far);
    let listener = thread::spawn(move || {
        place.enter()?;
        let socket = cubic()?;
        socket.bind(&server_at.into())?;
        socket.listen(1)?;
        Ok::<_, anyhow::Error>(socket)
    });
    let listener = listener
        .join()
        .unwrap_or_else(|_| bail!("the server's thread failed"))?;
    let serving = thread::spawn(move || {
        system::run_early();
        serve(&listener, bytes, limit)
    });
    let place = Arc::clone(near);
    let fetching = thread::spawn(move || {
        system::run_early();
        place.enter()?;
        fetch(server_at, bytes, limit)
    });
    let fetched = fetching
        .join()
        .unwrap_or_else(|_| bail!("the client's thread failed"));
    let served = serving
        .join()
        .unwrap_or_else(|_| bail!("the server's thread failed"));
    let took = fetched?;
    served.context("server")?;
    Ok(took)
}

/// A TCP socket with the kernel's CUBIC.
fn cubic() -> Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket
        .set_tcp_congestion(b"cubic")
        .context("the kernel has no CUBIC")?;
    socket.set_tcp_nodelay(true)?;
    Ok(socket)
}

fn serve(listener: &Socket, bytes: u64, limit: Duration) -> Result<()> {
    // For `accept`; when the client never comes, this thread must end too.
    listener.set_read_timeout(Some(limit))?;
    let (socket, _) = listener.accept()?;
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))?;
    stream.read_exact(&mut [0; REQUEST_BYTES])?;
    let mut left = bytes;
    while left > 0 {
        let take = usize::try_from(left).map_or(FILLER.len(), |n| n.min(FILLER.len()));
        stream.write_all(FILLER.get(..take).unwrap_or(&FILLER))?;
        left -= take as u64;
    }
    stream.shutdown(std::net::Shutdown::Write)?;
    // Until the client has closed: else the kernel would throw away what it has not sent.
    let _ = stream.read(&mut [0]);
    Ok(())
}

fn fetch(server: SocketAddr, bytes: u64, limit: Duration) -> Result<Duration> {
    let socket = cubic()?;
    let start = now();
    socket.connect_timeout(&server.into(), limit)?;
    let mut stream = TcpStream::from(socket);
    stream.write_all(&[0; REQUEST_BYTES])?;
    let (mut got, mut buffer) = (0, vec![0; 256 * 1024]);
    while got < bytes {
        let spent = now().saturating_duration_since(start);
        let left = limit.saturating_sub(spent);
        ensure!(!left.is_zero(), "not finished within the plan's limit");
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut buffer) {
            Ok(0) => bail!("{got} of {bytes} bytes came"),
            Ok(more) => got += more as u64,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(now().saturating_duration_since(start))
}
