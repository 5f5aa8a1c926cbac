//! A program that is cut off at a stated time.

use tautline_transport::time::{Instant, earliest};

use crate::{
    outcome::Outcome,
    session::{Half, Happening, Session},
};

/// `inner`, whose connection is closed at `stop`, whatever it has done by then.
pub fn cut_off(inner: Box<dyn Half>, stop: Instant) -> Box<dyn Half> {
    Box::new(Timed {
        inner,
        stop: Some(stop),
        cut: false,
    })
}

struct Timed {
    inner: Box<dyn Half>,
    stop: Option<Instant>,
    cut: bool,
}

impl Half for Timed {
    fn on(&mut self, session: &mut dyn Session, happening: Happening) {
        if !self.cut || matches!(happening, Happening::Closed(_)) {
            self.inner.on(session, happening);
        }
    }

    fn on_timer(&mut self, session: &mut dyn Session) {
        if self.stop.is_some_and(|stop| stop <= session.now()) {
            self.stop = None;
            self.cut = true;
            session.close();
        }
        let now = session.now();
        if !self.cut && self.inner.poll_timer().is_some_and(|at| at <= now) {
            self.inner.on_timer(session);
        }
    }

    fn poll_timer(&self) -> Option<Instant> {
        if self.cut {
            return None;
        }
        earliest(self.stop, self.inner.poll_timer())
    }

    fn outcome(&self) -> Outcome {
        self.inner.outcome()
    }

    fn received_bytes(&self) -> u64 {
        self.inner.received_bytes()
    }

    fn is_over(&self) -> bool {
        self.cut || self.inner.is_over()
    }
}
