use super::*;
use crate::code::CodingWindow;

fn coefficients<const N: usize>(field: Field, dt: u8, key: u32) -> [u8; N] {
    let mut out = [0xee; N];
    let window = CodingWindow {
        first: 5,
        len: u16::try_from(N).expect("short"),
    };
    let density = DensityThreshold::new(dt).expect("four bits");
    Rlc::new(field, density)
        .coefficients(RepairId { window, key }, &mut out)
        .expect("coefficients");
    out
}

/// Vectors of ours, for other implementations to check themselves against.
#[test]
fn coefficient_vectors() {
    use Field::{Gf2, Gf256};
    assert_eq!(
        coefficients(Gf256, 15, 0),
        [39, 42, 153, 208, 176, 219, 77, 72]
    );
    assert_eq!(
        coefficients(Gf256, 15, 1),
        [37, 225, 177, 176, 21, 246, 54, 139]
    );
    assert_eq!(
        coefficients(Gf256, 7, 1),
        [225, 176, 246, 139, 0, 0, 187, 0]
    );
    assert_eq!(coefficients(Gf2, 7, 1), [1, 1, 1, 1, 1, 1, 1, 0]);
    assert_eq!(coefficients(Gf2, 15, 1), [1; 8]);
}

#[test]
fn density_is_what_the_threshold_says() {
    for field in [Field::Gf2, Field::Gf256] {
        for dt in 0..15 {
            let keys = 0..64;
            let total = keys.len() * 256;
            let nonzero: usize = keys
                .map(|key| {
                    let out: [u8; 256] = coefficients(field, dt, key);
                    out.iter().filter(|c| **c != 0).count()
                })
                .sum();
            let (found, expected) = (nonzero * 16, total * (usize::from(dt) + 1));
            assert!(
                found.abs_diff(expected) < total,
                "{field:?} {dt}: {found} {expected}"
            );
        }
    }
}

/// What the module's documentation warns of.
#[test]
fn short_windows_may_have_no_coefficient_but_at_full_density() {
    let empty = |field, dt| {
        let zeros = |key: &u32| coefficients::<1>(field, dt, *key) == [0];
        (0..1000).filter(zeros).count()
    };
    for field in [Field::Gf2, Field::Gf256] {
        let half = empty(field, 7);
        assert!((450..=550).contains(&half), "{field:?}: {half} of 1000");
        assert_eq!(empty(field, 15), 0);
    }
}

#[test]
fn a_longer_window_continues_a_shorter_one() {
    let short: [u8; 20] = coefficients(Field::Gf256, 9, 77);
    let long: [u8; 200] = coefficients(Field::Gf256, 9, 77);
    assert_eq!(long[..20], short);
}

#[test]
fn what_the_payload_id_cannot_say_is_refused() {
    let ask = |len: u16, key| {
        let window = CodingWindow { first: 0, len };
        Rlc::DENSE.coefficients(RepairId { window, key }, &mut vec![0; usize::from(len)])
    };
    assert_eq!(ask(0, 0), Err(CodeError::EmptyWindow));
    assert_eq!(ask(4095, 65_535), Ok(()));
    let too_long = CodeError::WindowTooLong {
        len: 4096,
        max: 4095,
    };
    assert_eq!(ask(4096, 0), Err(too_long));
    let too_large = CodeError::KeyTooLarge {
        key: 65_536,
        max: 65_535,
    };
    assert_eq!(ask(1, 65_536), Err(too_large));
    assert_eq!(DensityThreshold::new(16), None);
}

#[test]
fn rows_are_those_of_one_by_one() {
    let sparse = DensityThreshold::new(7).expect("four bits");
    for code in [
        Rlc::DENSE,
        Rlc::new(Field::Gf256, sparse),
        Rlc::new(Field::Gf2, sparse),
    ] {
        for (rows, len, key) in [
            (1, 32, 0),
            (8, 32, 0),
            (19, 300, 7),
            (8, 1, 65_528),
            (3, 0, 1),
        ] {
            let window = CodingWindow { first: 5, len };
            let width = usize::from(len);
            let mut all = vec![0xee; rows * width];
            let done = code.rows(RepairId { window, key }, &mut all);
            assert_eq!(done.is_ok(), len > 0);
            let mut alone = Vec::new();
            for key in (key..).take(rows) {
                let mut row = vec![0; width];
                let done = code.coefficients(RepairId { window, key }, &mut row);
                assert_eq!(done.is_ok(), len > 0);
                alone.extend(row);
            }
            assert_eq!(all, alone);
        }
        // The last key is 65,535, in whatever place of a group it stands.
        for (rows, key) in [(8, 65_529), (9, 65_528), (8, 65_536), (8, u32::MAX)] {
            let window = CodingWindow { first: 0, len: 4 };
            let mut all = vec![0; 4 * rows];
            let done = code.rows(RepairId { window, key }, &mut all);
            assert!(
                matches!(done, Err(CodeError::KeyTooLarge { .. })),
                "{done:?}"
            );
        }
    }
}
