//! What encoders and decoders allocate stays within what their limits say.

#![allow(
    unsafe_code,
    reason = "an allocator that counts can only be written with it"
)]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use tautline_codes::{CodingWindow, Decoder, Encoder, ErasureCode, Limits, RepairId};

struct Counting;

static USED: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        USED.fetch_add(layout.size(), Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        USED.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Coefficients without structure, so that equations pile up.
struct Random;

impl ErasureCode for Random {
    fn name(&self) -> &'static str {
        "random"
    }

    fn coefficients(
        &self,
        repair: RepairId,
        out: &mut [u8],
    ) -> Result<(), tautline_codes::CodeError> {
        let mut state = u64::from(repair.key) << 20 | repair.window.first;
        for c in out {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            *c = (state >> 56) as u8;
        }
        Ok(())
    }
}

// One test: the count is of the whole process.
#[test]
fn memory_stays_within_the_limits() {
    for (window, symbol, equations) in [(32, 1200, 32), (300, 100, 40), (4095, 20, 1)] {
        let limits = Limits::new(window, symbol).expect("valid");
        let limits = limits.with_equations(equations).expect("valid");
        let before = USED.load(Relaxed);
        let mut decoder = Decoder::new(limits);
        let payload = vec![1; limits.repair_bytes()];
        let mut most = 0;
        for round in 0..2 * u64::from(window) {
            // Some symbols arrive, most are missing, and every equation says something new.
            if round % 3 == 0 || equations == 1 {
                let _ = decoder.source(round, &payload[2..]);
            }
            let first = round.saturating_sub(u64::from(window));
            let repair = RepairId {
                window: CodingWindow { first, len: window },
                key: round as u32,
            };
            let _ = decoder.repair(&Random, repair, &payload);
            most = most.max(USED.load(Relaxed) - before);
        }
        // Buffers are kept for the next symbols.
        decoder.release(u64::MAX);
        most = most.max(USED.load(Relaxed) - before);
        let bound = limits.decoder_bytes() + 4096;
        assert!(most <= bound, "{limits:?}: {most} bytes, bound {bound}");
        drop(decoder);

        let before = USED.load(Relaxed);
        let mut encoder = Encoder::new(limits);
        for _ in 0..3 * window {
            encoder.push(&payload[2..]).expect("within limits");
        }
        let mut out = vec![0; limits.repair_bytes()];
        let id = RepairId {
            window: encoder.window(),
            key: 7,
        };
        encoder.repair(&Random, id, &mut out).expect("held");
        encoder.release(u64::MAX);
        let used = USED.load(Relaxed) - before - out.capacity();
        let bound = limits.encoder_bytes() + 4096;
        assert!(used <= bound, "{limits:?}: {used} bytes, bound {bound}");
    }
}
