//! Lets the kernel hand a packet to the shard that owns its connection.
//!
//! Purpose: several sockets share one port (SO_REUSEPORT). The kernel spreads datagrams over them
//! by a hash of the addresses, which changes when a client's address does. A short-header packet
//! names its shard in the connection ID, so a classic BPF program reads it from there.
//! Owns: that program. Correctness never depends on it: a shard hands packets that are not its own
//! to the right one ([`crate::shard`]).

use std::io;

/// Where a short header's connection ID starts. RFC 9000 s17.3.
#[cfg(target_os = "linux")]
const SHORT_HEADER_CID_OFFSET: u32 = 1;

/// Attaches the steering program to the group of sockets that `socket` belongs to.
///
/// `shards` is the number of sockets in the group, in the order in which they were bound.
///
/// # Errors
/// What the kernel says; the group then keeps its hash.
#[cfg(target_os = "linux")]
pub(crate) fn attach(socket: &std::net::UdpSocket, shards: u16) -> io::Result<()> {
    use std::os::fd::AsRawFd;

    let mut program = program(shards);
    let filter = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: the file descriptor is open for the whole call because `socket` is borrowed.
    // `filter` points to `filter.len` initialised instructions in `program`, which outlives the
    // call; the kernel copies both before it returns and keeps no pointer.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_REUSEPORT_CBPF,
            (&raw const filter).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// No steering outside Linux; packets are handed over between shards.
#[cfg(not(target_os = "linux"))]
pub(crate) fn attach(_: &std::net::UdpSocket, _: u16) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// The program: an index of a socket in the group, or a number beyond it for "use the hash".
#[cfg(target_os = "linux")]
fn program(shards: u16) -> [libc::sock_filter; 7] {
    let op = |code: u32, k: u32, jt: u8, jf: u8| libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    // What lies beyond the group sends the kernel back to its hash.
    let by_hash = u32::MAX;
    [
        // A load beyond the packet's end aborts the program with 0; UDP payloads that short are
        // no QUIC packets. First byte: a long header?
        op(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, 0, 0, 0),
        op(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, 0x80, 3, 0),
        // Short header: the shard number.
        op(
            libc::BPF_LD | libc::BPF_H | libc::BPF_ABS,
            SHORT_HEADER_CID_OFFSET,
            0,
            0,
        ),
        op(
            libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K,
            u32::from(shards),
            1,
            0,
        ),
        op(libc::BPF_RET | libc::BPF_A, 0, 0, 0),
        op(libc::BPF_RET | libc::BPF_K, by_hash, 0, 0),
        op(libc::BPF_RET | libc::BPF_K, by_hash, 0, 0),
    ]
}
