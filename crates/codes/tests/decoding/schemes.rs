//! What each scheme promises, through the encoder and decoder they share.

use tautline_codes::{
    CodingWindow, Decoder, Encoder, ErasureCode, Limits, RepairId,
    reed_solomon::ReedSolomon,
    rlc::{DensityThreshold, Field, Rlc},
    tetrys::Tetrys,
    xor::Xor,
};

use crate::Noise;

/// Sends `k` symbols of mixed lengths from `first` on, of which `lost` do not arrive, then repair
/// symbols with these keys; returns how many symbols are still missing.
fn missing_after<C: ErasureCode>(
    code: &C,
    first: u64,
    k: u16,
    lost: &[u64],
    keys: impl Iterator<Item = u32>,
) -> usize {
    let limits = Limits::new(300, 40)
        .expect("valid")
        .with_equations(300)
        .expect("valid");
    let mut encoder = Encoder::new(limits);
    let mut decoder = Decoder::new(limits);
    let mut noise = Noise(first ^ u64::from(k));
    for id in 0..first {
        encoder.push(&[]).expect("within limits");
        encoder.release(id + 1);
    }
    decoder.release(first);
    let mut symbols = Vec::new();
    for i in 0..u64::from(k) {
        let len = noise.below(41) as usize;
        let symbol = noise.bytes(len);
        let id = encoder.push(&symbol).expect("within limits");
        assert_eq!(id, first + i);
        if !lost.contains(&i) {
            decoder.source(id, &symbol).expect("valid");
        }
        symbols.push(symbol);
    }
    let window = CodingWindow { first, len: k };
    assert_eq!(encoder.window(), window);
    for key in keys {
        let mut payload = [0; 42];
        let id = RepairId { window, key };
        let len = encoder.repair(code, id, &mut payload).expect("exists");
        decoder.repair(code, id, &payload[..len]).expect("valid");
    }
    while let Some((id, symbol)) = decoder.next_recovered() {
        assert_eq!(symbol, symbols[(id - first) as usize]);
    }
    decoder.missing().count()
}

/// `count` different numbers below `k`.
fn choose(noise: &mut Noise, k: u64, count: usize) -> Vec<u64> {
    let mut all: Vec<u64> = (0..k).collect();
    for i in 0..count {
        let j = i + noise.below(k - i as u64) as usize;
        all.swap(i, j);
    }
    all.truncate(count);
    all
}

#[test]
fn reed_solomon_rebuilds_as_many_as_it_sends() {
    let mut noise = Noise(1);
    for (k, r) in [(1, 1), (4, 4), (32, 8), (100, 20), (200, 56)] {
        for _ in 0..5 {
            let lost = choose(&mut noise, k, (r as usize).min(k as usize));
            let k = u16::try_from(k).expect("small");
            let keys = choose(&mut noise, r, lost.len())
                .into_iter()
                .map(|j| j as u32);
            assert_eq!(
                missing_after(&ReedSolomon, 0, k, &lost, keys),
                0,
                "{k} {lost:?}"
            );
        }
    }
}

#[test]
fn reed_solomon_small_exhaustively() {
    for lost in 0u32..1 << 6 {
        for kept in 0u32..1 << 4 {
            if lost.count_ones() <= kept.count_ones() {
                let lost: Vec<u64> = (0..6).filter(|i| lost >> i & 1 == 1).collect();
                let keys = (0..4).filter(|j| kept >> j & 1 == 1);
                assert_eq!(missing_after(&ReedSolomon, 0, 6, &lost, keys), 0);
            }
        }
    }
}

#[test]
fn interleaved_parity_rebuilds_a_burst_of_its_depth() {
    let depth = std::num::NonZeroU16::new(4).expect("not zero");
    for start in 0..=16 {
        let lost: Vec<u64> = (start..start + 4).collect();
        assert_eq!(
            missing_after(&Xor::interleaved(depth), 0, 20, &lost, 0..4),
            0
        );
    }
    // Two in one sum are not rebuilt.
    assert_eq!(
        missing_after(&Xor::interleaved(depth), 0, 20, &[3, 7], 0..4),
        2
    );
}

#[test]
fn tetrys_with_consecutive_ids_never_fails() {
    let mut noise = Noise(2);
    for _ in 0..60 {
        let count = 1 + noise.below(12) as usize;
        let lost = choose(&mut noise, 250, count);
        let first = noise.below(600);
        let coded = noise.below(1 << 20) as u32;
        let keys = coded..coded + count as u32;
        assert_eq!(
            missing_after(&Tetrys::VANDERMONDE, first, 250, &lost, keys),
            0
        );
    }
}

/// Of `trials` with as many repair symbols as losses, those that do not rebuild everything.
fn failures<C: ErasureCode>(code: &C, k: u16, losses: usize, trials: u32) -> usize {
    let mut noise = Noise(u64::from(k));
    (0..trials)
        .filter(|trial| {
            let lost = choose(&mut noise, u64::from(k), losses);
            let key = trial * losses as u32 % 60_000;
            missing_after(code, 0, k, &lost, key..key + losses as u32) > 0
        })
        .count()
}

#[test]
fn random_codes_fail_as_rarely_as_theory_says() {
    // A random square matrix over GF(q) is singular with probability about 1 / q + 1 / q^2.
    let dense = failures(&Rlc::DENSE, 40, 4, 3000);
    assert!(
        (3..=30).contains(&dense),
        "GF(2^8): {dense} of 3000, about 12 expected"
    );
    let half = DensityThreshold::new(7).expect("four bits");
    let binary = failures(&Rlc::new(Field::Gf2, half), 40, 4, 500);
    assert!(
        (300..=390).contains(&binary),
        "GF(2): {binary} of 500, about 346 expected"
    );
}

#[test]
fn tetrys_as_the_rfc_has_it_fails_sometimes() {
    // The documentation quotes these figures.
    let rfc = failures(&Tetrys::RFC9407, 40, 4, 1000);
    assert_eq!(failures(&Tetrys::VANDERMONDE, 40, 4, 1000), 0);
    println!("RFC 9407 modulus: {rfc} of 1000 sets of 4 losses in 40 not rebuilt");
    assert!(rfc > 0);
}
