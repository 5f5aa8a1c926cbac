//! noq-proto as a node of our simulator.

use std::{
    any::Any,
    collections::{BTreeMap, VecDeque},
    net::SocketAddr,
    sync::Arc,
};

use bytes::BytesMut;
use tautline_sim::{Datagram, Node, tls};
use tautline_transport::{
    time::{Instant, earliest},
    units::Ecn,
};

use crate::{
    peer::{Prefix, clock, instant, nodes, zeros},
    scene::{self, Download, Outcome, Scene},
};

nodes!(noq_proto);

/// What differs from the sister stack, and the configuration.
mod glue {
    use std::{net::SocketAddr, num::NonZeroUsize, sync::Arc, time::Instant as Clock};

    use bytes::{Bytes, BytesMut};
    use noq_proto::{
        Connection, DatagramEvent, EcnCodepoint, Endpoint, EndpointConfig, FourTuple, IdleTimeout,
        ServerConfig, StreamId, Transmit, TransportConfig, VarInt, congestion, crypto,
    };

    use crate::scene::{self, INITIAL_WINDOW, MTU, Scene, WINDOW};

    /// Datagrams in one segmentation batch, as its tokio side has it.
    const SEGMENTS: usize = 10;

    pub fn transport(scene: &Scene) -> TransportConfig {
        let mut config = TransportConfig::default();
        let window = VarInt::from_u64(WINDOW).expect("a small number");
        let idle = IdleTimeout::try_from(scene::IDLE).expect("a short time");
        config
            .initial_mtu(MTU)
            .mtu_discovery_config(None)
            .stream_receive_window(window)
            .receive_window(window)
            .send_window(WINDOW)
            .max_idle_timeout(Some(idle));
        let initial = INITIAL_WINDOW * u64::from(MTU);
        match scene.congestion {
            "newreno" => {
                let mut controller = congestion::NewRenoConfig::default();
                controller.initial_window(initial);
                config.congestion_controller_factory(Arc::new(controller));
            }
            "cubic" => {
                let mut controller = congestion::CubicConfig::default();
                controller.initial_window(initial);
                config.congestion_controller_factory(Arc::new(controller));
            }
            "bbr3" => {
                let mut controller = congestion::Bbr3Config::default();
                controller.initial_window(initial);
                config.congestion_controller_factory(Arc::new(controller));
            }
            name => panic!("noq_proto has no {name}"),
        }
        config
    }

    pub fn server_tls(config: tls_config::Server) -> Arc<dyn crypto::ServerConfig> {
        let config = crypto::rustls::QuicServerConfig::try_from(config);
        Arc::new(config.expect("a TLS 1.3 configuration"))
    }

    pub fn client_tls(config: tls_config::Client) -> Arc<dyn crypto::ClientConfig> {
        let config = crypto::rustls::QuicClientConfig::try_from(config);
        Arc::new(config.expect("a TLS 1.3 configuration"))
    }

    mod tls_config {
        pub type Server = rustls::ServerConfig;
        pub type Client = rustls::ClientConfig;
    }

    pub fn endpoint(seed: [u8; 32], server: Option<Arc<ServerConfig>>) -> Endpoint {
        let mut config = EndpointConfig::default();
        config.rng_seed(Some(seed));
        Endpoint::new(Arc::new(config), server, true)
    }

    pub fn handle(
        endpoint: &mut Endpoint,
        now: Clock,
        remote: SocketAddr,
        ecn: Option<EcnCodepoint>,
        data: BytesMut,
        buffer: &mut Vec<u8>,
    ) -> Option<DatagramEvent> {
        endpoint.handle(now, FourTuple::from_remote(remote), ecn, data, buffer)
    }

    /// Whether anything was taken.
    pub fn write(connection: &mut Connection, id: StreamId, chunks: &mut [Bytes]) -> bool {
        connection
            .send_stream(id)
            .write_chunks(&mut &mut chunks[..])
            .is_ok()
    }

    pub fn poll_transmit(
        connection: &mut Connection,
        now: Clock,
        buffer: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let segments = NonZeroUsize::new(SEGMENTS).unwrap_or(NonZeroUsize::MIN);
        connection.poll_transmit(now, segments, buffer)
    }
}
