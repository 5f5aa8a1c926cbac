//! Sensible combinations of knobs, named by what they are for.

use std::time::Duration;

use super::{TransportConfig, WindowConfig};
use crate::congestion::registry as congestion;

/// A starting point for [`TransportConfig`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Profile {
    /// Large transfers: large windows.
    Bulk,
    /// Pages and requests: the defaults.
    Web,
    /// Bursty media that must keep its window between frames.
    Realtime,
    /// Short messages, lowest delay.
    Message,
    /// Small windows and buffers.
    LowMemory,
    /// Half a second of delay: large initial windows, BBR, patient timers.
    Satellite,
}

impl Profile {
    /// The knobs of this profile.
    pub fn config(self) -> TransportConfig {
        let mut config = TransportConfig::default();
        match self {
            Self::Web => {}
            Self::Bulk => {
                config.stream_receive_window = WindowConfig {
                    initial: 2 << 20,
                    max: 64 << 20,
                };
                config.connection_receive_window = WindowConfig {
                    initial: 4 << 20,
                    max: 128 << 20,
                };
                config.send_buffer_bytes = 64 << 20;
            }
            Self::Realtime => {
                config.congestion = congestion::cubic_for_bursts();
                config.max_ack_delay = Duration::from_millis(10);
            }
            Self::Message => config.max_ack_delay = Duration::from_millis(5),
            Self::LowMemory => {
                config.stream_receive_window = WindowConfig::fixed(64 * 1024);
                config.connection_receive_window = WindowConfig::fixed(128 * 1024);
                config.send_buffer_bytes = 256 * 1024;
                config.datagram_receive_buffer_bytes = 64 * 1024;
                config.datagram_send_buffer_bytes = 64 * 1024;
                config.limits.received_ranges = 64;
                config.limits.sent_packets = 4_096;
                // Where erasure correction is on: as much as the window lets be under way at once.
                config.fec.decoder_symbols = 128;
                config.fec.encoder_symbols = 128;
            }
            Self::Satellite => {
                config.stream_receive_window = WindowConfig {
                    initial: 4 << 20,
                    max: 64 << 20,
                };
                config.connection_receive_window = WindowConfig {
                    initial: 8 << 20,
                    max: 128 << 20,
                };
                config.send_buffer_bytes = 64 << 20;
                config.initial_window_packets = 32;
                config.initial_rtt = Duration::from_millis(650);
                config.congestion =
                    congestion::by_name("bbr3").unwrap_or_else(congestion::default_factory);
                config.max_idle_timeout = Some(Duration::from_secs(120));
                config.handshake_timeout = Duration::from_secs(60);
            }
        }
        config
    }
}
