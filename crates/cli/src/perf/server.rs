//! The answering end.

use std::{sync::Arc, time::Duration};

use tautline::{Connection, Profile, RecvStream, SendStream};
use tokio::time::timeout;

use super::{
    ServerArgs,
    protocol::{ALPN, drain, write_zeros},
};
use crate::{
    failure::{Failure, Outcome},
    options::{listen, listening},
    output::print,
    signals::asked_to_stop,
};

/// Refused requests are reset with this.
const BAD_REQUEST: u64 = 1;
/// Closing connections get this long to say goodbye.
const GOODBYE: Duration = Duration::from_secs(3);

pub(super) async fn run(args: ServerArgs) -> Outcome {
    let identity = args.identity.load()?;
    let mut transport = Profile::Bulk.config();
    transport.max_concurrent_bidi_streams = 1_000;
    args.transport.apply(&mut transport)?;
    transport.multipath = Some(args.transport.multipath());
    let mut config = identity.server_tls().alpn([ALPN]).build()?;
    config.transport = Arc::new(transport);
    let endpoint = listen(config, &args.listen)?;
    print(&listening(&endpoint))?;
    if let Some(fingerprint) = identity.fingerprint() {
        print(&format!("certificate SHA-256 {fingerprint}\n"))?;
    }
    if let Some(warning) = endpoint.socket_buffers().warning() {
        eprintln!("tautline: warning: {warning}");
    }
    let accepting = async {
        while let Some(incoming) = endpoint.accept().await {
            tokio::spawn(async move {
                // Whatever ends a client's connection is the client's business.
                if let Ok(connection) = incoming.await {
                    serve(connection).await;
                }
            });
        }
    };
    tokio::select! {
        () = accepting => return Err(Failure::new("the endpoint stopped")),
        stopped = asked_to_stop() => stopped?,
    }
    endpoint.close(0, b"the server stops");
    let _ = timeout(GOODBYE, endpoint.wait_idle()).await;
    Ok(())
}

async fn serve(connection: Connection) {
    while let Ok((mut send, recv)) = connection.accept_bi().await {
        tokio::spawn(async move {
            if answer(&mut send, recv).await.is_none() {
                // Fails if the client went first.
                let _ = send.reset(BAD_REQUEST);
            }
        });
    }
}

async fn answer(send: &mut SendStream, mut recv: RecvStream) -> Option<()> {
    let mut wanted = [0; 8];
    recv.read_exact(&mut wanted).await.ok()?;
    drain(&mut recv).await.ok()?;
    write_zeros(send, u64::from_be_bytes(wanted)).await.ok()?;
    send.finish().ok()
}
