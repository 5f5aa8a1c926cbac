//! What ICMP says about destinations, from the socket's error queue.
//!
//! Only as a hint during handshakes: anyone who guesses addresses and ports can forge ICMP.

use std::{io, net::SocketAddr};

/// A destination that ICMP calls unreachable, and the system's word for why.
pub(super) type Report = (SocketAddr, io::ErrorKind);

/// Takes the next report: `Some(None)` is one about something else, `None` means that there is no more.
#[cfg(target_os = "linux")]
pub(super) fn next(socket: &tokio::net::UdpSocket) -> Option<Option<Report>> {
    linux::next(socket).ok().flatten()
}

/// Not told elsewhere; attempts time out.
#[cfg(not(target_os = "linux"))]
pub(super) fn next(_: &tokio::net::UdpSocket) -> Option<Option<Report>> {
    None
}

#[cfg(target_os = "linux")]
mod linux {
    use std::os::fd::AsRawFd;

    use super::{Report, io};

    /// Enough for an extended error with an IPv6 offender and everything else the socket reports.
    #[repr(C, align(8))]
    struct Control([u8; 512]);

    pub(super) fn next(socket: &tokio::net::UdpSocket) -> io::Result<Option<Option<Report>>> {
        let mut control = Control([0; 512]);
        let mut unreachable = None;
        // SAFETY: `try_init` hands out storage for a socket address and the length it holds. All
        // pointers in `header` (that storage, the one I/O vector, `control`) are valid for writes
        // of the lengths given beside them for the whole call of `recvmsg`, and the descriptor is
        // open because `socket` is borrowed. The kernel sets `msg_namelen` to what it wrote; zero
        // bytes of storage are a valid address of an unspecified family. The control messages are
        // walked with libc's own macros over the buffer that the kernel filled, whose alignment is
        // that of `cmsghdr`; the payload is read unaligned and only if it is long enough.
        let received = unsafe {
            socket2::SockAddr::try_init(|name, name_len| {
                let mut byte = 0_u8;
                let mut vector = libc::iovec {
                    iov_base: (&raw mut byte).cast(),
                    iov_len: 1,
                };
                let mut header: libc::msghdr = std::mem::zeroed();
                header.msg_name = name.cast();
                header.msg_namelen = *name_len;
                header.msg_iov = &raw mut vector;
                header.msg_iovlen = 1;
                header.msg_control = (&raw mut control).cast();
                header.msg_controllen = size_of::<Control>();
                let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
                if libc::recvmsg(socket.as_raw_fd(), &raw mut header, flags) < 0 {
                    return Err(io::Error::last_os_error());
                }
                *name_len = header.msg_namelen;
                let mut message = libc::CMSG_FIRSTHDR(&raw const header);
                while !message.is_null() {
                    let needed = libc::CMSG_LEN(size_of::<libc::sock_extended_err>() as u32);
                    let kind = ((*message).cmsg_level, (*message).cmsg_type);
                    let is_error = kind == (libc::IPPROTO_IP, libc::IP_RECVERR)
                        || kind == (libc::IPPROTO_IPV6, libc::IPV6_RECVERR);
                    if is_error && (*message).cmsg_len >= needed as usize {
                        let error = libc::CMSG_DATA(message).cast::<libc::sock_extended_err>();
                        let error = error.read_unaligned();
                        if is_unreachable(&error) {
                            unreachable = Some(reason(&error));
                        }
                    }
                    message = libc::CMSG_NXTHDR(&raw const header, message);
                }
                Ok(())
            })
        };
        match received {
            // The name is where the datagram in question went.
            Ok(((), destination)) => Ok(Some(destination.as_socket().zip(unreachable))),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn reason(error: &libc::sock_extended_err) -> io::ErrorKind {
        let number = i32::try_from(error.ee_errno).unwrap_or_default();
        io::Error::from_raw_os_error(number).kind()
    }

    /// ICMP type 3 but not "fragmentation needed"; ICMPv6 type 1. RFC 792, RFC 4443 s3.1.
    fn is_unreachable(error: &libc::sock_extended_err) -> bool {
        match (error.ee_origin, error.ee_type, error.ee_code) {
            (libc::SO_EE_ORIGIN_ICMP, 3, code) => code != 4,
            (libc::SO_EE_ORIGIN_ICMP6, 1, _) => true,
            _ => false,
        }
    }
}
