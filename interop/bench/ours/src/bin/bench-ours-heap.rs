//! As `bench-ours`, counting the heap.

use bench_kit::heap::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() {
    bench_kit::main::<bench_ours::Ours>()
}
