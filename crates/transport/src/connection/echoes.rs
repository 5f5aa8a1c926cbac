//! Echoes between paths: each tells what arrived on another one, too. docs/spec/path-echo.md.
//!
//! Owns: whether the ends agree on them, and who hears of one. Does not own: when one is due (`space/echo.rs`), which
//! packet carries it (`path_frames.rs`), what it says of packets under way (`recovery/echo.rs`).

use super::{Connection, fates::frame_fates};
use crate::{
    error::TransportError, space::SpaceKind, time::Instant, units::PathId, wire::NumberRanges,
};

impl Connection {
    /// Whether the peer may send echoes. Not beside erasure correction, which rebuilds what is lost: what is repeated early
    /// takes the room of repair symbols.
    pub(super) fn offers_echoes(&self) -> bool {
        let (multipath, fec) = (self.config.multipath.as_ref(), &self.config.fec);
        let coded = fec.decoder_parameter().is_some() || !fec.encoder_parameter().is_empty();
        multipath.is_some_and(|multipath| multipath.echoes) && !coded
    }

    /// PATH_ECHO: packets of path `id` that the peer has. Of a path that is gone nothing is to be learned.
    pub(super) fn on_path_echo(
        &mut self,
        now: Instant,
        id: PathId,
        numbers: &NumberRanges<'_>,
    ) -> Result<(), TransportError> {
        let Some(path) = self.paths.get_mut(id) else {
            return Ok(());
        };
        let mut fates = frame_fates!(self, path, now, copies: true);
        path.recovery
            .on_echo(&mut path.space, numbers, &mut fates)?;
        fates.settle_acked();
        self.apply_deferred(SpaceKind::Data, None);
        Ok(())
    }
}
