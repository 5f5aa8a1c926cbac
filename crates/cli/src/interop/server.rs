//! The serving end.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use tautline::{Endpoint, EndpointBuilder, transport::config::PreferredAddresses};
use tokio::time::timeout;

use super::{Case, ServerArgs};
use crate::{
    failure::Outcome,
    http09,
    identity::Identity,
    output::print,
    serve::{accept_quic, files::Site, plain_server},
    signals::asked_to_stop,
};

/// The runner's name of the server with both kinds of addresses.
const DUAL_STACK_HOST: &str = "server46";
/// Files open at once.
const MAX_OPEN_FILES: usize = 1_000;
const MAX_CONNECTIONS: usize = 1_000;
/// Closing connections get this long to say goodbye.
const GOODBYE: Duration = Duration::from_secs(3);

pub(super) async fn run(args: ServerArgs) -> Outcome {
    let case = args.common.case()?;
    let identity =
        Identity::from_files(&args.certs.join("cert.pem"), &args.certs.join("priv.key"))?;
    let mut transport = args.common.transport(case)?;
    let mut also_listen = args.also_listen.clone();
    if case == Case::ConnectionMigration {
        let addresses = if args.preferred.is_empty() {
            // The host's addresses are taken by --listen: the next port is another place.
            let port = args.listen.port().wrapping_add(1);
            also_listen.push(SocketAddr::new(args.listen.ip(), port));
            resolve(DUAL_STACK_HOST, port).await
        } else {
            args.preferred.clone()
        };
        transport.preferred_address = preferred(&addresses);
    }
    // The test of HTTP/3 is the only one that may not be answered by HTTP/0.9.
    let alpn = if case == Case::Http3 {
        tautline_h3::ALPN
    } else {
        http09::ALPN
    };
    let mut config = identity.server_tls().alpn([alpn]).build()?;
    config.transport = Arc::new(transport);
    let builder = Endpoint::builder()
        .server(config)
        .config(case.endpoint_config());
    let builder = also_listen
        .into_iter()
        .fold(builder, EndpointBuilder::also_bind);
    let endpoint = builder.bind(args.listen)?;
    print(&format!("listening on {}\n", endpoint.local_addr()))?;
    let site = Site::new(&args.www, true, false, MAX_OPEN_FILES)?;
    let (server, _running) = plain_server(site);
    let accepting = accept_quic(
        server,
        endpoint.clone(),
        MAX_CONNECTIONS,
        case == Case::Retry,
    );
    tokio::select! {
        () = accepting => {}
        stopped = asked_to_stop() => stopped?,
    }
    // Traces end with their connections.
    endpoint.close(0, b"the server stops");
    let _ = timeout(GOODBYE, endpoint.wait_idle()).await;
    Ok(())
}

async fn resolve(host: &str, port: u16) -> Vec<SocketAddr> {
    let found = tokio::net::lookup_host((host, port)).await;
    found.into_iter().flatten().collect()
}

/// Where clients are to move to: one address of each family.
fn preferred(addresses: &[SocketAddr]) -> Option<PreferredAddresses> {
    let mut preferred = PreferredAddresses::default();
    for address in addresses {
        match address {
            SocketAddr::V4(v4) => preferred.v4 = Some(*v4),
            SocketAddr::V6(v6) => preferred.v6 = Some(*v6),
        }
    }
    (preferred != PreferredAddresses::default()).then_some(preferred)
}
