//! Data that goes by one path, in the hall: the calls, what a pin amounts to, its place in the pump.
//!
//! Owns: when a pin holds, yields or ends, packets that carry pinned data alone.
//! Does not own: which stream or datagram has which pin (`stream/pins.rs`, `datagram/`), the choice of a
//! path for everything else (`multipath_tx.rs`).
//!
//! A packet on a path that the scheduler chose takes what is pinned there and what is not, by urgency.
//! A path that has pinned data and was not chosen gets packets with that alone; where both kinds wait,
//! they take turns.

use bytes::Bytes;

use super::{
    Connection, multipath::Multipath, multipath_tx::Load, path_trace::reason, permit::Permit,
};
use crate::{
    datagram::{SendDatagramError, WhenFull},
    endpoint::Transmit,
    multipath::{Hold, PathPin, PathStatus, PinError},
    path::PathSet,
    time::Instant,
    units::{PathId, StreamId},
};

impl Connection {
    /// From now on the stream's data goes by one path ([`PathPin`]), sent again included; `None`: wherever the
    /// path scheduler sends it. Streams that do not exist are ignored, and those of messages, which have
    /// [`MessageOptions::pin`](crate::message::MessageOptions).
    ///
    /// # Errors
    /// [`PinError::UnknownPath`] for a path that is not there: never opened, or abandoned. The stream then
    /// has no pin.
    pub fn pin_stream(&mut self, id: StreamId, pin: Option<PathPin>) -> Result<(), PinError> {
        if self.streams.is_of_message(id) {
            return Ok(());
        }
        let known = pin.filter(|pin| self.pin_holds(*pin) != Hold::Gone);
        self.streams.set_pin(id, known);
        if known != pin {
            return Err(PinError::UnknownPath);
        }
        Ok(())
    }

    /// As [`Connection::send_datagram`], by one path. A path that is not there, or is abandoned before the
    /// datagram has left, has no effect.
    ///
    /// # Errors
    /// As [`Connection::send_datagram`].
    pub fn send_datagram_on(
        &mut self,
        data: Bytes,
        pin: PathPin,
    ) -> Result<u64, SendDatagramError> {
        let max = self.max_datagram_size();
        let known = Some(pin).filter(|pin| self.pin_holds(*pin) != Hold::Gone);
        self.datagrams.send_when(data, max, WhenFull::Refuse, known)
    }

    fn pin_holds(&self, pin: PathPin) -> Hold {
        hold_of(pin, &self.paths, self.multipath.as_deref())
    }

    /// Before anything is sent: paths may have come, gone, or gone silent.
    pub(super) fn review_pins(&mut self) {
        let hold = |pin| hold_of(pin, &self.paths, self.multipath.as_deref());
        if self.streams.has_pins() {
            self.streams.review_pins(hold);
        }
        if self.datagrams.has_pins() {
            self.datagrams.review_pins(hold);
        }
    }

    /// Whether data waits that the path scheduler may place.
    pub(super) fn has_free_data(&self) -> bool {
        self.streams.has_free_data() || self.datagrams.has_free_frames() || self.has_control_data()
    }

    /// Whether something waits that such a packet on the path may carry.
    pub(super) fn has_data_for(&self, id: PathId, load: Load) -> bool {
        let takes = load.on(id);
        self.streams.has_data_for(takes)
            || self.datagrams.has_frames_for(takes)
            || takes.free && self.has_control_data()
    }

    /// Whether something waits that goes by one path and no other.
    pub(super) fn has_pinned_data(&self) -> bool {
        let mut streams = self.streams.paths_waited_for();
        let mut datagrams = self.datagrams.paths_waited_for();
        streams.next().is_some() || datagrams.next().is_some()
    }

    /// Packets with pinned data alone, on a path that may send and that such data waits for.
    pub(super) fn transmit_pinned(
        &mut self,
        now: Instant,
        buf: &mut [u8],
        max_segments: usize,
    ) -> Option<Transmit> {
        for index in 0..self.paths.len() {
            let Some(path) = self.paths.at(index) else {
                continue;
            };
            let id = path.id;
            if !path.is_usable() || path.is_silent() || !self.has_data_for(id, Load::Pinned) {
                continue;
            }
            let size = self.datagram_size(now, id);
            if self.permit(now, id, size, false) != Permit::Full {
                continue;
            }
            if self.observer.is_active() {
                let path = self.paths.get(id);
                let views = path.map(|path| self.view_of(now, path, true));
                self.trace_choice(now, Some(id), reason::PIN, views.as_slice(), 0);
            }
            let transmit = self.transmit_on_path(now, id, buf, max_segments, Load::Pinned);
            if let (Some(transmit), Some(multipath)) = (&transmit, &mut self.multipath) {
                multipath.scheduler.on_sent(id, transmit.len as u64);
                return Some(*transmit);
            }
        }
        None
    }
}

/// What a pin amounts to, as the paths are.
fn hold_of(pin: PathPin, paths: &PathSet, multipath: Option<&Multipath>) -> Hold {
    let strict = matches!(pin, PathPin::Only(_));
    let hold = |holds: bool| if holds { Hold::Holds } else { Hold::Yields };
    match paths.get(pin.path()) {
        Some(path) if path.is_abandoned() => Hold::Gone,
        Some(path) => {
            let works = path.is_usable()
                && !path.is_silent()
                && !path.is_spent()
                && path.status.remote() == PathStatus::Available;
            hold(strict || works)
        }
        None if multipath.is_some_and(|multipath| multipath.wishes.contains(pin.path())) => {
            hold(strict)
        }
        None => Hold::Gone,
    }
}
