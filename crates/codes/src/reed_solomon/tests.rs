use super::*;
use crate::code::CodingWindow;

/// Bytes without structure.
fn noise(seed: &mut u64) -> u8 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    (*seed >> 56) as u8
}

fn block(k: usize, r: usize, len: usize, seed: u64) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let mut seed = seed;
    let sources: Vec<Vec<u8>> = (0..k)
        .map(|_| (0..len).map(|_| noise(&mut seed)).collect())
        .collect();
    let mut repairs = vec![vec![0xee; len]; r];
    let slices: Vec<&[u8]> = sources.iter().map(Vec::as_slice).collect();
    let mut outputs: Vec<&mut [u8]> = repairs.iter_mut().map(Vec::as_mut_slice).collect();
    encode(&slices, &mut outputs).expect("a valid block");
    (sources, repairs)
}

/// Rebuilds from the symbols whose bit is set (sources first).
fn rebuild(sources: &[Vec<u8>], repairs: &[Vec<u8>], there: impl Fn(usize) -> bool) {
    let mut received: Vec<_> = (0..sources.len())
        .map(|i| there(i).then(|| sources[i].clone()))
        .collect();
    let repairs: Vec<(u8, &[u8])> = (0..repairs.len())
        .filter(|j| there(sources.len() + j))
        .map(|j| (u8::try_from(j).expect("small"), &repairs[j][..]))
        .collect();
    reconstruct(&mut received, &repairs).expect("enough symbols");
    let received: Vec<_> = received.into_iter().flatten().collect();
    assert_eq!(received, sources);
}

#[test]
fn any_k_of_n_small_exhaustively() {
    for (k, r) in [(1, 3), (2, 2), (3, 5), (4, 4), (5, 5), (7, 3), (9, 3)] {
        let (sources, repairs) = block(k, r, 3, 7);
        for set in 0u32..1 << (k + r) {
            if set.count_ones() as usize == k {
                rebuild(&sources, &repairs, |i| set >> i & 1 == 1);
            }
        }
    }
}

#[test]
fn any_k_of_n_large_at_random() {
    let mut seed = 11;
    for (k, r) in [
        (32, 8),
        (100, 40),
        (128, 128),
        (200, 56),
        (255, 1),
        (1, 255),
        (10, 246),
    ] {
        let (sources, repairs) = block(k, r, 9, 5);
        for _ in 0..20 {
            // A random permutation; the first k arrive.
            let mut order: Vec<usize> = (0..k + r).collect();
            for i in (1..order.len()).rev() {
                let j =
                    (usize::from(noise(&mut seed)) << 8 | usize::from(noise(&mut seed))) % (i + 1);
                order.swap(i, j);
            }
            let mut there = vec![false; k + r];
            order[..k].iter().for_each(|i| there[*i] = true);
            rebuild(&sources, &repairs, |i| there[i]);
        }
    }
}

#[test]
fn the_first_repair_symbol_is_the_parity() {
    let (sources, repairs) = block(20, 1, 50, 3);
    let mut parity = vec![0; 50];
    sources
        .iter()
        .for_each(|s| gf256::add_assign(&mut parity, s));
    assert_eq!(repairs[0], parity);
}

#[test]
fn neither_k_nor_r_enters_a_coefficient() {
    let row = |len: u16, key| {
        let mut out = vec![0; usize::from(len)];
        let window = CodingWindow { first: 9, len };
        ReedSolomon
            .coefficients(RepairId { window, key }, &mut out)
            .map(|()| out)
    };
    let long = row(100, 5).expect("in range");
    assert_eq!(row(10, 5).expect("in range"), long[..10]);
    // Vectors for other implementations.
    assert_eq!(row(6, 0), Ok(vec![1; 6]));
    assert_eq!(
        row(4, 1),
        Ok([0u8, 1, 2, 3]
            .map(|i| gf256::mul(255 ^ i, gf256::inv(254 ^ i)))
            .to_vec())
    );
    assert_eq!(row(0, 0), Err(CodeError::EmptyWindow));
    assert_eq!(row(255, 0).map(|row| row.len()), Ok(255));
    assert_eq!(row(255, 1), Err(CodeError::KeyTooLarge { key: 1, max: 0 }));
    assert_eq!(
        row(100, 156),
        Err(CodeError::KeyTooLarge { key: 156, max: 155 })
    );
    assert_eq!(
        row(256, 0),
        Err(CodeError::WindowTooLong { len: 256, max: 255 })
    );
}

#[test]
fn blocks_that_cannot_be_are_refused() {
    let a = [1u8; 4];
    let mut out = [0u8; 4];
    let size = |sources, repairs| Err(BlockError::Size { sources, repairs });
    assert_eq!(encode(&[], &mut [&mut out]), size(0, 1));
    assert_eq!(encode(&[&a[..]; 256], &mut [&mut out]), size(256, 1));
    assert_eq!(
        encode(&[&a, &a[1..]], &mut [&mut out]),
        Err(BlockError::Lengths)
    );
    assert_eq!(
        encode(&[&a], &mut [&mut out[1..]]),
        Err(BlockError::Lengths)
    );
    let mut sources = vec![None, Some(vec![1; 4]), None];
    let too_few = Err(BlockError::TooFew {
        missing: 2,
        repairs: 1,
    });
    assert_eq!(reconstruct(&mut sources, &[(3, &a), (3, &a)]), too_few);
    assert_eq!(
        reconstruct(&mut sources, &[(0, &a), (1, &a[1..])]),
        Err(BlockError::Lengths)
    );
    assert_eq!(reconstruct(&mut sources, &[(254, &a)]), size(3, 255));
    assert_eq!(reconstruct(&mut [], &[]), size(0, 0));
}

#[test]
fn rows_are_made_of_the_coefficients() {
    for key in 0..=u8::MAX - 1 {
        let mut row = vec![0; MAX_SYMBOLS - 1 - usize::from(key)];
        let id = RepairId {
            window: CodingWindow::block(0, row.len() as u16),
            key: key.into(),
        };
        ReedSolomon.coefficients(id, &mut row).unwrap();
        let expected = (0..).take(row.len()).map(|i| coefficient(i, key));
        assert!(row.iter().copied().eq(expected), "{key}");
    }
}
