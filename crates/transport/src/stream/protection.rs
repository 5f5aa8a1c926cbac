//! Which streams erasure correction protects, where the application has a say.
//!
//! Owns: [`Protection`], each stream's. Does not own: what else decides whether a packet is
//! protected (`fec/`, `connection/tx.rs`).

use super::StreamSet;
use crate::{multipath::Takes, units::StreamId};

/// Whether erasure correction protects what is sent of a stream or message. Without effect where it
/// was not negotiated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Protection {
    /// As the redundancy scheduler has it.
    #[default]
    Scheduled,
    /// Not: packets with nothing else are plain. Beside protected data of other streams some of it
    /// may be covered all the same.
    Never,
    /// Always, where the redundancy scheduler would leave packets plain too. When repair symbols
    /// are sent, and how many, stays for the scheduler to say.
    Always,
}

impl Protection {
    /// Whether a packet with such data is protected, if the scheduler has it so `by_default`.
    pub(crate) fn applies(self, by_default: bool) -> bool {
        match self {
            Self::Scheduled => by_default,
            Self::Never => false,
            Self::Always => true,
        }
    }
}

impl StreamSet {
    /// Sets whether what is sent of a stream from now on is protected. Unknown streams are ignored.
    pub fn set_protection(&mut self, id: StreamId, protection: Protection) {
        if let Some(stream) = self.table.get_mut(id) {
            let before = std::mem::replace(&mut stream.protection, protection);
            self.protection_chosen -= usize::from(before != Protection::Scheduled);
            self.protection_chosen += usize::from(protection != Protection::Scheduled);
        }
    }

    /// Whether some stream's protection is not for the redundancy scheduler to say.
    pub(crate) fn has_protection_choices(&self) -> bool {
        self.protection_chosen > 0
    }

    /// The protection of the stream that is written next into such a packet; `None` if none has data.
    pub(crate) fn next_protection(&mut self, takes: Takes) -> Option<Protection> {
        let id = self.next_for(takes)?;
        Some(self.protection_of(id))
    }

    pub(super) fn protection_of(&self, id: StreamId) -> Protection {
        let stream = self.table.get(id);
        stream.map_or(Protection::Scheduled, |stream| stream.protection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        config::TransportConfig,
        stream::PeerLimits,
        units::{Dir, PathId, Side},
    };

    const ANY: Takes = Takes {
        pinned_to: PathId::ZERO,
        free: true,
        again: true,
        ahead: 0,
    };

    #[test]
    fn who_has_a_say_is_counted() {
        let mut streams = StreamSet::new(Side::Client, &TransportConfig::default());
        streams.set_peer_limits(&PeerLimits {
            max_data: 1_000,
            max_stream_data_uni: 1_000,
            max_streams_uni: 2,
            ..PeerLimits::default()
        });
        let first = streams.open(Dir::Uni).unwrap();
        let second = streams.open(Dir::Uni).unwrap();
        assert_eq!(
            (streams.next_protection(ANY), streams.protection_chosen),
            (None, 0)
        );
        streams.set_protection(first, Protection::Never);
        streams.set_protection(first, Protection::Always);
        streams.set_protection(second, Protection::Never);
        assert_eq!(streams.protection_chosen, 2);
        streams.set_protection(StreamId(1 << 30), Protection::Never);
        streams.set_protection(second, Protection::Scheduled);
        assert_eq!(streams.protection_chosen, 1);
        streams.write(first, b"data").unwrap();
        assert_eq!(streams.next_protection(ANY), Some(Protection::Always));
        // With the stream its say is gone.
        streams.reset(first, 0).unwrap();
        assert_eq!(streams.next_protection(ANY), None);
        streams.on_acked(crate::packet::Token::ResetStream(first));
        assert_eq!(streams.protection_chosen, 0);
    }

    #[test]
    fn the_default_is_for_the_scheduler_to_say() {
        for by_default in [false, true] {
            assert_eq!(Protection::default().applies(by_default), by_default);
            assert!(Protection::Always.applies(by_default));
            assert!(!Protection::Never.applies(by_default));
        }
    }
}
