//! Streams of a connection that is over.
//!
//! Owns: what is kept of them. Nothing is sent and nothing arrives any more, so that all that is
//! left to do is to give the application what it has not read.

use super::{Protection, StreamSet, table};
use crate::config::TransportConfig;

impl StreamSet {
    /// The connection is closed or lost: drops what waited to be sent or acknowledged, and what
    /// lies behind a gap that nothing will fill any more.
    ///
    /// What arrived in order, or on a stream that is read out of order, can still be read, and so
    /// can ends and resets. Of every other stream nothing is left.
    pub(crate) fn on_connection_over(&mut self, config: &TransportConfig) {
        if self.over {
            return;
        }
        self.over = true;
        self.scheduler = config.stream_scheduler.build();
        self.ready = 0;
        self.pins = super::pins::Pins::default();
        self.parked = Vec::new();
        self.waiting = Vec::new();
        self.control = std::collections::VecDeque::new();
        self.control_overflowed = false;
        self.resend_max_data = false;
        self.stats.released_bytes += std::mem::take(&mut self.stats.send_buffered_bytes);
        self.borrowed = 0;
        self.messages.with_deadline = 0;
        self.protection_chosen = 0;
        self.messages.notices = Vec::new();
        let before = std::mem::take(&mut self.table);
        for mut stream in before.into_streams() {
            stream.send = None;
            let Some(recv) = stream.recv.as_mut().filter(|recv| !recv.is_terminal()) else {
                continue;
            };
            recv.on_connection_over();
            if !recv.has_news() {
                continue;
            }
            stream.borrowed = recv.assembler().borrowed();
            self.borrowed += stream.borrowed;
            stream.due = 0;
            stream.protection = Protection::default();
            stream.pin = None;
            (stream.in_control, stream.ready) = (false, false);
            (stream.parked, stream.waiting) = (false, false);
            self.table.insert_boxed(stream);
        }
    }

    /// Nobody will read any more what a connection that is over has received.
    pub(crate) fn discard_unread(&mut self) {
        if self.over {
            self.table = table::Table::default();
            self.borrowed = 0;
        }
    }
}
