//! noq-proto as a stack of the laboratory.

use crate::node::stack;

stack!(noq_proto, Noq, "noq");

/// What differs from the sister stack.
mod glue {
    use std::{net::SocketAddr, num::NonZeroUsize, sync::Arc, time::Instant as Clock};

    use bytes::{Bytes, BytesMut};
    use noq_proto::{
        Connection, ConnectionIdGenerator, DatagramEvent, EcnCodepoint, Endpoint, EndpointConfig,
        FourTuple, PathId, ServerConfig, StreamId, Transmit, TransportConfig, congestion,
    };
    use tautline_lab::stack::WireStats;
    use tautline_transport::units::Rate;

    use crate::parts::SEGMENTS;

    /// Controllers by the names that plans use.
    pub(super) const CONTROLLERS: &[&str] = &["newreno", "cubic", "bbr3"];
    /// Those that draw from the operating system.
    pub(super) const UNSEEDED: &[&str] = &["bbr3"];

    /// Sets a controller; without one the peer's default.
    pub(super) fn congestion(
        config: &mut TransportConfig,
        name: Option<&str>,
        initial_window: Option<u64>,
    ) {
        macro_rules! with {
            ($controller:ident) => {{
                let mut controller = congestion::$controller::default();
                if let Some(bytes) = initial_window {
                    controller.initial_window(bytes);
                }
                config.congestion_controller_factory(Arc::new(controller));
            }};
        }
        match name {
            Some("newreno") => with!(NewRenoConfig),
            Some("bbr3") => with!(Bbr3Config),
            _ => with!(CubicConfig),
        }
    }

    pub(super) fn cid_generator(
        config: &mut EndpointConfig,
        make: impl Fn() -> Box<dyn ConnectionIdGenerator> + Send + Sync + 'static,
    ) {
        config.cid_generator(Arc::new(make));
    }

    pub(super) fn endpoint(config: EndpointConfig, server: Option<ServerConfig>) -> Endpoint {
        Endpoint::new(Arc::new(config), server.map(Arc::new), true)
    }

    pub(super) fn handle(
        endpoint: &mut Endpoint,
        now: Clock,
        remote: SocketAddr,
        ecn: Option<EcnCodepoint>,
        data: BytesMut,
        buffer: &mut Vec<u8>,
    ) -> Option<DatagramEvent> {
        endpoint.handle(now, FourTuple::from_remote(remote), ecn, data, buffer)
    }

    /// How many bytes were taken.
    pub(super) fn write(connection: &mut Connection, id: StreamId, data: Bytes) -> Option<usize> {
        let mut chunks = [data];
        connection
            .send_stream(id)
            .write_chunks(&mut &mut chunks[..])
            .ok()
    }

    pub(super) fn poll_transmit(
        connection: &mut Connection,
        now: Clock,
        buffer: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let segments = NonZeroUsize::new(SEGMENTS).unwrap_or(NonZeroUsize::MIN);
        connection.poll_transmit(now, segments, buffer)
    }

    pub(super) fn wire_stats(connection: &mut Connection) -> Option<WireStats> {
        let path = connection.path_stats(PathId::ZERO)?;
        let controller = connection.congestion_state(PathId::ZERO);
        let rate = controller.and_then(|controller| controller.metrics().pacing_rate);
        Some(WireStats {
            rtt: Some(path.rtt),
            min_rtt: None,
            window: path.cwnd,
            pacing_rate: rate.map(|bytes| Rate::from_bits_per_second(bytes.saturating_mul(8))),
            in_flight: None,
            datagrams_sent: path.udp_tx.datagrams,
            bytes_sent: path.udp_tx.bytes,
            packets_sent: path.sent_packets,
            // Lost probes for a larger MTU are no losses to the others.
            packets_lost: path.lost_packets.saturating_sub(path.lost_plpmtud_probes),
            spurious_losses: None,
            ptos: None,
            acks_sent: path.frame_tx.acks,
            fec: None,
        })
    }
}
