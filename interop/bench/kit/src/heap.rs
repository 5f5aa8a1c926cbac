//! Counts live heap bytes.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicI64, Ordering::Relaxed},
};

/// The system's allocator with a counter; declare it as `#[global_allocator]`.
#[derive(Debug)]
pub struct Counting;

static LIVE_BYTES: AtomicI64 = AtomicI64::new(0);
static ALLOCATIONS: AtomicI64 = AtomicI64::new(0);

/// Bytes asked for and not given back; 0 without [`Counting`].
pub fn live_bytes() -> i64 {
    LIVE_BYTES.load(Relaxed)
}

/// Calls that gave memory out.
pub fn allocations() -> i64 {
    ALLOCATIONS.load(Relaxed)
}

fn count(bytes: i64) {
    LIVE_BYTES.fetch_add(bytes, Relaxed);
}

// SAFETY: every call goes to `System` unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as i64 - layout.size() as i64);
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
