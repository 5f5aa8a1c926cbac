//! Switches kernel receive timestamps off.
//!
//! `quinn-udp` 0.6 asks for them, but its buffer for control messages holds 88 bytes. A timestamp
//! (32), a GRO size (24) and the destination (32) leave no room for the ECN codepoint (24), so
//! that the kernel cuts it off and ECN validation fails. We use no timestamps.

use std::io;

/// Takes SO_TIMESTAMPNS back.
///
/// # Errors
/// What the kernel says; ECN is then not seen on coalesced datagrams.
#[cfg(target_os = "linux")]
pub(super) fn switch_off(socket: &std::net::UdpSocket) -> io::Result<()> {
    use std::os::fd::AsRawFd;

    let off: libc::c_int = 0;
    // SAFETY: the file descriptor is open for the whole call because `socket` is borrowed, and
    // the option's value is read from `off`, which is as long as told and outlives the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPNS,
            (&raw const off).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Nothing asks for timestamps elsewhere.
#[cfg(not(target_os = "linux"))]
pub(super) fn switch_off(_: &std::net::UdpSocket) -> io::Result<()> {
    Ok(())
}
