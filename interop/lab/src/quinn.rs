//! quinn-proto as a stack of the laboratory.

use crate::node::stack;

stack!(quinn_proto, Quinn, "quinn");

/// What differs from the sister stack.
mod glue {
    use std::{
        net::{IpAddr, SocketAddr},
        sync::Arc,
        time::Instant as Clock,
    };

    use bytes::{Bytes, BytesMut};
    use quinn_proto::{
        Connection, ConnectionIdGenerator, DatagramEvent, EcnCodepoint, Endpoint, EndpointConfig,
        Event, ServerConfig, StreamId, Transmit, TransportConfig, congestion,
    };
    use tautline_lab::stack::WireStats;
    use tautline_transport::units::Rate;

    use crate::{
        parts::SEGMENTS,
        several::{Change, Described, Opening},
    };

    /// Controllers by the names that plans use.
    pub(super) const CONTROLLERS: &[&str] = &["newreno", "cubic", "bbr"];
    /// Those that draw from the operating system.
    pub(super) const UNSEEDED: &[&str] = &["bbr"];

    /// Whether it can have several paths.
    pub(super) const SEVERAL: bool = false;

    pub(super) fn enable_several(_config: &mut TransportConfig) {}

    pub(super) fn open_path(_: &mut Connection, _now: Clock, _local: IpAddr) -> Opening {
        Opening::Never
    }

    pub(super) fn path_change(_event: &Event) -> Option<Change> {
        None
    }

    pub(super) fn paths(_: &mut Connection, _first: SocketAddr) -> Vec<Described> {
        Vec::new()
    }

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
            Some("bbr") => with!(BbrConfig),
            _ => with!(CubicConfig),
        }
    }

    pub(super) fn cid_generator(
        config: &mut EndpointConfig,
        make: impl Fn() -> Box<dyn ConnectionIdGenerator> + Send + Sync + 'static,
    ) {
        config.cid_generator(make);
    }

    pub(super) fn endpoint(config: EndpointConfig, server: Option<ServerConfig>) -> Endpoint {
        Endpoint::new(Arc::new(config), server.map(Arc::new), true, None)
    }

    pub(super) fn handle(
        endpoint: &mut Endpoint,
        now: Clock,
        (remote, _): (SocketAddr, Option<IpAddr>),
        ecn: Option<EcnCodepoint>,
        data: BytesMut,
        buffer: &mut Vec<u8>,
    ) -> Option<DatagramEvent> {
        endpoint.handle(now, remote, None, ecn, data, buffer)
    }

    /// How many bytes were taken.
    pub(super) fn write(connection: &mut Connection, id: StreamId, data: Bytes) -> Option<usize> {
        let written = connection.send_stream(id).write_chunks(&mut [data]);
        written.ok().map(|written| written.bytes)
    }

    pub(super) fn poll_transmit(
        connection: &mut Connection,
        now: Clock,
        buffer: &mut Vec<u8>,
    ) -> Option<Transmit> {
        connection.poll_transmit(now, SEGMENTS, buffer)
    }

    pub(super) fn wire_stats(connection: &mut Connection) -> Option<WireStats> {
        let stats = connection.stats();
        let rate = connection.congestion_state().metrics().pacing_rate;
        Some(WireStats {
            rtt: Some(stats.path.rtt),
            min_rtt: Some(stats.path.min_rtt),
            window: stats.path.cwnd,
            pacing_rate: rate.map(Rate::from_bits_per_second),
            in_flight: None,
            datagrams_sent: stats.udp_tx.datagrams,
            bytes_sent: stats.udp_tx.bytes,
            packets_sent: stats.path.sent_packets,
            packets_lost: stats.path.lost_packets,
            spurious_losses: None,
            ptos: None,
            acks_sent: stats.frame_tx.acks,
            fec: None,
        })
    }
}
