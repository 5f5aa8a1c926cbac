//! Tautline under the bench's loads.

fn main() {
    bench_kit::main::<bench_ours::Ours>()
}
