//! Tautline under the bench's loads.

fn main() -> anyhow::Result<()> {
    bench_kit::main::<bench_ours::Ours>()
}
