//! What acknowledging costs, in packets and bytes.

/// Acknowledgements of one path, both ways, application space only. Bytes are UDP payload.
///
/// *ACKs per data packet* of a transfer is, seen by its receiver, `ack_only_sent /
/// data_packets_received`; its sender sees `ack_only_received / data_packets_sent`, which lacks
/// the ACKs that were lost. *Return bytes per data packet* likewise with the bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AckStats {
    /// Packets sent that held an ACK.
    pub acks_sent: u64,
    /// Of these, packets that held nothing else, apart from a PING now and then.
    pub ack_only_sent: u64,
    /// The bytes of those.
    pub ack_only_bytes_sent: u64,
    /// Packets sent that held stream or application-datagram data.
    pub data_packets_sent: u64,
    /// Packets received that held an ACK.
    pub acks_received: u64,
    /// Of these, packets that held nothing else, apart from a PING now and then.
    pub ack_only_received: u64,
    /// The bytes of those.
    pub ack_only_bytes_received: u64,
    /// Packets received that held stream or application-datagram data.
    pub data_packets_received: u64,
    /// Packet numbers below the largest received that have not come: packets dropped on the way
    /// here, a few that are late, and the few numbers that the peer leaves out on purpose.
    pub packets_missing: u64,
}

/// What stood in a packet, as far as [`AckStats`] tell packets apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contents {
    /// ACK or PATH_ACK.
    pub(crate) ack: bool,
    /// STREAM or DATAGRAM.
    pub(crate) data: bool,
    /// Any frame but ACK, PING and PADDING.
    pub(crate) more: bool,
}

impl AckStats {
    pub(crate) fn on_sent(&mut self, contents: Contents, bytes: usize) {
        self.data_packets_sent += u64::from(contents.data);
        if contents.ack {
            self.acks_sent += 1;
            if !contents.more {
                self.ack_only_sent += 1;
                self.ack_only_bytes_sent += bytes as u64;
            }
        }
    }

    pub(crate) fn on_received(&mut self, contents: Contents, bytes: usize) {
        self.data_packets_received += u64::from(contents.data);
        if contents.ack {
            self.acks_received += 1;
            if !contents.more {
                self.ack_only_received += 1;
                self.ack_only_bytes_received += bytes as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_with_more_than_an_ack_are_not_ack_only() {
        let ack = Contents {
            ack: true,
            ..Contents::default()
        };
        let with_data = Contents {
            ack: true,
            data: true,
            more: true,
        };
        let mut stats = AckStats::default();
        stats.on_sent(ack, 30);
        stats.on_sent(with_data, 1_200);
        stats.on_sent(Contents::default(), 1_200);
        assert_eq!((stats.acks_sent, stats.ack_only_sent), (2, 1));
        assert_eq!(
            (stats.ack_only_bytes_sent, stats.data_packets_sent),
            (30, 1)
        );
        stats.on_received(ack, 31);
        stats.on_received(with_data, 1_200);
        assert_eq!((stats.acks_received, stats.ack_only_received), (2, 1));
        assert_eq!(stats.ack_only_bytes_received, 31);
        assert_eq!(stats.data_packets_received, 1);
    }
}
