//! The kernel's TCP, or MPTCP, over the same links: a request, an answer, the same clock.
//!
//! Over several links it is MPTCP, whose path manager makes a subflow from each further address as
//! soon as the connection is known to be able to (`place.rs` tells it the addresses).

use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    sync::Arc,
    thread,
    time::{Duration, Instant as Clock},
};

use anyhow::{Context, Result, bail, ensure};
use socket2::{Domain, Protocol, Socket, Type};
use tautline_lab::stack::Ready;

use crate::{
    REQUEST_BYTES,
    clock::now,
    conversation::{self, FILLER},
    place::Place,
    system,
    task::Task,
};

/// Before a request that waits for all paths: one byte there and back, with which a connection
/// becomes one that further subflows may join.
const HELLO: u8 = b'h';
const REQUEST: u8 = b'r';
/// Between two looks at the number of subflows.
pub(crate) const LOOK: Duration = Duration::from_micros(500);

/// What the kernel is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernel {
    /// By its name there.
    pub(crate) controller: &'static str,
    /// MPTCP if these are several.
    pub(crate) links: u8,
}

impl Kernel {
    /// A socket for it.
    pub(crate) fn socket(self) -> Result<Socket> {
        let protocol = (self.links > 1).then_some(Protocol::MPTCP);
        let socket = Socket::new(Domain::IPV4, Type::STREAM, protocol)?;
        socket
            .set_tcp_congestion(self.controller.as_bytes())
            .with_context(|| format!("the kernel has no {}", self.controller))?;
        socket.set_tcp_nodelay(true)?;
        Ok(socket)
    }

    /// That a socket has the controller that was asked for.
    pub(crate) fn check(self, socket: &Socket) -> Result<()> {
        let name = socket.tcp_congestion()?;
        let name = String::from_utf8_lossy(&name);
        let name = name.trim_end_matches('\0');
        ensure!(name == self.controller, "the kernel took {name}");
        Ok(())
    }
}

/// Plays a task. How long it took.
pub(crate) fn play(
    task: &Task,
    kernel: Kernel,
    near: &Arc<Place>,
    far: &Arc<Place>,
    server_at: SocketAddr,
) -> Result<Duration> {
    let place = Arc::clone(far);
    let listener = conversation::spawn("server", move || {
        place.enter()?;
        let socket = kernel.socket()?;
        socket.bind(&server_at.into())?;
        socket.listen(1)?;
        Ok(socket)
    })?;
    let listener = conversation::join(listener)?;
    let (ends, bytes, limit) = (task.ends, task.bytes, task.limit);
    let serving = conversation::spawn("server", move || {
        ends.favour();
        serve(&listener, kernel, bytes, limit)
    })?;
    let (place, task) = (Arc::clone(near), task.clone());
    let fetching = conversation::spawn("client", move || {
        ends.favour();
        place.enter()?;
        fetch(server_at, kernel, &task)
    })?;
    let fetched = conversation::join(fetching);
    let served = conversation::join(serving);
    let took = fetched?;
    served.context("server")?;
    Ok(took)
}

fn serve(listener: &Socket, kernel: Kernel, bytes: u64, limit: Duration) -> Result<()> {
    // For `accept`; when the client never comes, this thread must end too.
    listener.set_read_timeout(Some(limit))?;
    let (socket, _) = listener.accept()?;
    kernel.check(&socket)?;
    let mut stream = TcpStream::from(socket);
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))?;
    let mut first = [0; 1];
    stream.read_exact(&mut first)?;
    if first == [HELLO] {
        stream.write_all(&[HELLO])?;
        stream.read_exact(&mut first)?;
    }
    stream.read_exact(&mut [0; REQUEST_BYTES - 1])?;
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

fn fetch(server: SocketAddr, kernel: Kernel, task: &Task) -> Result<Duration> {
    let socket = kernel.socket()?;
    let begun = now();
    let mut start = begun;
    socket.connect_timeout(&server.into(), task.limit)?;
    let mut stream = TcpStream::from(socket);
    if task.ready == Ready::Paths && kernel.links > 1 {
        await_subflows(&mut stream, kernel, begun, task.limit)?;
    }
    if task.ready == Ready::Paths {
        start = now();
    }
    let mut request = [0; REQUEST_BYTES];
    request[0] = REQUEST;
    stream.write_all(&request)?;
    let (mut got, mut buffer) = (0, vec![0; 256 * 1024]);
    while got < task.bytes {
        stream.set_read_timeout(Some(left(begun, task.limit)?))?;
        match stream.read(&mut buffer) {
            Ok(0) => bail!("{got} of {} bytes came", task.bytes),
            Ok(more) => got += more as u64,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
    }
    let took = now().saturating_duration_since(start);
    if kernel.links > 1 {
        system::further_subflows(&stream).context("the connection is not of MPTCP")?;
    }
    Ok(took)
}

fn left(begun: Clock, limit: Duration) -> Result<Duration> {
    let left = limit.saturating_sub(now().saturating_duration_since(begun));
    ensure!(!left.is_zero(), "not finished within the plan's limit");
    Ok(left)
}

/// Waits until every link has its subflow.
fn await_subflows(
    stream: &mut TcpStream,
    kernel: Kernel,
    begun: Clock,
    limit: Duration,
) -> Result<()> {
    stream.set_read_timeout(Some(limit))?;
    stream.write_all(&[HELLO])?;
    stream.read_exact(&mut [0; 1])?;
    while system::further_subflows(stream)? + 1 < kernel.links {
        left(begun, limit)?;
        thread::sleep(LOOK);
    }
    Ok(())
}
