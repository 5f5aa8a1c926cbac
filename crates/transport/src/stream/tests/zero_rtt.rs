//! Early data that the server did not take.

use super::kit::*;
use crate::{
    packet::Token,
    stream::{PeerLimits, ReadError, StreamEvent},
    units::{Dir, Side},
    wire::Frame,
};

fn remembered() -> PeerLimits {
    PeerLimits {
        max_data: 5000,
        max_stream_data_bidi_remote: 3000,
        max_stream_data_uni: 3000,
        max_streams_bidi: 4,
        max_streams_uni: 4,
        ..PeerLimits::default()
    }
}

#[test]
fn everything_is_sent_again_within_the_new_limits() {
    let config = small_config();
    let mut client = crate::stream::StreamSet::new(Side::Client, &config);
    client.set_peer_limits(&remembered());
    let ids: Vec<_> = (0..4).map(|_| client.open(Dir::Bi).unwrap()).collect();
    client.write(ids[0], &[1; 2500]).unwrap();
    client.write(ids[1], &[2; 100]).unwrap();
    client.finish(ids[1]).unwrap();
    client.write(ids[2], &[3; 50]).unwrap();
    client.reset(ids[2], 9).unwrap();
    client.write(ids[3], &[4; 10]).unwrap();
    client.finish(ids[3]).unwrap();
    client.stop(ids[1], 5).unwrap();
    let early = packets(&mut client);
    assert!(early.len() > 2);

    client.on_zero_rtt_rejected();
    // Lower than remembered in every way: 2000 bytes a stream, 3000 in all, 3 streams.
    client.set_peer_limits(&limits_of(&config));
    let mut server = set(Side::Server, &config);
    for _ in 0..6 {
        flush(&mut client, &mut server);
        while server.accept(Dir::Bi).is_some() {}
        for id in &ids[..2] {
            if let Ok(crate::stream::ReadOutcome::Chunk(_)) = server.read(*id, 0) {}
        }
        flush(&mut server, &mut client);
    }
    // The reader has 2000 bytes of stream 0 (its limit) and all of stream 1.
    assert_eq!(read_all(&mut server, ids[1]), (vec![2; 100], true));
    assert_eq!(server.read(ids[2], 10), Err(ReadError::Reset(9)));
    let stopped = StreamEvent::Stopped {
        id: ids[1],
        code: 5,
    };
    assert!(events(&mut server).contains(&stopped));
    assert_eq!(
        server.read(ids[3], 10),
        Err(ReadError::UnknownStream),
        "beyond the stream limit"
    );
    let mut first = Vec::new();
    for _ in 0..10 {
        first.extend(read_all(&mut server, ids[0]).0);
        flush(&mut server, &mut client);
        flush(&mut client, &mut server);
    }
    assert_eq!(first, [1; 2500]);
    // Stream 2 ends in both directions: the peer grants a fourth stream.
    server.finish(ids[2]).unwrap();
    flush(&mut server, &mut client);
    assert_eq!(read_all(&mut client, ids[2]), (vec![], true));
    for _ in 0..3 {
        flush(&mut server, &mut client);
        flush(&mut client, &mut server);
    }
    assert_eq!(read_all(&mut server, ids[3]), (vec![4; 10], true));
    assert!(events(&mut client).contains(&StreamEvent::Finished(ids[3])));
}

#[test]
fn late_losses_of_early_packets_are_harmless() {
    let config = small_config();
    let mut client = crate::stream::StreamSet::new(Side::Client, &config);
    client.set_peer_limits(&remembered());
    let id = client.open(Dir::Uni).unwrap();
    client.write(id, &[1; 2500]).unwrap();
    let early = packets(&mut client);
    client.on_zero_rtt_rejected();
    for token in early.iter().flat_map(|packet| &packet.tokens) {
        client.on_lost(*token);
    }
    client.set_peer_limits(&limits_of(&config));
    let sent = packets(&mut client);
    let bytes: u32 = sent
        .iter()
        .flat_map(|packet| &packet.tokens)
        .map(|token| {
            if let Token::Stream { len, .. } = token {
                *len
            } else {
                0
            }
        })
        .sum();
    assert_eq!(bytes, 2000);
    assert!(
        !sent
            .iter()
            .flat_map(|p| p.frames())
            .any(|f| matches!(f, Frame::DataBlocked(_)))
    );
}

#[test]
fn retry_keeps_the_remembered_limits() {
    let mut client = crate::stream::StreamSet::new(Side::Client, &small_config());
    client.set_peer_limits(&remembered());
    let id = client.open(Dir::Uni).unwrap();
    client.write(id, &[1; 2500]).unwrap();
    let early = packets(&mut client);
    client.on_zero_rtt_rejected();
    let again = packets(&mut client);
    assert_eq!(
        early
            .iter()
            .map(|packet| &packet.tokens)
            .collect::<Vec<_>>(),
        again
            .iter()
            .map(|packet| &packet.tokens)
            .collect::<Vec<_>>()
    );
    assert!(client.limits_cover(&remembered()));
    assert!(!client.limits_cover(&limits_of(&small_config())));
}
