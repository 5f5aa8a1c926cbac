//! Delay and rate of one direction.

use std::{
    net::{SocketAddr, UdpSocket},
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread,
    time::{Duration, Instant},
};

type Waiting = (Instant, Vec<u8>, Arc<UdpSocket>, SocketAddr);

/// Sends datagrams on, in order; at once unless there is a delay or a rate.
pub(crate) struct Pipe {
    delay: Duration,
    /// Bytes per second; 0: no limit.
    rate: u64,
    queue: u64,
    /// When the last accepted datagram has left the link.
    free_at: Mutex<Instant>,
    waiting: mpsc::Sender<Waiting>,
}

impl Pipe {
    pub(crate) fn new(delay: Duration, rate: u64, queue: u64) -> Self {
        let (sender, receiver) = mpsc::channel::<Waiting>();
        thread::spawn(move || {
            for (due, datagram, socket, to) in receiver {
                thread::sleep(due.saturating_duration_since(Instant::now()));
                let _ = socket.send_to(&datagram, to);
            }
        });
        Self {
            delay,
            rate,
            queue,
            free_at: Mutex::new(Instant::now()),
            waiting: sender,
        }
    }

    /// False when the queue is full and the datagram is gone.
    pub(crate) fn send(&self, datagram: &[u8], socket: &Arc<UdpSocket>, to: SocketAddr) -> bool {
        let now = Instant::now();
        let mut due = now + self.delay;
        if self.rate > 0 {
            let mut free_at = self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
            let waiting = free_at.saturating_duration_since(now).as_secs_f64() * self.rate as f64;
            if waiting > self.queue as f64 {
                return false;
            }
            let busy = Duration::from_secs_f64(datagram.len() as f64 / self.rate as f64);
            *free_at = (*free_at).max(now) + busy;
            due = *free_at + self.delay;
        }
        if due == now {
            let _ = socket.send_to(datagram, to);
        } else {
            let _ = self
                .waiting
                .send((due, datagram.to_vec(), Arc::clone(socket), to));
        }
        true
    }
}
