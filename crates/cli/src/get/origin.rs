//! A connection to a server, and files over it.
//!
//! Owns: requests, resuming, redirects, what a broken transfer says.
//! Does not own: part files ([`super::part`]), reaching the server.

use bytes::{Buf, Bytes};
use h3::{
    client::SendRequest,
    error::{Code, StreamError},
};
use http::{HeaderMap, Request, Response, StatusCode, header};
use indicatif::ProgressBar;
use tautline::{Connection, ConnectionError, ReadError, RecvStream};
use tautline_h3::OpenStreams;

use super::{
    part::{Out, Part, Resume},
    target::Target,
};
use crate::{
    checksum::Digest,
    failure::{Failure, Outcome},
    http09,
};

/// A chain of redirects longer than this leads nowhere.
const MAX_REDIRECTS: usize = 10;
/// Interim responses to one request; there may be any number, but no use is known for so many.
const MAX_INTERIM: usize = 1_000;

/// How files are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http3,
    Http09,
}

impl Protocol {
    pub(crate) fn alpn(self) -> &'static [u8] {
        match self {
            Self::Http3 => tautline_h3::ALPN,
            Self::Http09 => http09::ALPN,
        }
    }
}

/// One file to fetch.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) target: Target,
    pub(crate) out: Out,
    pub(crate) expected: Option<Digest>,
}

/// A connection that files come over. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Origin {
    quic: Connection,
    http: Option<SendRequest<OpenStreams, Bytes>>,
}

impl Origin {
    /// Starts the protocol on a connection with its ALPN.
    pub(crate) async fn new(quic: Connection, protocol: Protocol) -> Outcome<Self> {
        if protocol == Protocol::Http09 {
            return Ok(Self { quic, http: None });
        }
        let connection = tautline_h3::Connection::new(quic.clone());
        let started = tautline_h3::client_builder().build(connection).await;
        let (mut driver, http) = started.map_err(|error| broken(&quic, &error))?;
        tokio::spawn(async move { driver.wait_idle().await });
        Ok(Self {
            quic,
            http: Some(http),
        })
    }

    /// Whether the other is on the same connection.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.quic.stable_id() == other.quic.stable_id()
    }

    /// Fetches a file; the bar shows how far it is.
    ///
    /// # Errors
    /// [`Broken`] says whether, and where, it may be asked for again.
    pub(crate) async fn fetch(&self, job: &Job, bar: &ProgressBar) -> Result<Digest, Broken> {
        let url = job.target.to_string();
        // HTTP/0.9 knows no ranges: it can ask before the disk is looked at, as early data must.
        let asked = match &self.http {
            Some(http) => Asked::Http3(http.clone()),
            None => Asked::Http09(self.ask(&job.target).await?),
        };
        let (mut part, resume) = Part::open(job.out.clone(), &url).await?;
        bar.set_position(part.received());
        let received = match asked {
            Asked::Http3(http) => {
                self.over_http3(http, &job.target, &mut part, resume, bar)
                    .await
            }
            Asked::Http09(answer) => over_http09(answer, &mut part, bar)
                .await
                .map_err(Broken::from),
        };
        let broken = match received {
            Ok(()) => return Ok(part.finish(job.expected).await?),
            Err(broken) => broken,
        };
        let nothing_yet = part.received() == 0;
        Err(if part.give_up().await {
            Broken {
                kept: true,
                ..broken
            }
        } else {
            // What was written and cannot be resumed would be written twice.
            let again = broken.again.filter(|_| nothing_yet);
            Broken { again, ..broken }
        })
    }

    async fn over_http3(
        &self,
        mut http: SendRequest<OpenStreams, Bytes>,
        target: &Target,
        part: &mut Part,
        mut resume: Option<Resume>,
        bar: &ProgressBar,
    ) -> Result<(), Broken> {
        let url = target.to_string();
        let mut target = target.clone();
        for _ in 0..MAX_REDIRECTS {
            let request = request(&target, resume.as_ref())?;
            let sent = http.send_request(request).await;
            let mut stream = sent.map_err(|error| self.broken(&error))?;
            match stream.finish().await {
                Ok(()) => {}
                // The server has answered before it heard that there is nothing more to the
                // request, which is no reason to leave its answer. RFC 9114 s4.1.
                Err(StreamError::RemoteTerminate { code, .. }) if code == Code::H3_NO_ERROR => {}
                // Or this half is over and forgotten; the other one tells why.
                Err(StreamError::Undefined(_)) if self.quic.close_reason().is_none() => {}
                Err(error) => return Err(self.broken(&error)),
            }
            let mut response = stream.recv_response().await;
            let mut interim = 0;
            // RFC 9114 s4.1.
            while response
                .as_ref()
                .is_ok_and(|response| response.status().is_informational())
            {
                interim += 1;
                if interim > MAX_INTERIM {
                    let failure = "the server sends interim responses without end";
                    return Err(Failure::new(failure).into());
                }
                response = stream.recv_response().await;
            }
            let response = response.map_err(|error| self.broken(&error))?;
            let end = match judge(&response, &target, resume.as_ref())? {
                Verdict::Body { from, end } => {
                    if from == 0 {
                        part.restart().await?;
                    }
                    end
                }
                Verdict::Complete => return Ok(()),
                Verdict::StartOver => {
                    resume = None;
                    continue;
                }
                Verdict::Moved(to) => {
                    target = to;
                    continue;
                }
            };
            let etag = response
                .headers()
                .get(header::ETAG)
                .and_then(|etag| etag.to_str().ok());
            part.remember(&url, etag).await?;
            bar.set_position(part.received());
            if let Some(end) = end {
                bar.set_length(end);
            }
            loop {
                let data = stream.recv_data().await;
                let Some(mut data) = data.map_err(|error| self.broken(&error))? else {
                    break;
                };
                let bytes = data.copy_to_bytes(data.remaining());
                bar.inc(bytes.len() as u64);
                part.write(bytes).await?;
            }
            let got = part.received();
            return match end {
                Some(end) if got != end => Err(Broken::from(Failure::new(format!(
                    "the server announced {end} bytes and sent {got}"
                )))),
                _ => Ok(()),
            };
        }
        Err(Failure::new("too many redirects").into())
    }

    /// Why a request broke, and whether it may be sent again. RFC 9114 s4.1.1, s5.2.
    fn broken(&self, error: &StreamError) -> Broken {
        let closed = self.quic.close_reason();
        let failure = match (&closed, error) {
            (None, StreamError::RemoteTerminate { code }) => {
                Failure::new(format!("the server gave the transfer up ({code:?})"))
            }
            (_, StreamError::RemoteClosing) => {
                Failure::new("the server takes no more requests on this connection")
            }
            (None, StreamError::Undefined(error)) => {
                Failure::new(format!("the transfer broke: {error}"))
            }
            _ => broken(&self.quic, error),
        };
        let again = match (closed, error) {
            // What a connection that ends well leaves unanswered may be asked for on the next one.
            (Some(ConnectionError::PeerApplication { code, .. }), _)
                if Code::H3_NO_ERROR == code =>
            {
                Some(Again::Elsewhere)
            }
            // GOAWAY; without requests under way, `h3` closes the connection then.
            (_, StreamError::RemoteClosing) => Some(Again::Elsewhere),
            (Some(_), error) if error.is_h3_no_error() => Some(Again::Elsewhere),
            (Some(_), _) => None,
            (None, StreamError::RemoteTerminate { code })
                if [Code::H3_REQUEST_REJECTED, Code::H3_REQUEST_CANCELLED].contains(code) =>
            {
                Some(Again::Here)
            }
            (None, _) => None,
        };
        Broken {
            failure,
            again,
            kept: false,
        }
    }

    /// Sends a request of HTTP/0.9.
    async fn ask(&self, target: &Target) -> Outcome<RecvStream> {
        let (mut send, recv) = self.quic.open_bi().await?;
        http09::request(&mut send, target.path.as_str()).await?;
        Ok(recv)
    }

    /// Says goodbye.
    pub(crate) fn close(&self) {
        let code = if self.http.is_some() {
            Code::H3_NO_ERROR.value()
        } else {
            0
        };
        self.quic.close(code, b"");
    }
}

/// Why there is no file.
#[derive(Debug)]
pub(crate) struct Broken {
    failure: Failure,
    /// Where to ask again, if that may help; every request is a GET, which may be repeated.
    pub(crate) again: Option<Again>,
    /// What arrived can be resumed.
    kept: bool,
}

/// Where a request may be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    /// The server gave up this one request.
    Here,
    /// The connection takes no more requests.
    Elsewhere,
}

impl Broken {
    /// The last word on it, after so many attempts.
    pub(crate) fn after(self, attempts: u32) -> Failure {
        let failure = Failure::from(self);
        if attempts > 1 {
            failure.then(format!("that was attempt {attempts} and the last"))
        } else {
            failure
        }
    }

    /// It could not be asked for again, for this reason.
    pub(crate) fn instead(self, failure: Failure) -> Failure {
        let failure = failure.then("the connection before took no more requests");
        Failure::from(Self { failure, ..self })
    }
}

impl From<Failure> for Broken {
    fn from(failure: Failure) -> Self {
        Self {
            failure,
            again: None,
            kept: false,
        }
    }
}

impl From<Broken> for Failure {
    fn from(broken: Broken) -> Self {
        if broken.kept {
            let kept = "what arrived is kept: the same command goes on from there";
            broken.failure.then(kept)
        } else {
            broken.failure
        }
    }
}

/// How far asking has come before the part file is open.
enum Asked {
    Http3(SendRequest<OpenStreams, Bytes>),
    Http09(RecvStream),
}

async fn over_http09(mut answer: RecvStream, part: &mut Part, bar: &ProgressBar) -> Outcome {
    part.restart().await?;
    part.remember("", None).await?;
    bar.set_position(0);
    loop {
        match answer.read_chunk(usize::MAX).await {
            Ok(Some(bytes)) => {
                bar.inc(bytes.len() as u64);
                part.write(bytes).await?;
            }
            Ok(None) => return Ok(()),
            Err(ReadError::Reset(http09::NOT_FOUND)) => {
                return Err(Failure::new("the server has no such file"));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Why a transfer broke: the connection's end tells more than the layer above.
fn broken(quic: &Connection, error: &dyn std::error::Error) -> Failure {
    if let Some(reason) = quic.close_reason() {
        return Failure::from(reason);
    }
    Failure::new(format!("the transfer broke: {error}"))
}

fn request(target: &Target, resume: Option<&Resume>) -> Outcome<Request<()>> {
    let mut request = Request::get(target.to_string())
        .header(
            header::USER_AGENT,
            concat!("tautline/", env!("CARGO_PKG_VERSION")),
        )
        .header(header::ACCEPT, "*/*");
    if let Some(Resume { offset, etag }) = resume {
        request = request
            .header(header::RANGE, format!("bytes={offset}-"))
            .header(header::IF_RANGE, etag);
    }
    request
        .body(())
        .map_err(|error| Failure::new(format!("cannot ask for {target}: {error}")))
}

/// What to do with a response.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// The body is the file from `from` up to `end` (its length, if known).
    Body {
        from: u64,
        end: Option<u64>,
    },
    /// We had it all.
    Complete,
    /// The part is of no use.
    StartOver,
    Moved(Target),
}

fn judge(response: &Response<()>, target: &Target, resume: Option<&Resume>) -> Outcome<Verdict> {
    let headers = response.headers();
    Ok(match (response.status(), resume) {
        (StatusCode::OK, _) => Verdict::Body {
            from: 0,
            end: length(headers),
        },
        (StatusCode::PARTIAL_CONTENT, Some(Resume { offset, .. })) => {
            match content_range(headers) {
                Some((Some(from), end)) if from == *offset => Verdict::Body { from, end },
                _ => Verdict::StartOver,
            }
        }
        (StatusCode::RANGE_NOT_SATISFIABLE, Some(Resume { offset, .. })) => {
            match content_range(headers) {
                Some((None, Some(len))) if len == *offset => Verdict::Complete,
                _ => Verdict::StartOver,
            }
        }
        (status, _) if status.is_redirection() => {
            let location = headers
                .get(header::LOCATION)
                .and_then(|to| to.to_str().ok());
            let to = location.ok_or_else(|| Failure::new(format!("the server answered {status}")));
            Verdict::Moved(target.redirected(to?).map_err(Failure::new)?)
        }
        (status, _) => return Err(Failure::new(format!("the server answered {status}"))),
    })
}

fn length(headers: &HeaderMap) -> Option<u64> {
    headers
        .get(header::CONTENT_LENGTH)?
        .to_str()
        .ok()?
        .parse()
        .ok()
}

/// First byte and length of the whole: `bytes 5-9/10`, `bytes */10`. RFC 9110 s14.4.
fn content_range(headers: &HeaderMap) -> Option<(Option<u64>, Option<u64>)> {
    let value = headers.get(header::CONTENT_RANGE)?.to_str().ok()?;
    let (range, whole) = value.strip_prefix("bytes ")?.split_once('/')?;
    let from = range
        .split_once('-')
        .and_then(|(from, _)| from.parse().ok());
    Some((from, whole.parse().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(status: u16, fields: &[(&str, &str)], offset: Option<u64>) -> Option<Verdict> {
        let mut response = Response::builder().status(status);
        for (name, value) in fields {
            response = response.header(*name, *value);
        }
        let resume = offset.map(|offset| Resume {
            offset,
            etag: "\"x\"".into(),
        });
        let target = "https://h/f".parse().unwrap();
        judge(&response.body(()).unwrap(), &target, resume.as_ref()).ok()
    }

    #[test]
    fn responses_are_judged() {
        let body = |from, end| Some(Verdict::Body { from, end });
        assert_eq!(
            verdict(200, &[("content-length", "9")], None),
            body(0, Some(9))
        );
        assert_eq!(verdict(200, &[], Some(5)), body(0, None));
        let range = |value| [("content-range", value)];
        assert_eq!(
            verdict(206, &range("bytes 5-9/10"), Some(5)),
            body(5, Some(10))
        );
        assert_eq!(
            verdict(206, &range("bytes 4-9/10"), Some(5)),
            Some(Verdict::StartOver)
        );
        assert_eq!(verdict(206, &[], Some(5)), Some(Verdict::StartOver));
        assert_eq!(verdict(206, &range("bytes 0-9/10"), None), None);
        assert_eq!(
            verdict(416, &range("bytes */5"), Some(5)),
            Some(Verdict::Complete)
        );
        assert_eq!(
            verdict(416, &range("bytes */6"), Some(5)),
            Some(Verdict::StartOver)
        );
        assert_eq!(verdict(404, &[], None), None);
        assert!(matches!(
            verdict(301, &[("location", "/g")], None),
            Some(Verdict::Moved(_))
        ));
        assert_eq!(verdict(302, &[("location", "https://other/")], None), None);
    }
}
