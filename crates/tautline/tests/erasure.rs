//! Erasure correction between two endpoints on the loopback interface.

mod common;

use std::sync::{Arc, Mutex};

use common::{Pair, pair_with, within};
use tautline::{
    Connection, LocalEnd, MultipathConfig, PathId, TransportConfig,
    transport::{
        fec::redundancy,
        multipath::sched,
        observe::{ConnectionInfo, Event, Sink, SinkFactory},
        time::Instant,
        wire::Frame,
    },
};

/// Protects as `scheduler` says, and decodes; several paths take turns.
fn protected(scheduler: &str) -> TransportConfig {
    let mut config = TransportConfig::default();
    config.fec.redundancy = redundancy::registry::parse(scheduler).unwrap();
    config.fec.decode = true;
    let mut multipath = MultipathConfig::default();
    multipath.scheduler = sched::registry::by_name("round-robin").unwrap();
    config.multipath = Some(multipath);
    config
}

/// Keeps the symbols of each FEC_WINDOW that arrived.
#[derive(Clone, Debug, Default)]
struct Windows(Arc<Mutex<Vec<u64>>>);

impl Windows {
    fn told(&self) -> Vec<u64> {
        self.0.lock().unwrap().clone()
    }
}

impl SinkFactory for Windows {
    fn build(&self, _: &ConnectionInfo) -> Option<Box<dyn Sink>> {
        let told = Arc::clone(&self.0);
        Some(Box::new(move |_: Instant, event: &Event<'_>| {
            if let Event::FrameReceived(Frame::FecWindow { symbols, .. }) = event {
                told.lock().unwrap().push(*symbols);
            }
        }))
    }
}

async fn transfer(from: &Connection, to: &Connection, bytes: usize) {
    let send = async {
        let mut stream = from.open_uni().await.unwrap();
        stream.write_all(&vec![7; bytes]).await.unwrap();
        stream.finish().unwrap();
        stream.stopped().await.unwrap();
    };
    let receive = async {
        let mut stream = to.accept_uni().await.unwrap();
        let mut buffer = vec![0; 65_536];
        let mut received = 0;
        while let Some(len) = stream.read(&mut buffer).await.unwrap() {
            received += len;
        }
        assert_eq!(received, bytes);
    };
    tokio::join!(send, receive);
}

#[tokio::test]
async fn a_smaller_window_is_told_at_once() {
    within(async {
        let windows = Windows::default();
        let mut watched = protected("constant:6,5");
        watched.observer = Some(Arc::new(windows.clone()));
        let pair = pair_with(watched, protected("none")).await;
        pair.client.handshake_confirmed().await.unwrap();
        assert_eq!(windows.told(), []);
        // Nothing else is there to be sent.
        pair.client.set_fec_window(3);
        while windows.told().is_empty() {
            tokio::task::yield_now().await;
        }
        // The same again says nothing; what was not offered is not granted.
        pair.client.set_fec_window(3);
        transfer(&pair.server, &pair.client, 100_000).await;
        assert_eq!(windows.told(), [3]);
        for (asked, granted) in [(0, 1), (u16::MAX, 256)] {
            pair.client.set_fec_window(asked);
            while windows.told().last() != Some(&granted) {
                tokio::task::yield_now().await;
            }
        }
        assert!(pair.server.fec_stats().repairs_sent > 0);
    })
    .await;
}

#[tokio::test]
async fn losses_are_estimated_by_path_and_for_all() {
    within(async {
        let Pair {
            server,
            client,
            server_endpoint,
            client_endpoint,
        } = pair_with(protected("constant:6,5"), protected("none")).await;
        // The client protects nothing.
        assert!(client.is_fec_receiver() && !client.is_fec_sender());
        assert_eq!(client.loss_estimate(PathId::ZERO), None);
        assert_eq!(client.connection_loss_estimate(), None);
        transfer(&server, &client, 1_000_000).await;
        let alone = server.loss_estimate(PathId::ZERO).unwrap();
        assert!(alone.packets > 50.0 && (0.0..=1.0).contains(&alone.rate));
        assert_eq!(
            server.connection_loss_estimate().unwrap().packets,
            alone.packets
        );
        assert_eq!(server.loss_estimate(PathId(1)).unwrap().packets, 0.0);
        let second = LocalEnd::from(client.local_address().ip());
        client
            .open_path(second, client.remote_address())
            .await
            .unwrap();
        // On a busy machine one path may grow much faster than the other.
        for _ in 0..20 {
            transfer(&server, &client, 2_000_000).await;
            let all = server.connection_loss_estimate().unwrap();
            assert!(all.packets > 0.0 && (0.0..=1.0).contains(&all.rate));
            if server.loss_estimate(PathId(1)).unwrap().packets > 50.0 {
                drop((server_endpoint, client_endpoint));
                return;
            }
        }
        panic!("{:?}", server.paths());
    })
    .await;
}

/// Where nothing was negotiated there is nothing to set or to tell; nor after the end.
#[tokio::test]
async fn without_erasure_correction_nothing_happens() {
    within(async {
        let pair = common::pair().await;
        pair.client.set_fec_window(3);
        assert_eq!(pair.client.loss_estimate(PathId::ZERO), None);
        let pair = pair_with(protected("auto"), protected("auto")).await;
        assert!(pair.client.connection_loss_estimate().is_some());
        pair.client.close(0, b"");
        pair.client.set_fec_window(3);
        assert_eq!(pair.client.connection_loss_estimate(), None);
    })
    .await;
}
