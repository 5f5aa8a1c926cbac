use super::*;

fn half(data: &[u8]) -> SendHalf {
    let mut half = SendHalf::new(1 << 20);
    half.buffer_mut().write(data);
    half
}

/// Sends everything there is, in one frame; its range and whether it carried FIN.
fn send(half: &mut SendHalf) -> (Range<u64>, bool) {
    let segment = half.next_segment(true).expect("something to send");
    let end = segment.offset + segment.len;
    let fin = half.fin_at(end);
    half.on_sent(segment, segment.len, fin);
    (segment.offset..end, fin)
}

#[test]
fn finished_stream() {
    let mut half = half(b"hello");
    assert_eq!(half.state(), SendState::Ready);
    assert_eq!(send(&mut half), (0..5, false));
    assert_eq!(half.state(), SendState::Send);
    half.finish().unwrap();
    assert_eq!(send(&mut half), (5..5, true));
    assert_eq!(half.state(), SendState::DataSent);
    assert_eq!(half.demand(true), Demand::Nothing);
    half.on_acked(5..5, true);
    assert_eq!(half.state(), SendState::DataSent);
    assert_eq!(half.on_acked(0..5, false), 5);
    assert_eq!(half.state(), SendState::DataRecvd);
    assert!(half.is_terminal() && half.is_delivered());
    assert_eq!(half.reset(1, None), None);
    assert_eq!(half.on_stop_sending(1), None);
}

#[test]
fn fin_rides_on_the_last_bytes_and_returns_with_them() {
    let mut half = half(b"hello");
    half.finish().unwrap();
    let (range, fin) = send(&mut half);
    assert!(fin);
    half.on_lost(range.clone(), fin);
    assert_eq!(send(&mut half), (0..5, true));
    half.on_acked(range, true);
    assert!(half.is_delivered());
}

#[test]
fn reset_from_every_open_state() {
    for sent in [false, true] {
        for finished in [false, true] {
            let mut half = half(b"hello");
            if finished {
                half.finish().unwrap();
            }
            if sent {
                send(&mut half);
            }
            assert_eq!(half.reset(7, None), Some(5));
            assert_eq!(half.state(), SendState::ResetSent);
            assert_eq!(half.demand(true), Demand::Nothing);
            let (reset, final_size) = half.reset_to_send().unwrap();
            assert_eq!((reset.code, final_size), (7, if sent { 5 } else { 0 }));
            // STREAM frames no longer matter.
            assert_eq!(half.on_acked(0..5, finished), 0);
            half.on_lost(0..5, finished);
            assert_eq!(half.demand(true), Demand::Nothing);
            half.on_reset_acked(true);
            assert_eq!(half.state(), SendState::ResetSent);
            half.on_reset_acked(false);
            assert_eq!(half.state(), SendState::ResetRecvd);
            assert!(half.is_terminal() && !half.is_delivered());
            assert_eq!(half.reset_to_send(), None);
        }
    }
}

#[test]
fn reset_at_waits_for_its_bytes() {
    let mut half = half(&[1; 100]);
    assert_eq!(half.reset(7, Some(60)), Some(40));
    assert_eq!(half.state(), SendState::DataSent);
    // Its final size would exceed what was sent, and maybe what may be sent.
    assert_eq!(half.reset_to_send(), None);
    assert_eq!(send(&mut half), (0..60, false));
    assert!(half.owes_first_reset());
    half.on_reset_sent();
    assert!(!half.owes_first_reset());
    assert_eq!(half.reset_to_send().unwrap().1, 60);
    half.on_reset_acked(true);
    assert_eq!(half.state(), SendState::DataSent);
    half.on_lost(0..60, false);
    assert_eq!(send(&mut half), (0..60, false));
    half.on_acked(0..60, false);
    assert_eq!(half.state(), SendState::DataRecvd);
    assert!(!half.is_delivered());
}

#[test]
fn reset_at_of_sent_bytes_keeps_the_final_size() {
    let mut half = half(&[1; 100]);
    half.finish().unwrap();
    send(&mut half);
    half.on_acked(0..30, false);
    assert_eq!(half.reset(7, Some(10)), Some(70));
    let (reset, final_size) = half.reset_to_send().unwrap();
    assert_eq!((reset.reliable_size, final_size), (Some(10), 100));
    assert_eq!(half.next_segment(true), None);
    half.on_reset_acked(true);
    assert_eq!(half.state(), SendState::DataRecvd);
}

#[test]
fn peers_limit_holds_new_bytes_back() {
    let mut half = SendHalf::new(10);
    half.buffer_mut().write(&[1; 30]);
    assert_eq!(half.writable(), 0);
    assert_eq!(half.demand(false), Demand::NeedsCredit);
    assert_eq!(send(&mut half).0, 0..10);
    assert_eq!(half.demand(true), Demand::Nothing);
    half.on_lost(0..10, false);
    assert_eq!(half.demand(false), Demand::Now);
    send(&mut half);
    assert!(half.credit.raise(30));
    half.finish().unwrap();
    assert_eq!(send(&mut half), (10..30, true));
}

#[test]
fn rewind_makes_everything_new() {
    let mut half = half(b"hello");
    half.finish().unwrap();
    send(&mut half);
    half.on_lost(0..5, true);
    half.rewind();
    assert_eq!(half.credit.used, 0);
    assert_eq!(
        half.next_segment(true),
        Some(Segment {
            offset: 0,
            len: 5,
            is_new: true
        })
    );
    assert_eq!(send(&mut half), (0..5, true));
    assert_eq!(half.credit.used, 5);
}
