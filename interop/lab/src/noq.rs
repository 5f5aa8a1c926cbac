//! noq-proto as a stack of the laboratory.

use crate::node::stack;

stack!(noq_proto, Noq, "noq");

/// What differs from the sister stack.
mod glue {
    use std::{
        net::{IpAddr, SocketAddr},
        num::NonZeroUsize,
        sync::Arc,
        time::Instant as Clock,
    };

    use bytes::{Bytes, BytesMut};
    use noq_proto::{
        Connection, ConnectionIdGenerator, DatagramEvent, EcnCodepoint, Endpoint, EndpointConfig,
        Event, FourTuple, PathError, PathEvent, PathId, PathStatus, ServerConfig, StreamId,
        Transmit, TransportConfig, congestion,
    };
    use tautline_lab::stack::{PathWire, WireStats};
    use tautline_transport::units::{self, Rate};

    use crate::{
        parts::SEGMENTS,
        several::{Change, Described, Opening},
    };

    /// Controllers by the names that plans use.
    pub(super) const CONTROLLERS: &[&str] = &["newreno", "cubic", "bbr3"];
    /// Those that draw from the operating system.
    pub(super) const UNSEEDED: &[&str] = &["bbr3"];

    /// Whether it can have several paths.
    pub(super) const SEVERAL: bool = true;
    /// As many as a plan can give to one connection.
    const MOST_PATHS: u32 = 16;

    pub(super) fn enable_several(config: &mut TransportConfig) {
        config.max_concurrent_multipath_paths(MOST_PATHS);
    }

    pub(super) fn open_path(connection: &mut Connection, now: Clock, local: IpAddr) -> Opening {
        let Ok(first) = connection.network_path(PathId::ZERO) else {
            return Opening::Never;
        };
        let over = FourTuple::new(first.remote(), Some(local));
        match connection.open_path(over, PathStatus::Available, now) {
            Ok(id) => Opening::Begun(number(id)),
            Err(PathError::RemoteCidsExhausted | PathError::MaxPathIdReached) => Opening::NotYet,
            Err(_) => Opening::Never,
        }
    }

    /// Its numbers cannot be read, only made.
    fn number(id: PathId) -> u64 {
        let known = (0..MOST_PATHS).find(|known| PathId::from(*known) == id);
        known.map_or(u64::MAX, u64::from)
    }

    pub(super) fn path_change(event: &Event) -> Option<Change> {
        match event {
            Event::Path(PathEvent::Established { id, .. }) => {
                Some(Change::Established(number(*id)))
            }
            Event::Path(PathEvent::Abandoned { id, .. }) => Some(Change::Abandoned(number(*id))),
            _ => None,
        }
    }

    pub(super) fn paths(connection: &mut Connection, first: SocketAddr) -> Vec<Described> {
        let mut all = Vec::new();
        for id in connection.paths() {
            let over = connection.network_path(id);
            let (Ok(over), Some(path)) = (over, connection.path_stats(id)) else {
                continue;
            };
            let local = over.local_ip().unwrap_or(first.ip());
            all.push(Described {
                wire: PathWire {
                    id: number(id),
                    four_tuple: units::FourTuple {
                        local: SocketAddr::new(local, first.port()),
                        remote: over.remote(),
                    },
                    rtt: path.rtt,
                    min_rtt: path.rtt,
                    bytes_sent: path.udp_tx.bytes,
                    packets_sent: path.sent_packets,
                    packets_lost: path.lost_packets.saturating_sub(path.lost_plpmtud_probes),
                    ptos: 0,
                    validated: None,
                    first_data: None,
                },
                data_came: path.frame_rx.stream + path.frame_rx.datagram > 0,
            });
        }
        all
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
        (remote, local): (SocketAddr, Option<IpAddr>),
        ecn: Option<EcnCodepoint>,
        data: BytesMut,
        buffer: &mut Vec<u8>,
    ) -> Option<DatagramEvent> {
        endpoint.handle(now, FourTuple::new(remote, local), ecn, data, buffer)
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
        let paths = connection.paths();
        let each = paths.into_iter().filter_map(|id| of_path(connection, id));
        each.reduce(WireStats::beside)
    }

    fn of_path(connection: &mut Connection, id: PathId) -> Option<WireStats> {
        let path = connection.path_stats(id)?;
        let controller = connection.congestion_state(id);
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
