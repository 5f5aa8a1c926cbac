//! The serving end.

use std::{net::SocketAddr, sync::Arc};

use tautline::{Endpoint, transport::config::PreferredAddresses};

use super::{Case, ServerArgs};
use crate::{
    failure::Outcome,
    http09,
    identity::Identity,
    serve::{accept_quic, files::Site, plain_server},
};

/// The runner's name of the server with both kinds of addresses.
const DUAL_STACK_HOST: &str = "server46";
const MAX_CONNECTIONS: usize = 1_000;

pub(super) async fn run(args: ServerArgs) -> Outcome {
    let case = args.common.case()?;
    let identity =
        Identity::from_files(&args.certs.join("cert.pem"), &args.certs.join("priv.key"))?;
    let mut transport = args.common.transport()?;
    if case == Case::ConnectionMigration {
        transport.preferred_address = preferred(&args).await;
    }
    // The test of HTTP/3 is the only one that may not be answered by HTTP/0.9.
    let alpn = if case == Case::Http3 {
        tautline_h3::ALPN
    } else {
        http09::ALPN
    };
    let mut config = identity.server_tls().alpn([alpn]).build()?;
    config.transport = Arc::new(transport);
    let endpoint = Endpoint::builder()
        .server(config)
        .config(case.endpoint_config())
        .bind(args.listen)?;
    println!("listening on {}", endpoint.local_addr());
    let site = Site::new(&args.www, true, false)?;
    let (server, _running) = plain_server(site);
    accept_quic(server, endpoint, MAX_CONNECTIONS, case == Case::Retry).await;
    Ok(())
}

/// Addresses that clients are to move to.
async fn preferred(args: &ServerArgs) -> Option<PreferredAddresses> {
    let mut addresses = args.preferred.clone();
    if addresses.is_empty() {
        let found = tokio::net::lookup_host((DUAL_STACK_HOST, args.listen.port())).await;
        addresses.extend(found.into_iter().flatten());
    }
    let mut preferred = PreferredAddresses::default();
    for address in addresses {
        match address {
            SocketAddr::V4(v4) => preferred.v4 = Some(v4),
            SocketAddr::V6(v6) => preferred.v6 = Some(v6),
        }
    }
    (preferred != PreferredAddresses::default()).then_some(preferred)
}
