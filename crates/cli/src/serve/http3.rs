//! Answers over HTTP/3.

use std::{
    future::pending,
    sync::Arc,
    time::{Duration, SystemTime},
};

use bytes::{Buf, Bytes};
use h3::{
    error::{Code, StreamError},
    server::RequestResolver,
};
use http::{HeaderValue, header};
use tautline::Connection;
use tautline_h3::{Malformed, Priorities};
use tokio::{
    sync::Semaphore,
    task::{JoinSet, spawn_blocking},
    time::{sleep, timeout},
};

use super::{
    ANSWERS_AT_ONCE, H3_EXCESSIVE_LOAD, H3_NO_ERROR, REQUESTS_AT_ONCE, Server,
    dates::http_date,
    delivered,
    patience::Progress,
    reply::{self, Body, Reply},
};

type Sending = h3::server::RequestStream<tautline_h3::SendStream<Bytes>, Bytes>;
type Receiving = h3::server::RequestStream<tautline_h3::RecvStream, Bytes>;

/// After GOAWAY, requests that were under way may still come in for this long.
const LAST_CALL: Duration = Duration::from_millis(200);
/// Bytes of a request's body that are read, to see whether it is well-formed.
const MAX_REQUEST_BYTES: usize = 64 * 1024;
/// Requests of one connection that may end before their head is known. `h3` keeps the numbers of
/// these for as long as the connection lasts, about 20 bytes each.
const MAX_HEADLESS: usize = 10_000;

/// Answers requests until client or server has enough.
pub(super) async fn serve(server: Arc<Server>, quic: Connection) {
    let connection = tautline_h3::Connection::new(quic.clone());
    let priorities = connection.priorities();
    let mut builder = tautline_h3::server_builder();
    let starting = builder.send_grease(true).build(connection);
    let Ok(Ok(mut http)) = timeout(server.patience, starting).await else {
        return quic.close(
            Code::H3_INTERNAL_ERROR.value(),
            b"the handshake took too long",
        );
    };
    let mut requests = JoinSet::new();
    let turns = Arc::new(Semaphore::new(ANSWERS_AT_ONCE));
    let mut stopping = false;
    let mut progress = Progress::new(&quic);
    let mut headless = 0;
    // Until the first request.
    let mut idle = server.patience;
    loop {
        let quiet = if stopping {
            LAST_CALL + 2 * quic.rtt()
        } else {
            idle
        };
        tokio::select! {
            accepted = http.accept(), if requests.len() < REQUESTS_AT_ONCE => match accepted {
                Ok(Some(resolver)) => {
                    idle = server.idle;
                    let answer = answer(
                        Arc::clone(&server),
                        quic.clone(),
                        priorities.clone(),
                        resolver,
                        Arc::clone(&turns),
                    );
                    requests.spawn(answer);
                }
                Ok(None) => break,
                // The connection is over, and with it every request.
                Err(_) => return,
            },
            Some(ended) = requests.join_next() => {
                headless += usize::from(matches!(ended, Ok(Head::Missing)));
                if headless > MAX_HEADLESS {
                    return quic.close(H3_EXCESSIVE_LOAD, b"too many requests without a head");
                }
            }
            () = server.stopping(), if !stopping => {
                stopping = true;
                // One above the last: GOAWAY names the first request that is not answered.
                if http.shutdown(1).await.is_err() {
                    return;
                }
            }
            // A slow client may still be taking the last answer.
            () = sleep(quiet), if requests.is_empty() => {
                if stopping || !progress.goes_on() {
                    break;
                }
            }
        }
    }
    while requests.join_next().await.is_some() {}
    delivered(&server, &quic).await;
    quic.close(H3_NO_ERROR, b"");
}

/// What became of a request's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Head {
    Read,
    Missing,
}

async fn answer(
    server: Arc<Server>,
    quic: Connection,
    priorities: Priorities,
    resolver: RequestResolver<tautline_h3::Connection, Bytes>,
    turns: Arc<Semaphore>,
) -> Head {
    // Dropping a stream resets it, so that giving up needs no further words.
    let Ok(Ok((request, stream))) = timeout(server.patience, resolver.resolve_request()).await
    else {
        return Head::Missing;
    };
    priorities.apply(stream.send_id(), request.headers());
    let (mut stream, mut body) = stream.split();
    let (parts, ()) = request.into_parts();
    let what = format!("{} {}", parts.method, parts.uri.path());
    let answering = async {
        // Never closed.
        let _turn = turns.acquire().await;
        let site = server.site.clone();
        let path = parts.uri.path().to_owned();
        let looked_up =
            spawn_blocking(move || reply::answer(&site, &parts.method, &path, &parts.headers));
        // Cancelled only when the program ends.
        let mut reply = looked_up.await.map_err(|error| error.to_string())?;
        if let Some(date) = date() {
            reply.head.headers_mut().insert(header::DATE, date);
        }
        let status = reply.head.status();
        match send(&server, &quic, &mut stream, reply).await {
            Ok(()) => Ok(status.as_str().to_owned()),
            Err(reason) => Err(format!("{} given up: {reason}", status.as_str())),
        }
    };
    // A request that is malformed further on is not answered, if that is known in time.
    let outcome = tokio::select! {
        biased;
        error = broken(&mut body) => Err((code_for(&error), format!("given up: {error}"))),
        outcome = answering => outcome.map_err(|said| (Code::H3_REQUEST_CANCELLED, said)),
    };
    let outcome = outcome.unwrap_or_else(|(code, said)| {
        stream.stop_stream(code);
        said
    });
    server.log(quic.remote_address(), "h3", &what, &outcome);
    Head::Read
}

/// RFC 9110 s6.6.1: who has a clock says what time it is.
#[expect(
    clippy::disallowed_methods,
    reason = "a server's date is the time of day"
)]
fn date() -> Option<HeaderValue> {
    let date = http_date(SystemTime::now())?;
    HeaderValue::try_from(date).ok()
}

/// Reads what follows the request's head, which answers do not depend on; ready only if it breaks.
async fn broken(body: &mut Receiving) -> StreamError {
    let mut received = 0;
    loop {
        match body.recv_data().await {
            Ok(Some(data)) => received += data.remaining(),
            Ok(None) => break,
            Err(error) => return error,
        }
        if received > MAX_REQUEST_BYTES {
            body.stop_sending(Code::H3_NO_ERROR);
            return pending().await;
        }
    }
    match body.recv_trailers().await {
        Ok(_) => pending().await,
        Err(error) => error,
    }
}

/// What the client hears of a request that broke. RFC 9114 s4.1.1, s4.1.2, s8.1.
fn code_for(error: &StreamError) -> Code {
    match error {
        StreamError::RemoteTerminate { .. } => Code::H3_REQUEST_INCOMPLETE,
        StreamError::Undefined(error) if error.is::<Malformed>() => Code::H3_MESSAGE_ERROR,
        StreamError::HeaderTooBig { .. } => Code::H3_EXCESSIVE_LOAD,
        StreamError::StreamError { code, .. } => *code,
        _ => Code::H3_REQUEST_CANCELLED,
    }
}

async fn send(
    server: &Server,
    quic: &Connection,
    stream: &mut Sending,
    reply: Reply,
) -> Result<(), String> {
    let patience = server.patience;
    let mut progress = Progress::new(quic);
    step(
        progress
            .wait(patience, stream.send_response(reply.head))
            .await,
    )?;
    match reply.body {
        Body::Empty => {}
        Body::Bytes(bytes) => step(progress.wait(patience, stream.send_data(bytes)).await)?,
        Body::File(mut pieces) => loop {
            let (rest, piece) = pieces.read().await.map_err(|error| error.to_string())?;
            let Some(piece) = piece else { break };
            step(progress.wait(patience, stream.send_data(piece)).await)?;
            pieces = rest;
        },
    }
    step(progress.wait(patience, stream.finish()).await)
}

fn step(outcome: Option<Result<(), h3::error::StreamError>>) -> Result<(), String> {
    match outcome {
        Some(Ok(())) => Ok(()),
        Some(Err(error)) => Err(error.to_string()),
        None => Err("the client is too slow".into()),
    }
}
