//! Messages over sockets: whole, with a deadline and a fate.
#![expect(
    clippy::disallowed_methods,
    reason = "deadlines are times of the standard library"
)]

mod common;

use std::time::{Duration, Instant};

use common::{pair, pair_with, pattern, within};
use tautline::{
    Bytes, ConnectionError, MessageFate, MessageId, MessageOptions, NextMessageError,
    SendMessageError, TransportConfig, config::WindowConfig, error::ReceiveMessageError,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_go_both_ways_with_their_fates() {
    within(async {
        let pair = pair().await;
        for (from, to) in [(&pair.client, &pair.server), (&pair.server, &pair.client)] {
            let sizes = [0, 1, 1_000, 100_000, 1_000_000];
            let options = MessageOptions::within(Duration::from_secs(50));
            let mut ids = Vec::new();
            for size in sizes {
                let data = Bytes::from(pattern(size));
                ids.push(from.send_message(data, &options).unwrap());
            }
            let mut got = Vec::new();
            for _ in sizes {
                let message = to.next_message().await.unwrap();
                assert_eq!(message.data, pattern(message.data.len()));
                got.push(message.data.len());
            }
            got.sort_unstable();
            assert_eq!(got, sizes);
            for (id, size) in ids.into_iter().zip(sizes) {
                let report = from.message_fate(id).await.unwrap();
                assert_eq!((report.id, report.bytes), (id, size as u64));
                assert_eq!(report.fate, MessageFate::OnTime);
                assert!(report.took.is_some() && report.stream.is_some());
            }
            assert_eq!(from.message_stats().in_flight, 0);
        }
    })
    .await;
}

#[tokio::test]
async fn what_is_too_late_or_of_no_use_expires() {
    within(async {
        let pair = pair().await;
        let past = Instant::now()
            .checked_sub(Duration::from_millis(1))
            .unwrap();
        let late = pair
            .client
            .send_message(Bytes::from_static(b"late"), &MessageOptions::by(past))
            .unwrap();
        let behind = MessageOptions::default().depends_on([late]);
        let behind = pair.client.send_message(Bytes::new(), &behind).unwrap();
        for id in [late, behind] {
            let report = pair.client.message_fate(id).await.unwrap();
            assert_eq!((report.fate, report.took), (MessageFate::Expired, None));
        }
        let unknown = MessageId(7);
        let behind = MessageOptions::default().depends_on([unknown]);
        let refused = pair.client.send_message(Bytes::new(), &behind).unwrap_err();
        assert_eq!(refused, SendMessageError::UnknownDependency(unknown));
        assert!(pair.client.message_fate(unknown).await.is_err());
    })
    .await;
}

#[tokio::test]
async fn a_full_room_is_waited_for() {
    within(async {
        let mut few = TransportConfig::default();
        few.messages.in_flight = 4;
        let pair = pair_with(TransportConfig::default(), few).await;
        let options = MessageOptions::default();
        let send = async {
            for _ in 0..100 {
                let data = Bytes::from(pattern(5_000));
                pair.client.send_message_wait(data, &options).await.unwrap();
                pair.client
                    .next_message_at(Instant::now() + Duration::from_millis(1));
            }
        };
        let receive = async {
            for _ in 0..100 {
                assert_eq!(pair.server.next_message().await.unwrap().data.len(), 5_000);
            }
        };
        tokio::join!(send, receive);
    })
    .await;
}

#[tokio::test]
async fn what_nobody_takes_stops_the_peer() {
    within(async {
        let mut small = TransportConfig::default();
        small.messages.receive_bytes = 20_000;
        small.stream_receive_window = WindowConfig::fixed(10_000);
        small.connection_receive_window = WindowConfig::fixed(20_000);
        let pair = pair_with(small, TransportConfig::default()).await;
        let options = MessageOptions::default();
        let mut ids = Vec::new();
        for _ in 0..50 {
            let data = Bytes::from(pattern(5_000));
            ids.push(pair.client.send_message(data, &options).unwrap());
        }
        let last = pair.client.message_fate(ids[49]);
        // The first call makes messages of streams.
        assert_eq!(pair.server.next_message().await.unwrap().data.len(), 5_000);
        pair.client.message_fate(ids[3]).await.unwrap();
        let held = pair.server.message_stats().unread_bytes;
        assert!(held <= 30_000, "{held}");
        assert!(pair.client.message_stats().in_flight > 20);
        for _ in 1..50 {
            assert_eq!(pair.server.next_message().await.unwrap().data.len(), 5_000);
        }
        assert_eq!(last.await.unwrap().fate, MessageFate::OnTime);
    })
    .await;
}

#[tokio::test]
async fn refusals_and_the_end_are_told() {
    within(async {
        let mut short = TransportConfig::default();
        short.messages.message_bytes = 1_000;
        let pair = pair_with(short, TransportConfig::default()).await;
        let options = MessageOptions::default();
        // Too long to be there before it is refused.
        let long = Bytes::from(pattern(5_000_000));
        let id = pair.client.send_message(long, &options).unwrap();
        let refused = pair.server.next_message().await.unwrap_err();
        assert!(matches!(
            refused,
            NextMessageError::Refused(ReceiveMessageError::TooLarge { max: 1_000, .. })
        ));
        let long = Bytes::from(pattern(2_000));
        let too_large = pair.server.send_message(long, &options).unwrap_err();
        assert_eq!(too_large, SendMessageError::TooLarge { max: 1_000 });
        let report = pair.client.message_fate(id).await.unwrap();
        assert_eq!(report.fate, MessageFate::Refused(2));

        let short = Bytes::from(pattern(500));
        let open = pair.client.send_message(short.clone(), &options).unwrap();
        let fate = pair.client.message_fate(open);
        assert_eq!(pair.server.next_message().await.unwrap().data, short);
        pair.client.close(0, b"");
        assert!(matches!(
            fate.await.unwrap().fate,
            MessageFate::OnTime | MessageFate::Unknown
        ));
        let lost = pair.client.send_message(short, &options).unwrap_err();
        let locally = SendMessageError::ConnectionLost(ConnectionError::LocallyClosed);
        assert_eq!(lost, locally);
        assert!(matches!(
            pair.server.next_message().await,
            Err(NextMessageError::ConnectionLost(_))
        ));
    })
    .await;
}
