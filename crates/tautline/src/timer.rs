//! One timer per driver, finer than the runtime's millisecond where the system allows.
//!
//! Purpose: pacing at high rates needs wake-ups tens of microseconds apart; tokio's timer wheel
//! rounds up to the next millisecond.
//! Owns: [`Timer`]. On Linux a `timerfd`; elsewhere, or if that fails, tokio's sleep.
//! Does not own: which deadlines exist ([`crate::shard`]).

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tautline_transport::time::Instant;

/// A single-shot timer that is re-armed as deadlines change.
#[derive(Debug)]
pub(crate) struct Timer {
    backend: Backend,
    /// What the backend is set to, if it is running.
    armed: Option<Instant>,
}

#[derive(Debug)]
enum Backend {
    #[cfg(target_os = "linux")]
    TimerFd(tokio::io::unix::AsyncFd<std::os::fd::OwnedFd>),
    Sleep(Pin<Box<tokio::time::Sleep>>),
}

impl Timer {
    /// A timer that is not running. Must be called inside a runtime.
    pub(crate) fn new() -> Self {
        Self {
            backend: Backend::new(),
            armed: None,
        }
    }

    /// Ready once `deadline` has passed (or, now and then, earlier: look at the clock again).
    pub(crate) fn poll_until(
        &mut self,
        cx: &mut Context<'_>,
        deadline: Instant,
        now: Instant,
    ) -> Poll<()> {
        if deadline <= now {
            return Poll::Ready(());
        }
        // A timer that fires too early costs one wake-up; re-arming costs a system call each
        // time. So only an earlier deadline re-arms.
        if self
            .armed
            .is_none_or(|armed| armed > deadline || armed <= now)
        {
            self.backend.arm(deadline.saturating_since(now));
            self.armed = Some(deadline);
        }
        ready!(self.backend.poll(cx));
        self.armed = None;
        Poll::Ready(())
    }
}

impl Backend {
    #[cfg(target_os = "linux")]
    fn new() -> Self {
        use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let fd = timerfd_create(TimerfdClockId::Monotonic, flags);
        let Ok(fd) = fd else { return Self::sleep() };
        // SAFETY: `register` asks that the descriptor stays open, and the same, as long as it is
        // registered. An `OwnedFd` that is moved in owns it, and nothing here takes it out again.
        match unsafe { tokio::io::unix::AsyncFd::register(fd) } {
            Ok(fd) => Self::TimerFd(fd),
            Err(_) => Self::sleep(),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn new() -> Self {
        Self::sleep()
    }

    fn sleep() -> Self {
        Self::Sleep(Box::pin(tokio::time::sleep(Duration::ZERO)))
    }

    fn arm(&mut self, after: Duration) {
        match self {
            #[cfg(target_os = "linux")]
            Self::TimerFd(fd) => {
                use rustix::time::{Itimerspec, TimerfdTimerFlags, Timespec, timerfd_settime};
                // Zero would disarm.
                let after = after.max(Duration::from_nanos(1));
                let at = Timespec {
                    tv_sec: i64::try_from(after.as_secs()).unwrap_or(i64::MAX / 4),
                    tv_nsec: after.subsec_nanos().into(),
                };
                let zero = Timespec {
                    tv_sec: 0,
                    tv_nsec: 0,
                };
                let spec = Itimerspec {
                    it_interval: zero,
                    it_value: at,
                };
                let set = timerfd_settime(fd.get_ref(), TimerfdTimerFlags::empty(), &spec);
                if set.is_err() {
                    *self = Self::sleep();
                    self.arm(after);
                }
            }
            Self::Sleep(sleep) => {
                let at = tokio::time::Instant::now() + after.min(Duration::from_secs(86_400));
                sleep.as_mut().reset(at);
            }
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            #[cfg(target_os = "linux")]
            Self::TimerFd(fd) => {
                // No read: arming again resets the expiry count, and every expiry is a new edge.
                if let Ok(mut guard) = ready!(fd.poll_read_ready(cx)) {
                    guard.clear_ready();
                }
                Poll::Ready(())
            }
            Self::Sleep(sleep) => sleep.as_mut().poll(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;

    async fn elapse(timer: &mut Timer, clock: Clock, after: Duration) {
        let deadline = clock.now() + after;
        std::future::poll_fn(|cx| {
            loop {
                let now = clock.now();
                if now >= deadline {
                    return Poll::Ready(());
                }
                ready!(timer.poll_until(cx, deadline, now));
            }
        })
        .await;
        assert!(clock.now() >= deadline);
    }

    #[tokio::test]
    async fn fires_never_early_and_can_be_rearmed() {
        let clock = Clock::start();
        let mut timer = Timer::new();
        for micros in [50, 700, 3_000, 20] {
            elapse(&mut timer, clock, Duration::from_micros(micros)).await;
        }
    }

    #[tokio::test]
    async fn the_fallback_fires_too() {
        let clock = Clock::start();
        let mut timer = Timer {
            backend: Backend::sleep(),
            armed: None,
        };
        elapse(&mut timer, clock, Duration::from_millis(2)).await;
    }

    #[tokio::test]
    async fn an_earlier_deadline_overtakes_a_later_one() {
        let clock = Clock::start();
        let mut timer = Timer::new();
        let far = clock.now() + Duration::from_secs(3_600);
        std::future::poll_fn(|cx| {
            assert!(timer.poll_until(cx, far, clock.now()).is_pending());
            Poll::Ready(())
        })
        .await;
        elapse(&mut timer, clock, Duration::from_millis(1)).await;
    }
}
