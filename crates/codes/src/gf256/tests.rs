use super::{tables::product, *};

/// Bytes without structure.
fn bytes(len: usize, mut seed: u64) -> Vec<u8> {
    (0..len)
        .map(|_| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 56) as u8
        })
        .collect()
}

/// Miri interprets every instruction: fewer cases there.
fn coefficients() -> impl Iterator<Item = u8> {
    (0..=u8::MAX).step_by(if cfg!(miri) { 85 } else { 1 })
}

fn lengths() -> impl Iterator<Item = usize> {
    (0..=257).filter(|len| !cfg!(miri) || [0, 1, 15, 65, 257].contains(len))
}

#[test]
fn the_field_is_a_field() {
    for a in 0..=u8::MAX {
        assert_eq!(mul(a, 1), a);
        assert_eq!(mul(a, 0), 0);
        assert_eq!(mul(a, inv(a)), u8::from(a != 0));
        for b in 0..=u8::MAX {
            assert_eq!(div(a, b), mul(a, inv(b)));
        }
        for b in coefficients() {
            assert_eq!(mul(a, b), product(a, b), "{a} * {b}");
        }
    }
    // x * x^7 = x^8 = x^4 + x^3 + x^2 + 1.
    assert_eq!(mul(2, 0x80), 0x1d);
}

#[test]
fn two_generates_every_element_but_zero() {
    let mut seen = [false; 256];
    for i in 0..255 {
        seen[usize::from(exp(i))] = true;
        assert_eq!(exp(i), exp(i + 255));
    }
    assert_eq!(seen.iter().filter(|seen| **seen).count(), 255);
    assert!(!seen[0]);
}

#[test]
fn every_kernel_multiplies_as_the_definition_does() {
    let src: Vec<u8> = (0..=u8::MAX).collect();
    for kernel in Kernel::available() {
        for c in coefficients() {
            let mut dst = vec![0; 256];
            kernel.mul_add(&mut dst, &src, c);
            let mut scaled = src.clone();
            kernel.mul_assign(&mut scaled, c);
            for x in 0..=u8::MAX {
                assert_eq!(dst[usize::from(x)], product(c, x), "{kernel:?} {c} * {x}");
            }
            assert_eq!(dst, scaled, "{kernel:?} {c}");
        }
    }
}

#[test]
fn every_kernel_equals_scalar_at_every_length_and_start() {
    let scalar = Kernel::new(InstructionSet::Scalar).expect("always there");
    let (src, dst) = (bytes(400, 1), bytes(400, 2));
    for kernel in Kernel::available() {
        for len in lengths() {
            let starts = [(7, 5), (0, 0), (1, 0), (0, 3), (63, 33)];
            for (start, offset) in starts.into_iter().take(if cfg!(miri) { 1 } else { 5 }) {
                let src = &src[start..start + len];
                for c in coefficients().step_by(if start == 0 { 1 } else { 5 }) {
                    let (mut ours, mut theirs) = (dst.clone(), dst.clone());
                    kernel.mul_add(&mut ours[offset..offset + len], src, c);
                    scalar.mul_add(&mut theirs[offset..offset + len], src, c);
                    assert_eq!(ours, theirs, "mul_add {kernel:?} {len} {start} {c}");
                    kernel.mul_assign(&mut ours[offset..offset + len], c);
                    scalar.mul_assign(&mut theirs[offset..offset + len], c);
                    assert_eq!(ours, theirs, "mul_assign {kernel:?} {len} {start} {c}");
                }
                let (mut ours, mut theirs) = (dst.clone(), dst.clone());
                kernel.add_assign(&mut ours[offset..offset + len], src);
                scalar.add_assign(&mut theirs[offset..offset + len], src);
                assert_eq!(ours, theirs, "add_assign {kernel:?} {len} {start}");
            }
        }
    }
}

/// The sums of products, from the definition.
fn matrix(dsts: &mut [Vec<u8>], srcs: &[&[u8]], coefficients: &[u8]) {
    for (j, dst) in dsts.iter_mut().enumerate() {
        for (i, src) in srcs.iter().enumerate() {
            let c = coefficients
                .get(j * srcs.len() + i)
                .copied()
                .unwrap_or_default();
            for (d, s) in dst.iter_mut().zip(*src) {
                *d ^= product(c, *s);
            }
        }
    }
}

#[test]
fn sums_over_many_sources_and_destinations() {
    let data = bytes(20_000, 3);
    for kernel in Kernel::available() {
        for rows in [1, 2, 3, 4, 5, 8, 9, 17] {
            for columns in [0, 1, 2, 17, 31, 32, 33, 65] {
                for len in [0usize, 1, 31, 64, 100, 257] {
                    if cfg!(miri) && !matches!((rows, columns, len), (5 | 8, 17, 100)) {
                        continue;
                    }
                    // Sources of different lengths, some longer than the destination.
                    let srcs: Vec<&[u8]> = (0..columns)
                        .map(|i| &data[i * 3..i * 3 + (len + 20 * (i % 3)).saturating_sub(20)])
                        .collect();
                    let mut coefficients = bytes(rows * columns, 4 + len as u64);
                    for c in coefficients.iter_mut().take(columns) {
                        *c &= 1;
                    }
                    let mut theirs: Vec<_> = (0..rows).map(|j| bytes(len, j as u64)).collect();
                    let mut ours = theirs.clone();
                    let mut single = theirs[rows - 1].clone();
                    let last = &coefficients[(rows - 1) * columns..];
                    kernel.mul_add_many(&mut single, &srcs, last);
                    matrix(&mut theirs, &srcs, &coefficients);
                    let mut slices: Vec<_> = ours.iter_mut().map(|dst| &mut dst[..]).collect();
                    kernel.mul_add_matrix(&mut slices, &srcs, &coefficients);
                    assert_eq!(ours, theirs, "{kernel:?} {rows}x{columns} of {len}");
                    assert_eq!(single, theirs[rows - 1]);
                }
            }
        }
    }
}

#[test]
fn destinations_of_several_lengths() {
    let data = bytes(2_000, 5);
    let srcs: Vec<&[u8]> = (0..5).map(|i| &data[i * 7..i * 7 + 200]).collect();
    let coefficients = bytes(9 * srcs.len(), 6);
    for kernel in Kernel::available() {
        let mut theirs: Vec<_> = (0..9)
            .map(|j| bytes(150 + 10 * (j % 3), j as u64))
            .collect();
        let mut ours = theirs.clone();
        matrix(&mut theirs, &srcs, &coefficients);
        let mut slices: Vec<_> = ours.iter_mut().map(|dst| &mut dst[..]).collect();
        kernel.mul_add_matrix(&mut slices, &srcs, &coefficients);
        assert_eq!(ours, theirs, "{kernel:?}");
    }
}

#[test]
fn missing_coefficients_count_for_nothing() {
    let (a, b) = ([1, 2, 3], [4, 5, 6]);
    let mut dst = [0; 3];
    mul_add_many(&mut dst, &[&a, &b], &[1]);
    assert_eq!(dst, a);
    let (mut first, mut second) = ([0; 3], [0; 3]);
    mul_add_matrix(&mut [&mut first, &mut second], &[&a, &b], &[1, 0, 1]);
    assert_eq!((first, second), (a, a));
}

#[test]
fn the_best_kernel_is_the_last_available() {
    let available: Vec<_> = Kernel::available().collect();
    assert_eq!(
        available.first().map(|k| k.instructions().name()),
        Some("scalar")
    );
    assert_eq!(available.last(), Some(&Kernel::best()));
}

#[test]
fn the_best_kernel_is_settled_once() {
    let best = Kernel::best();
    assert!(best.make_best());
    for other in Kernel::available().filter(|kernel| *kernel != best) {
        assert!(!other.make_best());
    }
    assert_eq!(Kernel::best(), best);
}
