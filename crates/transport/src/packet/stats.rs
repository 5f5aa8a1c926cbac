//! Counts of frames by type.

/// How many frames of each kind one direction has carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameStats {
    one_byte: [u64; 0x40],
    other: u64,
    stream_bytes: u64,
}

impl Default for FrameStats {
    fn default() -> Self {
        Self {
            one_byte: [0; 0x40],
            other: 0,
            stream_bytes: 0,
        }
    }
}

impl FrameStats {
    /// Counts a frame of this type.
    #[inline]
    pub fn count(&mut self, frame_type: u64) {
        let slot = usize::try_from(frame_type)
            .ok()
            .and_then(|index| self.one_byte.get_mut(index));
        match slot {
            Some(count) => *count += 1,
            None => self.other += 1,
        }
    }

    /// Counts a STREAM frame with this many bytes of data, under type 0x08.
    #[inline]
    pub fn count_stream(&mut self, bytes: usize) {
        self.count(0x08);
        self.stream_bytes += bytes as u64;
    }

    /// Frames of a type below 0x40; all STREAM variants stand under 0x08. Larger types are
    /// counted together under [`FrameStats::other`].
    pub fn of_type(&self, frame_type: u64) -> u64 {
        let index = usize::try_from(frame_type).unwrap_or(usize::MAX);
        self.one_byte.get(index).copied().unwrap_or(0)
    }

    /// Frames of types from 0x40 on.
    pub fn other(&self) -> u64 {
        self.other
    }

    /// Bytes of stream data, retransmissions included.
    pub fn stream_bytes(&self) -> u64 {
        self.stream_bytes
    }
}
