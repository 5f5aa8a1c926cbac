//! What travels on a perf stream, either way.
//!
//! The opener writes 8 bytes, big-endian: how many bytes it wants back. Then it writes as many
//! bytes as it likes and ends its side. The other end reads all of it, sends what was asked for
//! and ends its side, so that the opener's end of reading means: everything arrived, both ways.

use bytes::Bytes;
use tautline::{ReadError, RecvStream, SendStream, WriteError};

/// The ALPN token.
pub(super) const ALPN: &[u8] = b"tautline-perf/1";
/// Written at once.
const BLOCK: usize = 64 * 1024;
static ZEROS: [u8; BLOCK] = [0; BLOCK];

/// Writes `count` bytes that mean nothing.
pub(super) async fn write_zeros(send: &mut SendStream, mut count: u64) -> Result<(), WriteError> {
    while count > 0 {
        let here = usize::try_from(count).unwrap_or(BLOCK).min(BLOCK);
        let block = Bytes::from_static(ZEROS.get(..here).unwrap_or_default());
        send.write_chunk(block).await?;
        count -= here as u64;
    }
    Ok(())
}

/// Reads up to the end; how many bytes there were.
pub(super) async fn drain(recv: &mut RecvStream) -> Result<u64, ReadError> {
    let mut count = 0;
    while let Some(bytes) = recv.read_chunk(usize::MAX).await? {
        count += bytes.len() as u64;
    }
    Ok(count)
}
