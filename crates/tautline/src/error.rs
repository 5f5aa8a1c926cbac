//! What each operation can fail with, and what to do about it.
//!
//! Owns: one enum per operation. Being blocked is never an error here: methods wait.
//! Does not own: [`ConnectionError`] (why a connection ended), which is the transport's.

use std::{
    fmt, io,
    net::{IpAddr, SocketAddr},
};

use tautline_transport::message::MessageId;
pub use tautline_transport::{
    error::{Code, ConnectionError, TransportError},
    message::ReceiveMessageError,
    multipath::AbandonPathError,
};

/// [`Endpoint::connect`](crate::Endpoint::connect) could not even start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The endpoint was closed, or its driver is gone because its runtime was shut down.
    #[error("the endpoint is closed: make a new one")]
    EndpointClosed,
    /// No [`ClientConfig`](crate::ClientConfig) is known.
    #[error(
        "no client configuration: call Endpoint::set_default_client_config or use connect_with"
    )]
    NoClientConfig,
    /// The name cannot stand in a certificate.
    #[error("{0:?} is no valid server name: give a DNS name or an IP address")]
    InvalidServerName(String),
    /// The socket cannot reach this kind of address.
    #[error(
        "{remote} cannot be reached from a socket bound to {local}: bind to [::]:0 to reach both IPv4 and IPv6"
    )]
    UnreachableFamily {
        /// Where we wanted to go.
        remote: SocketAddr,
        /// Where the socket is bound.
        local: SocketAddr,
    },
    /// There is no way to begin where it should.
    #[error(transparent)]
    Local(#[from] LocalEndError),
    /// The transport or TLS refused to start.
    #[error("cannot start the handshake: {0}")]
    Start(String),
}

/// A path cannot begin at a [`LocalEnd`](crate::LocalEnd).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LocalEndError {
    /// No interface has this name.
    #[error("there is no network interface {name:?}: `ip link` lists them")]
    NoInterface {
        /// The name asked for.
        name: String,
    },
    /// The system does not tell which interfaces there are.
    #[error("cannot list the network interfaces ({reason}): name local addresses instead")]
    NoInterfaceList {
        /// The operating system's reason.
        reason: io::ErrorKind,
    },
    /// The interface is switched off or has no carrier.
    #[error("{name} is down: ip link set {name} up, or connect it")]
    InterfaceDown {
        /// The interface.
        name: String,
    },
    /// The interface has no address of the peer's family.
    #[error(
        "{name} has no address from which {remote} can be reached: give it an {} one (ip addr add)",
        if remote.is_ipv4() { "IPv4" } else { "IPv6" }
    )]
    NoAddress {
        /// The interface.
        name: String,
        /// Where the path should go.
        remote: SocketAddr,
    },
    /// The interface leads away from this host.
    #[error(
        "{remote} is on this host, and nothing comes there through {name}: name an address of this host instead"
    )]
    OnThisHost {
        /// The interface.
        name: String,
        /// Where the path should go.
        remote: SocketAddr,
    },
    /// No route leads through the interface to the peer.
    #[error(
        "no route leads through {name} to {remote}: add one, for instance ip route add default via \
         GATEWAY dev {name} metric 1000"
    )]
    NoRouteThrough {
        /// The interface.
        name: String,
        /// Where the path should go.
        remote: SocketAddr,
    },
    /// IPv4 here and IPv6 there, or the other way round.
    #[error("{remote} cannot be reached from {local}: name an address of the same family")]
    OtherFamily {
        /// The address named.
        local: IpAddr,
        /// Where the path should go.
        remote: SocketAddr,
    },
    /// The system refused the address.
    #[error("cannot bind {local}: {}", bind_advice(*reason, *local))]
    Bind {
        /// The address.
        local: SocketAddr,
        /// The operating system's reason.
        reason: io::ErrorKind,
    },
    /// The endpoint has too many sockets for paths.
    #[error("{max} addresses are in use for paths already: close some paths first")]
    TooMany {
        /// The limit.
        max: usize,
    },
}

fn bind_advice(reason: io::ErrorKind, local: SocketAddr) -> String {
    match reason {
        io::ErrorKind::AddrNotAvailable => format!(
            "this host has no address {}: `ip addr` lists those it has",
            local.ip()
        ),
        io::ErrorKind::AddrInUse => {
            format!("port {} is in use: leave the port out", local.port())
        }
        reason => reason.to_string(),
    }
}

/// [`Connection::open_path`](crate::Connection::open_path) failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenPathError {
    /// It cannot be opened on this connection now.
    #[error(transparent)]
    Refused(#[from] tautline_transport::multipath::OpenPathError),
    /// It cannot begin where it should.
    #[error(transparent)]
    Local(#[from] LocalEndError),
    /// The system knows no way.
    #[error(
        "no way from {local} to {remote} ({reason}): add a route, for instance ip rule add from \
         {} table 100; ip route add default via GATEWAY dev INTERFACE table 100",
        local.ip()
    )]
    NoRoute {
        /// Where the path begins.
        local: SocketAddr,
        /// Where it should go.
        remote: SocketAddr,
        /// The operating system's reason.
        reason: io::ErrorKind,
    },
    /// The network says that nobody listens there, or that there is no way there.
    #[error("{remote} is unreachable from {local} ({reason}): check address, port and route")]
    Unreachable {
        /// Where the path begins.
        local: SocketAddr,
        /// Where it should go.
        remote: SocketAddr,
        /// What the operating system reported.
        reason: io::ErrorKind,
    },
    /// Nothing came back.
    #[error("no answer over the path from {local} to {remote}{advice}")]
    NoAnswer {
        /// Where the path begins.
        local: SocketAddr,
        /// Where it should go.
        remote: SocketAddr,
        /// What to look at, if anything on this host is conspicuous.
        advice: String,
    },
    /// One end closed the path before it was usable.
    #[error(
        "the path was closed by {} before it could be used (code {code:#x})",
        if *by_peer { "the peer" } else { "this end" }
    )]
    Abandoned {
        /// A code of RFC 10069.
        code: u64,
        /// Whether the peer closed it.
        by_peer: bool,
    },
    /// The connection ended.
    #[error("connection lost: {0}")]
    ConnectionLost(#[from] ConnectionError),
}

/// A connection attempt failed before the handshake was done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HandshakeError {
    /// The network says that nobody listens there, or that there is no way there.
    #[error("{remote} is unreachable ({reason}): check address, port and route")]
    Unreachable {
        /// Where we wanted to go.
        remote: SocketAddr,
        /// What the operating system reported.
        reason: io::ErrorKind,
    },
    /// The attempt could not begin where it should.
    #[error(transparent)]
    Local(LocalEndError),
    /// Nobody answered in time.
    #[error(
        "no answer from {remote}: check that a QUIC server listens on this UDP port and that no firewall drops UDP{advice}"
    )]
    TimedOut {
        /// Where we wanted to go.
        remote: SocketAddr,
        /// What else to look at, if a place was chosen to begin at and anything about it is conspicuous.
        advice: String,
    },
    /// No application protocol in common.
    #[error(
        "no application protocol (ALPN) in common with {remote}: offer one that the server speaks"
    )]
    NoCommonProtocol {
        /// The peer.
        remote: SocketAddr,
    },
    /// One end did not trust the other's certificate.
    #[error("certificate not accepted: {reason}; pin its fingerprint or trust its issuer")]
    BadCertificate {
        /// What TLS says.
        reason: String,
    },
    /// The server is there but takes no new connections.
    #[error("{remote} refuses new connections: try again later")]
    Refused {
        /// The peer.
        remote: SocketAddr,
    },
    /// This server could not take the client in.
    #[error("client not accepted: {reason}")]
    NotAccepted {
        /// Why.
        reason: String,
    },
    /// Any other reason.
    #[error(transparent)]
    Connection(ConnectionError),
}

impl HandshakeError {
    /// Sorts why a connection ended during its handshake.
    pub(crate) fn new(error: ConnectionError, remote: SocketAddr) -> Self {
        let transport = match &error {
            ConnectionError::Transport(error) | ConnectionError::PeerTransport(error) => error,
            ConnectionError::HandshakeTimeout | ConnectionError::IdleTimeout => {
                return Self::TimedOut {
                    remote,
                    advice: String::new(),
                };
            }
            _ => return Self::Connection(error),
        };
        if transport.code == Code::CONNECTION_REFUSED {
            return Self::Refused { remote };
        }
        match transport.code.tls_alert() {
            Some(tls_alert::NO_APPLICATION_PROTOCOL) => Self::NoCommonProtocol { remote },
            Some(
                tls_alert::BAD_CERTIFICATE..=tls_alert::UNKNOWN_CERTIFICATE
                | tls_alert::UNKNOWN_CA
                | tls_alert::ACCESS_DENIED
                | tls_alert::DECRYPT_ERROR
                | tls_alert::CERTIFICATE_REQUIRED,
            ) => Self::BadCertificate {
                reason: match &error {
                    // Our own judgement is told in words already.
                    ConnectionError::Transport(_) => transport.reason.to_string(),
                    _ => transport.to_string(),
                },
            },
            _ => Self::Connection(error),
        }
    }
}

/// TLS alerts that deserve their own words. RFC 8446 s6.
mod tls_alert {
    pub(super) const BAD_CERTIFICATE: u8 = 42;
    pub(super) const UNKNOWN_CERTIFICATE: u8 = 46;
    pub(super) const UNKNOWN_CA: u8 = 48;
    pub(super) const ACCESS_DENIED: u8 = 49;
    /// A signature, of a certificate or of the handshake, does not hold.
    pub(super) const DECRYPT_ERROR: u8 = 51;
    pub(super) const CERTIFICATE_REQUIRED: u8 = 116;
    pub(super) const NO_APPLICATION_PROTOCOL: u8 = 120;
}

/// [`Endpoint::connect_host`](crate::Endpoint::connect_host) reached the host at no address.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectHostError {
    /// The name did not resolve.
    #[error("cannot resolve {host}: {error}")]
    Resolve {
        /// The name.
        host: String,
        /// The resolver's words.
        error: io::Error,
    },
    /// The name has no address that the socket can reach.
    #[error(
        "{host} has no address that this socket can reach: bind to [::]:0 to reach both IPv4 and IPv6"
    )]
    NoAddress {
        /// The name.
        host: String,
    },
    /// No attempt could start.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// Every address was tried.
    #[error("{}", AllFailed(.host, .attempts))]
    AllFailed {
        /// The name.
        host: String,
        /// Each address with its failure, in the order tried.
        attempts: Vec<(SocketAddr, HandshakeError)>,
    },
}

/// How [`ConnectHostError::AllFailed`] is told.
struct AllFailed<'a>(&'a str, &'a [(SocketAddr, HandshakeError)]);

impl fmt::Display for AllFailed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(host, attempts) = self;
        let silent = attempts.iter().all(|(_, error)| {
            matches!(
                error,
                HandshakeError::Unreachable { .. }
                    | HandshakeError::TimedOut { .. }
                    | HandshakeError::Local(_)
            )
        });
        let what = if silent {
            "could not be reached"
        } else {
            "was reached, but not connected to"
        };
        write!(f, "{host} {what}: ")?;
        let mut told = Vec::new();
        for (_, error) in attempts.iter() {
            // Several addresses of one server often fail for one reason.
            let error = error.to_string();
            if !told.contains(&error) {
                f.write_str(if told.is_empty() { "" } else { "; " })?;
                f.write_str(&error)?;
                told.push(error);
            }
        }
        Ok(())
    }
}

/// Writing to a [`SendStream`](crate::SendStream) failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The peer does not want the rest (STOP_SENDING). Stop writing; `reset` answers in kind.
    #[error("the peer stopped reading (code {0})")]
    Stopped(u64),
    /// The connection ended.
    #[error("connection lost: {0}")]
    ConnectionLost(#[from] ConnectionError),
    /// The stream was finished or reset by this end already.
    #[error("the stream is already finished or reset")]
    ClosedStream,
}

/// The stream was finished or reset already, so the call did nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the stream is already finished, reset or stopped")]
pub struct ClosedStream;

/// [`SendStream::stopped`](crate::SendStream::stopped) has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoppedError {
    /// The connection ended first.
    #[error("connection lost: {0}")]
    ConnectionLost(#[from] ConnectionError),
}

/// Reading from a [`RecvStream`](crate::RecvStream) failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The peer gave the stream up (RESET_STREAM); what was not read is gone.
    #[error("the peer reset the stream (code {0})")]
    Reset(u64),
    /// The connection ended.
    #[error("connection lost: {0}")]
    ConnectionLost(#[from] ConnectionError),
    /// The stream was stopped by this end already.
    #[error("the stream was already stopped")]
    ClosedStream,
}

/// [`RecvStream::read_exact`](crate::RecvStream::read_exact) failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadExactError {
    /// The stream ended before the buffer was full.
    #[error("the stream ended after {read} of the expected bytes")]
    FinishedEarly {
        /// Bytes that were read into the front of the buffer.
        read: usize,
    },
    /// Reading failed.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// [`RecvStream::read_to_end`](crate::RecvStream::read_to_end) failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadToEndError {
    /// The stream is longer than the caller's limit; raise it, or read in pieces.
    #[error("the stream is longer than {limit} bytes")]
    TooLong {
        /// The caller's limit in bytes.
        limit: usize,
    },
    /// Reading failed.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Sending an application datagram failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendDatagramError {
    /// The peer does not take datagrams (RFC 9221). Use a stream.
    #[error("the peer does not take datagrams")]
    UnsupportedByPeer,
    /// Longer than what fits one packet on this path now; see `max_datagram_size`.
    #[error("datagram too large: at most {max} bytes fit a packet now")]
    TooLarge {
        /// What fits now, in bytes.
        max: usize,
    },
    /// The send queue is full, and here is the datagram back; wait with `send_datagram_wait`, or
    /// drop it.
    #[error("too many datagrams are waiting to be sent")]
    QueueFull(bytes::Bytes),
    /// The connection ended.
    #[error("connection lost: {0}")]
    ConnectionLost(#[from] ConnectionError),
}

/// Sending a message failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendMessageError {
    /// Longer than `MessageConfig::message_bytes`. Use a stream.
    #[error("message too large: at most {max} bytes; use a stream, or raise message_bytes")]
    TooLarge {
        /// The limit in bytes.
        max: u64,
    },
    /// Too many messages are under way, and here is the message back; wait with
    /// `send_message_wait`, or drop it.
    #[error("too many messages are under way")]
    Blocked(bytes::Bytes),
    /// More dependencies than `MessageConfig::dependencies`.
    #[error("a message may depend on {max} others at most")]
    TooManyDependencies {
        /// The limit.
        max: usize,
    },
    /// It depends on a message that was not sent before it.
    #[error("{0} does not exist yet: a message depends on earlier ones only")]
    UnknownDependency(MessageId),
    /// It depends on a message that ended too long ago.
    #[error("{0} ended too long ago for its fate to be known: leave it out, or raise remembered")]
    ForgottenDependency(MessageId),
    /// The connection ended.
    #[error("connection lost: {0}")]
    ConnectionLost(#[from] ConnectionError),
}

/// [`Connection::next_message`](crate::Connection::next_message) gave none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NextMessageError {
    /// The peer sent one that we refused. The next call goes on.
    #[error(transparent)]
    Refused(#[from] ReceiveMessageError),
    /// The connection ended, and every message that came whole was taken.
    #[error("connection lost: {0}")]
    ConnectionLost(#[from] ConnectionError),
}

/// Nothing is known of the message: it was never sent, or ended too long ago.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} was never sent, or ended too long ago: ask earlier, or raise remembered")]
pub struct UnknownMessage(pub MessageId);

/// The keys cannot be updated now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the keys cannot be updated now: wait for handshake_confirmed, or for the last update")]
pub struct KeyUpdateError;

/// No keying material can be exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no keying material: the handshake is not complete, or the length is impossible")]
pub struct ExportError;

/// A stream cannot be reset in this way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResetError {
    /// Everything was delivered, or the stream was reset before.
    #[error("the stream is already over")]
    ClosedStream,
    /// The peer does not know RESET_STREAM_AT; use `reset`.
    #[error("the peer does not support RESET_STREAM_AT: use a plain reset")]
    NotNegotiated,
}

/// An endpoint could not be made or moved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// The operating system refused the address.
    #[error("cannot bind {addr}: {error}")]
    Bind {
        /// The address asked for.
        addr: SocketAddr,
        /// The operating system's words.
        error: io::Error,
    },
    /// There is no tokio runtime with I/O here.
    #[error("no tokio runtime: make endpoints inside #[tokio::main] or Runtime::block_on")]
    NoRuntime,
    /// Anything else while setting up.
    #[error("cannot set up the endpoint: {0}")]
    Setup(io::Error),
}

macro_rules! into_io {
    ($($error:ty => |$value:ident| $kind:expr;)*) => {$(
        impl From<$error> for io::Error {
            fn from($value: $error) -> Self {
                let kind = $kind;
                Self::new(kind, $value)
            }
        }
    )*};
}

into_io! {
    WriteError => |error| match &error {
        WriteError::Stopped(_) => io::ErrorKind::ConnectionReset,
        WriteError::ConnectionLost(lost) => kind_of(lost),
        WriteError::ClosedStream => io::ErrorKind::BrokenPipe,
    };
    ReadError => |error| match &error {
        ReadError::Reset(_) => io::ErrorKind::ConnectionReset,
        ReadError::ConnectionLost(lost) => kind_of(lost),
        ReadError::ClosedStream => io::ErrorKind::NotConnected,
    };
    HandshakeError => |error| match &error {
        HandshakeError::Unreachable { reason, .. } => *reason,
        HandshakeError::TimedOut { .. } => io::ErrorKind::TimedOut,
        HandshakeError::Refused { .. } => io::ErrorKind::ConnectionRefused,
        HandshakeError::Connection(lost) => kind_of(lost),
        _ => io::ErrorKind::InvalidData,
    };
    ConnectError => |_error| io::ErrorKind::InvalidInput;
    ConnectHostError => |error| match &error {
        ConnectHostError::Resolve { error, .. } => error.kind(),
        _ => io::ErrorKind::NotConnected,
    };
    BindError => |error| match &error {
        BindError::Bind { error, .. } | BindError::Setup(error) => error.kind(),
        BindError::NoRuntime => io::ErrorKind::Unsupported,
    };
}

/// The nearest `std::io` kind of a connection's end.
fn kind_of(error: &ConnectionError) -> io::ErrorKind {
    match error {
        ConnectionError::IdleTimeout | ConnectionError::HandshakeTimeout => io::ErrorKind::TimedOut,
        ConnectionError::StatelessReset => io::ErrorKind::ConnectionReset,
        ConnectionError::LocallyClosed => io::ErrorKind::NotConnected,
        ConnectionError::PeerApplication { .. } | ConnectionError::PeerTransport(_) => {
            io::ErrorKind::ConnectionAborted
        }
        _ => io::ErrorKind::Other,
    }
}
