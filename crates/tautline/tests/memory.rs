//! What connections cost and give back, in live heap bytes. A program of its own: nothing else
//! may allocate meanwhile.

mod common;

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicUsize, Ordering},
};

use common::{client_config, identity, loopback, server_config, within};
use tautline::{Endpoint, TransportConfig};

/// The system's allocator, counting.
struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on to the system's allocator unchanged, which keeps the contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: `ptr` came from `System.alloc` with this layout; the caller's contract.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The bound per idle connection and side is 25 KB; both sides live in this process.
const IDLE_BYTES_BOTH_SIDES: usize = 2 * 25_000;

fn live() -> usize {
    LIVE.load(Ordering::Relaxed)
}

#[test]
fn idle_connections_are_small_and_closed_ones_leave_nothing() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    // Not all of it in one `within`: that many connections take their time.
    runtime.block_on(async {
        let identity = identity();
        let mut transport = TransportConfig::default();
        transport.max_idle_timeout = None;
        let config = server_config(&identity, transport.clone());
        let server = Endpoint::server(config, loopback()).unwrap();
        let client = Endpoint::client(loopback()).unwrap();
        client.set_default_client_config(client_config(&identity, transport));

        // Buffers, tables and ticket stores find their size.
        cycle(&server, &client, 50).await;
        let before = live();

        const IDLE: usize = 100;
        let mut held = Vec::with_capacity(IDLE);
        for _ in 0..IDLE {
            let (accepted, connected) = common::connect(&server, &client).await;
            connected.handshake_confirmed().await.unwrap();
            held.push((accepted, connected));
        }
        // Until ACK and MTU timers have had their turn.
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        let each = live().saturating_sub(before) / IDLE;
        println!("{each} bytes per idle connection, both sides");
        assert!(each <= IDLE_BYTES_BOTH_SIDES, "{each} bytes per connection");
        held.iter()
            .for_each(|(_, connected)| connected.close(0, b""));
        drop(held);
        within(server.wait_idle()).await;
        within(client.wait_idle()).await;

        // Until the ticket store is full, as it is by default after some hundred.
        cycle(&server, &client, 550).await;
        let after = live();
        cycle(&server, &client, 1_400).await;
        let later = live();
        println!("{after} bytes after 700 connections, {later} after 2,100");
        let growth = later.saturating_sub(after);
        assert!(
            growth <= after / 100,
            "{growth} bytes more after 1,400 connections"
        );

        // How many connections were alive or draining at once must not show afterwards.
        burst(&server, &client, 600).await;
        let later = live();
        println!("{later} bytes after 600 connections at once");
        let growth = later.saturating_sub(after);
        assert!(
            growth <= after / 100,
            "{growth} bytes more after 600 connections at once"
        );
    });
}

/// Connections that come and go.
async fn cycle(server: &Endpoint, client: &Endpoint, count: usize) {
    /// So that how many are draining at once, and with it the size of tables, does not depend on
    /// how fast the machine is.
    const AT_ONCE: usize = 50;
    for index in 1..=count {
        let (_accepted, connected) = within(common::connect(server, client)).await;
        connected.close(0, b"");
        if index % AT_ONCE == 0 || index == count {
            within(server.wait_idle()).await;
            within(client.wait_idle()).await;
        }
    }
}

/// Connections that are there at once, and then go.
async fn burst(server: &Endpoint, client: &Endpoint, count: usize) {
    let mut held = Vec::with_capacity(count);
    for _ in 0..count {
        held.push(within(common::connect(server, client)).await);
    }
    drop(held);
    within(server.wait_idle()).await;
    within(client.wait_idle()).await;
}
