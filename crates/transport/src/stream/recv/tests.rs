use super::*;

fn half() -> RecvHalf {
    RecvHalf::new(WindowConfig::fixed(1000))
}

fn data(half: &mut RecvHalf, offset: u64, len: u64, fin: bool) -> bool {
    let extent = Extent { offset, len, fin };
    half.check(extent).unwrap();
    half.on_data(extent, vec![1; len as usize].into(), 1)
}

fn reset(half: &mut RecvHalf, code: u64, final_size: u64, reliable_size: Option<u64>) -> bool {
    let frame = ResetFrame {
        code,
        final_size,
        reliable_size,
    };
    half.check_reset(frame).unwrap();
    half.on_reset(frame)
}

fn read(half: &mut RecvHalf) -> Result<usize, ReadError> {
    half.read(usize::MAX).map(|outcome| match outcome {
        ReadOutcome::Chunk(chunk) => chunk.len(),
        ReadOutcome::Blocked => 0,
        ReadOutcome::Finished => usize::MAX,
    })
}

#[test]
fn stream_read_to_its_end() {
    let mut half = half();
    assert!(data(&mut half, 0, 10, false));
    assert!(!data(&mut half, 20, 5, true));
    assert_eq!(half.state(), RecvState::SizeKnown);
    assert_eq!(read(&mut half), Ok(10));
    assert_eq!(read(&mut half), Ok(0));
    assert!(data(&mut half, 10, 10, false));
    assert_eq!(half.state(), RecvState::DataRecvd);
    assert_eq!(read(&mut half), Ok(10));
    assert_eq!(read(&mut half), Ok(5));
    assert_eq!(half.state(), RecvState::DataRecvd);
    assert_eq!(read(&mut half), Ok(usize::MAX));
    assert_eq!(half.state(), RecvState::DataRead);
    assert_eq!(read(&mut half), Ok(usize::MAX));
    assert_eq!(half.take_credit(), 25);
}

#[test]
fn late_fin_is_news() {
    let mut half = half();
    data(&mut half, 0, 10, false);
    assert_eq!(read(&mut half), Ok(10));
    assert!(data(&mut half, 10, 0, true));
    assert!(!data(&mut half, 10, 0, true));
    assert_eq!(read(&mut half), Ok(usize::MAX));
}

#[test]
fn reset_at_any_time() {
    for known in [false, true] {
        let mut half = half();
        data(&mut half, 5, 10, known);
        assert!(reset(&mut half, 7, 15, None));
        assert_eq!(half.state(), RecvState::ResetRecvd);
        assert_eq!(half.take_credit(), 15);
        assert_eq!(half.assembler().buffered(), 0);
        assert!(!reset(&mut half, 7, 15, None));
        assert!(!data(&mut half, 0, 5, false));
        assert_eq!(read(&mut half), Err(ReadError::Reset(7)));
        assert_eq!(half.state(), RecvState::ResetRead);
        assert_eq!(half.take_credit(), 0);
    }
}

#[test]
fn reliable_reset_ends_at_its_size() {
    let mut half = half();
    assert!(!reset(&mut half, 7, 100, Some(20)));
    assert_eq!(half.state(), RecvState::SizeKnown);
    assert_eq!(half.take_credit(), 80);
    data(&mut half, 0, 50, false);
    assert_eq!(read(&mut half), Ok(20));
    assert_eq!(read(&mut half), Err(ReadError::Reset(7)));
    assert_eq!(half.take_credit(), 20);
    // Zero is a plain reset.
    let mut half = self::half();
    assert!(reset(&mut half, 7, 100, Some(0)));
}

#[test]
fn plain_reset_lowers_a_reliable_one() {
    let mut half = half();
    reset(&mut half, 7, 100, Some(20));
    assert!(reset(&mut half, 7, 100, None));
    assert_eq!(read(&mut half), Err(ReadError::Reset(7)));
}

#[test]
fn stop_in_every_state() {
    let mut open = half();
    data(&mut open, 0, 10, false);
    assert!(open.stop(3));
    assert!(!open.stop(3));
    assert_eq!(open.stop_to_send(), Some(3));
    assert_eq!(open.take_credit(), 10);
    assert!(!open.is_terminal());
    data(&mut open, 15, 5, false);
    assert_eq!(open.take_credit(), 10);
    data(&mut open, 20, 0, true);
    assert_eq!(
        (open.state(), open.stop_to_send()),
        (RecvState::Discarded, None)
    );

    let mut known = half();
    data(&mut known, 10, 10, true);
    known.stop(3);
    assert_eq!(
        (known.state(), known.stop_to_send()),
        (RecvState::Discarded, None)
    );
    assert_eq!(known.take_credit(), 20);

    let mut reset_first = half();
    reset(&mut reset_first, 7, 50, None);
    assert!(reset_first.stop(3));
    assert!(reset_first.is_terminal());
}
