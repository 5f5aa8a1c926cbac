//! Answers over HTTP/0.9 (ALPN `hq-interop`).

use std::sync::Arc;

use tautline::{Connection, RecvStream, SendStream};
use tokio::{
    sync::Semaphore,
    task::{JoinSet, spawn_blocking},
    time::{sleep, timeout},
};

use super::{
    ANSWERS_AT_ONCE, H3_NO_ERROR, REQUESTS_AT_ONCE, Server, delivered,
    files::{Found, OpenFile, Pieces},
    patience::Progress,
};
use crate::http09::{NOT_FOUND, read_request};

/// Given up because of the client or the disk.
const FAILED: u64 = 500;

/// Answers requests until client or server has enough.
pub(super) async fn serve(server: Arc<Server>, connection: Connection) {
    let mut requests = JoinSet::new();
    let turns = Arc::new(Semaphore::new(ANSWERS_AT_ONCE));
    let mut progress = Progress::new(&connection);
    // Until the first request.
    let mut idle = server.patience;
    loop {
        tokio::select! {
            accepted = connection.accept_bi(), if requests.len() < REQUESTS_AT_ONCE => match accepted {
                Ok(streams) => {
                    let turns = Arc::clone(&turns);
                    requests.spawn(answer(Arc::clone(&server), connection.clone(), streams, turns));
                    idle = server.idle;
                }
                Err(_) => return,
            },
            Some(_) = requests.join_next() => {}
            () = server.stopping() => break,
            // A slow client may still be taking the last answer.
            () = sleep(idle), if requests.is_empty() => {
                if !progress.goes_on() {
                    break;
                }
            }
        }
    }
    while requests.join_next().await.is_some() {}
    delivered(&server, &connection).await;
    connection.close(H3_NO_ERROR, b"");
}

async fn answer(
    server: Arc<Server>,
    connection: Connection,
    (mut send, mut recv): (SendStream, RecvStream),
    turns: Arc<Semaphore>,
) {
    let asked = timeout(server.patience, read_request(&mut recv)).await;
    let (path, outcome) = match asked {
        Ok(Ok(Some(path))) => {
            // Never closed.
            let _turn = turns.acquire().await;
            let outcome = send_file(&server, &connection, &mut send, &path).await;
            (path, outcome)
        }
        _ => (String::new(), Err((FAILED, "no request"))),
    };
    let told = match outcome {
        Ok(()) => "sent",
        Err((code, reason)) => {
            // Fails if the client went first.
            let _ = send.reset(code);
            reason
        }
    };
    server.log(connection.remote_address(), "hq", &path, told);
}

async fn send_file(
    server: &Server,
    connection: &Connection,
    send: &mut SendStream,
    path: &str,
) -> Result<(), (u64, &'static str)> {
    let site = server.site.clone();
    let asked = path.to_owned();
    let found = spawn_blocking(move || site.find(&asked)).await;
    let Ok(Ok(Found::File(OpenFile { file, len, .. }))) = found else {
        return Err((NOT_FOUND, "no such file"));
    };
    send.set_size_hint(Some(len));
    let mut pieces = Pieces::new(file, 0, len).map_err(|_| (FAILED, "cannot read"))?;
    loop {
        let (rest, piece) = pieces.read().await.map_err(|_| (FAILED, "cannot read"))?;
        let Some(piece) = piece else { break };
        let mut progress = Progress::new(connection);
        match progress
            .wait(server.patience, send.write_chunk(piece))
            .await
        {
            Some(Ok(())) => {}
            Some(Err(_)) => return Err((FAILED, "the client left")),
            None => return Err((FAILED, "the client is too slow")),
        }
        pieces = rest;
    }
    send.finish().map_err(|_| (FAILED, "the client left"))
}
