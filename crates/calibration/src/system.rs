//! What is asked of the Linux kernel beyond files: threads, TUN devices, the state of MPTCP sockets.
//!
//! Owns: the unsafe calls of this program.

use std::{
    fs::{File, OpenOptions},
    io,
    os::{fd::AsRawFd, unix::fs::OpenOptionsExt},
    time::Duration,
};

use rustix::{
    process::setpriority_process,
    thread::{UnshareFlags, gettid, unshare_unsafe},
    time::{ClockId, clock_gettime},
};

/// Below the kernel's own threads, above every ordinary program.
const REAL_TIME_PRIORITY: libc::c_int = 10;
/// Of ends, below the link between them.
const REAL_TIME_PRIORITY_OF_ENDS: libc::c_int = 5;
/// `SOL_MPTCP` and `MPTCP_INFO` of linux/mptcp.h.
const SOL_MPTCP: libc::c_int = 284;
const MPTCP_INFO: libc::c_int = 1;
const NICE: i32 = -10;

/// How a thread was favoured over others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Favour {
    /// It runs whenever it can (SCHED_FIFO).
    RealTime,
    /// Nice -10.
    Nice,
    /// The kernel refused.
    None,
}

impl std::fmt::Display for Favour {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::RealTime => "SCHED_FIFO",
            Self::Nice => "nice -10",
            Self::None => "ordinary priority",
        })
    }
}

/// Puts the calling thread before every ordinary one, as far as the kernel lets us.
pub(crate) fn run_first() -> Favour {
    run_in_real_time(REAL_TIME_PRIORITY)
}

/// How the threads of the two ends are to be favoured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    /// Nice -10: whatever else runs here takes part of the time.
    Early,
    /// SCHED_FIFO below the link's thread: the transports are compared, not their luck with the
    /// rest of the machine.
    RealTime,
}

impl Ends {
    /// For the calling thread, as far as the kernel lets us.
    pub(crate) fn favour(self) -> Favour {
        match self {
            Self::Early => run_early(),
            Self::RealTime => run_in_real_time(REAL_TIME_PRIORITY_OF_ENDS),
        }
    }
}

fn run_in_real_time(priority: libc::c_int) -> Favour {
    let parameters = libc::sched_param {
        sched_priority: priority,
    };
    // SAFETY: 0 is the calling thread; the parameters are read before the call returns.
    let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) };
    if result == 0 {
        Favour::RealTime
    } else {
        run_early()
    }
}

/// Nice -10 for the calling thread, if the kernel lets us.
fn run_early() -> Favour {
    match setpriority_process(Some(gettid()), NICE) {
        Ok(()) => Favour::Nice,
        Err(_) => Favour::None,
    }
}

/// Moves the calling thread into a new network namespace, which ends with its last user: nothing
/// is left over, however this program ends.
pub(crate) fn new_network() -> io::Result<()> {
    // SAFETY: file descriptors stay shared between threads (no `FILES`).
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?;
    Ok(())
}

/// A TUN device in the calling thread's network namespace: each read is a packet that the kernel
/// sends, each write one that it receives. Non-blocking. Without virtio headers, so that the kernel
/// cuts what is larger than the MTU before, and coalesces nothing after.
pub(crate) fn tun(name: &str) -> io::Result<File> {
    let device = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open("/dev/net/tun")?;
    // SAFETY: all fields of `ifreq` are integers or arrays of them, or a union of such.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte stays zero.
    let room = request.ifr_name.len() - 1;
    for (to, from) in request.ifr_name.iter_mut().take(room).zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: the descriptor is open; TUNSETIFF reads and writes one `ifreq`, which `request` is.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(device)
}

/// Processor time that the calling thread has taken.
pub(crate) fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// How many subflows an MPTCP socket has beside its first.
///
/// # Errors
/// On a socket that is none, or fell back to plain TCP.
pub(crate) fn further_subflows(socket: &impl AsRawFd) -> io::Result<u8> {
    // The first byte of `struct mptcp_info`, which grows at its end.
    let mut info = [0u8; 256];
    let mut len = info.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to `info`, and the length it wrote to `len`.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            SOL_MPTCP,
            MPTCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(info.first().copied().unwrap_or(0))
}
