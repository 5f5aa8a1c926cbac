//! A workload's half over a QUIC connection on real sockets.
//!
//! The counterpart of the simulator's host: the same [`Half`], told the same happenings in the same
//! order, by the events of a `tautline` connection and a real clock. A half's timers are as good as
//! tokio's: they come up to about a millisecond late.
//!
//! Owns: [`play`], [`Seat`], [`Seen`], [`Allowance`]. Does not own: who connects to whom, and what
//! halves do.

mod mailbox;
mod meter;
mod session;

use std::{fmt, future::Future, time::Duration};

use tautline::Connection;
use tautline_lab::{
    outcome::Outcome,
    run::Sample,
    session::{Half, Happening, Nobody},
    stack::WireStats,
};
use tautline_transport::time::{Instant, earliest};
use tokio::{sync::watch, time::sleep_until};

pub use self::meter::Allowance;
use self::session::Live;
use crate::clock::RunClock;

/// What one end of a connection needs to be played.
pub struct Seat {
    /// The program.
    pub half: Box<dyn Half>,
    /// The run's time.
    pub clock: RunClock,
    /// When it is over, whatever the half has done by then.
    pub until: Instant,
    /// Time between two samples; zero: none are taken.
    pub sample: Duration,
    /// What this end moves at most.
    pub allowance: Allowance,
    /// Ends it when it turns true, or its sender is gone.
    pub stop: watch::Receiver<bool>,
}

/// What one end has seen.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// What the half has measured.
    pub outcome: Outcome,
    /// The transport at the end.
    pub wire: Option<WireStats>,
    /// Samples on the way.
    pub history: Vec<Sample>,
}

/// Plays a half from `connecting` to the end of the connection, of the time, or until it is stopped.
/// `over` is called once the half wants nothing more or the connection is gone.
pub async fn play<E: fmt::Display>(
    connecting: impl Future<Output = Result<Connection, E>>,
    seat: Seat,
    over: impl FnOnce(),
) -> Seen {
    let Seat {
        mut half,
        clock,
        until,
        sample,
        allowance,
        mut stop,
    } = seat;
    let mut over = Some(over);
    let Some(connected) = connect(connecting, &mut *half, clock, until, &mut stop).await else {
        over.into_iter().for_each(|over| over());
        return Seen {
            outcome: half.outcome(),
            ..Seen::default()
        };
    };
    let mut live = Live::new(connected, clock, allowance);
    let mut history = Vec::new();
    let mut next_sample = clock.now();
    half.on(&mut live, Happening::Connected);
    loop {
        live.deliver(&mut *half);
        let now = clock.now();
        if half.poll_timer().is_some_and(|at| at <= now) && !live.is_closed() {
            half.on_timer(&mut live);
            // What that made possible comes first; a half with nothing but timers must not keep others
            // from running.
            tokio::task::yield_now().await;
        }
        if !sample.is_zero() && next_sample <= now {
            history.extend(live.wire().map(|wire| Sample {
                at: now,
                received: half.received_bytes(),
                wire,
            }));
            next_sample = now + sample;
        }
        if (half.is_over() || live.is_closed())
            && let Some(over) = over.take()
        {
            over();
        }
        if live.is_closed() || now >= until || is_stopped(&stop) {
            break;
        }
        let due = (!sample.is_zero()).then_some(next_sample);
        let due = earliest(due, half.poll_timer()).map_or(until, |due| due.min(until));
        tokio::select! {
            biased;
            _ = stop.changed() => {}
            () = live.filled() => {}
            () = sleep_until(clock.at(due).into()) => {}
        }
    }
    let outcome = half.outcome();
    let wire = live.end().or(history.last().map(|sample| sample.wire));
    over.into_iter().for_each(|over| over());
    Seen {
        outcome,
        wire,
        history,
    }
}

fn is_stopped(stop: &watch::Receiver<bool>) -> bool {
    *stop.borrow() || stop.has_changed().is_err()
}

/// Waits for the handshake; a half may give up meanwhile. `None` when there is no connection: the half was
/// told why.
async fn connect<E: fmt::Display>(
    connecting: impl Future<Output = Result<Connection, E>>,
    half: &mut dyn Half,
    clock: RunClock,
    until: Instant,
    stop: &mut watch::Receiver<bool>,
) -> Option<Connection> {
    let mut connecting = std::pin::pin!(connecting);
    loop {
        let now = clock.now();
        if half.poll_timer().is_some_and(|at| at <= now) {
            half.on_timer(&mut Nobody(now));
        }
        if half.is_over() || now >= until || is_stopped(stop) {
            return None;
        }
        let due = half.poll_timer().map_or(until, |at| at.min(until));
        tokio::select! {
            biased;
            _ = stop.changed() => {}
            connected = &mut connecting => match connected {
                Ok(connection) => return Some(connection),
                Err(error) => {
                    let mut nobody = Nobody(clock.now());
                    half.on(&mut nobody, Happening::Closed(Some(error.to_string())));
                    return None;
                }
            },
            () = sleep_until(clock.at(due).into()) => {}
        }
    }
}
