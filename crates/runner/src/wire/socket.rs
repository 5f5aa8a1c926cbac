//! A blocking UDP socket that keeps ECN marks, and the thread that listens to it.

use std::{
    io::{self, IoSliceMut},
    net::{SocketAddr, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant as Clock},
};

use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSocketState};
use tautline_sim::Datagram;
use tautline_transport::units::Ecn;

use super::now;

/// The largest batch that the kernel hands over.
const BATCH_BYTES: usize = 64 * 1024;
/// Enough for the bursts of a sender that is ahead of the wire.
const BUFFER_BYTES: usize = 4 << 20;
/// How often a listener looks whether it shall end.
const LOOK: Duration = Duration::from_millis(100);

/// Which socket a datagram came through.
#[derive(Clone, Copy, Debug)]
pub(super) enum Origin {
    /// From a client, by the index of the place it wants to reach.
    Front(usize),
    /// From a server, to the client's address as it sees it.
    Back(SocketAddr),
}

/// A datagram from a process.
#[derive(Debug)]
pub(super) struct Arrived {
    pub(super) time: Clock,
    pub(super) origin: Origin,
    pub(super) from: SocketAddr,
    pub(super) ecn: Ecn,
    pub(super) payload: Vec<u8>,
}

#[derive(Debug)]
pub(super) struct Socket {
    socket: UdpSocket,
    state: UdpSocketState,
    local: SocketAddr,
}

impl Socket {
    pub(super) fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = UdpSocket::bind(address)?;
        let state = UdpSocketState::new((&socket).into())?;
        switch_timestamps_off(&socket)?;
        // As large as the system lets us; best effort.
        let _ = state.set_recv_buffer_size((&socket).into(), BUFFER_BYTES);
        let _ = state.set_send_buffer_size((&socket).into(), BUFFER_BYTES);
        socket.set_nonblocking(false)?;
        socket.set_read_timeout(Some(LOOK))?;
        let local = socket.local_addr()?;
        Ok(Self {
            socket,
            state,
            local,
        })
    }

    pub(super) fn local(&self) -> SocketAddr {
        self.local
    }

    /// Sends; what the kernel does not take is lost, as on a wire.
    pub(super) fn send(&self, to: SocketAddr, datagram: &Datagram) {
        let transmit = Transmit {
            destination: to,
            ecn: EcnCodepoint::from_bits(datagram.ecn as u8),
            contents: &datagram.payload,
            segment_size: None,
            src_ip: None,
        };
        let _ = self.state.try_send((&self.socket).into(), &transmit);
    }

    /// Hands what arrives to `sender` from a thread of its own, until `stop`.
    pub(super) fn listen(
        self: &Arc<Self>,
        origin: Origin,
        sender: &mpsc::Sender<Arrived>,
        stop: &Arc<AtomicBool>,
    ) {
        let (socket, sender, stop) = (Arc::clone(self), sender.clone(), Arc::clone(stop));
        thread::spawn(move || {
            let mut buffer = vec![0; BATCH_BYTES];
            while !stop.load(Ordering::Acquire) {
                if socket.receive(&mut buffer, origin, &sender).is_err() {
                    return;
                }
            }
        });
    }

    fn receive(
        &self,
        buffer: &mut [u8],
        origin: Origin,
        sender: &mpsc::Sender<Arrived>,
    ) -> Result<(), mpsc::SendError<Arrived>> {
        let mut metas = [RecvMeta::default()];
        let received = {
            let mut slots = [IoSliceMut::new(buffer)];
            self.state
                .recv((&self.socket).into(), &mut slots, &mut metas)
        };
        // Nothing came in time, or ICMP about an earlier datagram.
        if received.is_err() {
            return Ok(());
        }
        let time = now();
        let [meta] = metas;
        let ecn = meta
            .ecn
            .map_or(Ecn::NotEct, |ecn| Ecn::from_bits(ecn as u8));
        let batch = buffer.get(..meta.len).unwrap_or_default();
        for payload in batch.chunks(meta.stride.max(1)) {
            sender.send(Arrived {
                time,
                origin,
                from: meta.addr,
                ecn,
                payload: payload.to_vec(),
            })?;
        }
        Ok(())
    }
}

/// With kernel timestamps, which `quinn-udp` 0.6 asks for, the control messages of a coalesced batch
/// do not fit its buffer, and the ECN mark is what the kernel cuts off.
#[cfg(target_os = "linux")]
fn switch_timestamps_off(socket: &UdpSocket) -> io::Result<()> {
    use std::os::fd::AsRawFd;

    let off: libc::c_int = 0;
    let (value, len) = ((&raw const off).cast(), size_of::<libc::c_int>());
    // SAFETY: the descriptor is open as long as `socket` is borrowed; the option's value is read
    // from `off`, which has the length told and outlives the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPNS,
            value,
            len as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(not(target_os = "linux"))]
fn switch_timestamps_off(_: &UdpSocket) -> io::Result<()> {
    Ok(())
}
