//! Bounds of messages.

/// How many messages, and how much of them, one connection holds.
///
/// Memory for sending: `send_bytes`, and about 250 bytes for each of `in_flight` messages and 250
/// for each of `remembered`. For receiving: twice `receive_bytes`, or twice `message_bytes` if that
/// is more, and one message beside. Nothing is allocated before the first message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MessageConfig {
    /// Bytes of the longest message that is sent or received. Default 16 MiB.
    pub message_bytes: u64,
    /// Messages handed over whose fate is open, those that wait for a stream included. Default 1024.
    pub in_flight: usize,
    /// Bytes of these messages, and 64 for each. A message alone may have more. Default 16 MiB.
    pub send_bytes: u64,
    /// Messages that one message may depend on. Default 8.
    pub dependencies: usize,
    /// The latest so many fates, at least `in_flight`, are remembered: for `Connection::message_fate`,
    /// and so that messages may depend on messages that are over. Default 1024.
    pub remembered: usize,
    /// Bytes of received messages, and 64 for each: of those that wait for the application, which
    /// stop the peer by flow control when there are more; and of those that are not whole, of which
    /// the newest are refused when there are more. Default 16 MiB.
    pub receive_bytes: u64,
    /// The code of RESET_STREAM for messages that expire; below 2^62. Default 1.
    pub expired_code: u64,
    /// The code of STOP_SENDING for messages that are refused; below 2^62. Default 2.
    pub refused_code: u64,
}

impl Default for MessageConfig {
    fn default() -> Self {
        Self {
            message_bytes: 16 << 20,
            in_flight: 1024,
            send_bytes: 16 << 20,
            dependencies: 8,
            remembered: 1024,
            receive_bytes: 16 << 20,
            expired_code: 1,
            refused_code: 2,
        }
    }
}
