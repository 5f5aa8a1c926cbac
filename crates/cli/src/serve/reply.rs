//! HTTP semantics: what to answer to a request for a file. Knows no connection.
//!
//! Owns: methods, conditional requests, ranges, validators, content types, error pages.
//! Spec: RFC 9110 s8.8, s13, s14.

use std::{
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header, response::Builder};

use super::{
    dates::http_date,
    files::{Found, NoFile, OpenFile, Pieces, READ_BYTES, Site},
    listing,
};

/// An answer: the head and where the body comes from.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) head: Response<()>,
    pub(crate) body: Body,
}

/// Where a body comes from.
#[derive(Debug)]
pub(crate) enum Body {
    Empty,
    Bytes(Bytes),
    File(Pieces),
}

/// Answers a request. Blocks on the disk.
pub(crate) fn answer(site: &Site, method: &Method, path: &str, headers: &HeaderMap) -> Reply {
    if method != Method::GET && method != Method::HEAD {
        let mut reply = error_page(StatusCode::METHOD_NOT_ALLOWED);
        let allow = HeaderValue::from_static("GET, HEAD");
        reply.head.headers_mut().insert(header::ALLOW, allow);
        return reply;
    }
    let mut reply = match site.find(path) {
        Ok(Found::File(file)) => file_reply(file, method, headers),
        Ok(Found::Listing {
            path,
            entries,
            truncated,
        }) => {
            let page = listing::page(&path, &entries, truncated);
            let head = base(StatusCode::OK)
                .header(header::CONTENT_TYPE, "text/html; charset=utf-8")
                .header(header::CACHE_CONTROL, "no-cache")
                .header(
                    header::CONTENT_SECURITY_POLICY,
                    "default-src 'none'; style-src 'unsafe-inline'",
                );
            with_bytes(head, page.into())
        }
        Ok(Found::Redirect(to)) => {
            let head = base(StatusCode::MOVED_PERMANENTLY).header(header::LOCATION, to);
            with_bytes(head, Bytes::new())
        }
        Err(NoFile::NotFound) => error_page(StatusCode::NOT_FOUND),
        Err(NoFile::Forbidden) => error_page(StatusCode::FORBIDDEN),
        Err(NoFile::BadPath) => error_page(StatusCode::BAD_REQUEST),
        Err(NoFile::Busy) => busy(),
        Err(NoFile::Failed) => error_page(StatusCode::INTERNAL_SERVER_ERROR),
    };
    if method == Method::HEAD {
        reply.body = Body::Empty;
    }
    reply
}

/// A small page that says the status.
pub(crate) fn error_page(status: StatusCode) -> Reply {
    let head = base(status).header(header::CONTENT_TYPE, "text/plain; charset=utf-8");
    with_bytes(head, format!("{status}\n").into())
}

/// Too much is under way; later it may work.
fn busy() -> Reply {
    let mut reply = error_page(StatusCode::SERVICE_UNAVAILABLE);
    let headers = reply.head.headers_mut();
    headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    reply
}

fn base(status: StatusCode) -> Builder {
    Response::builder()
        .status(status)
        .header(
            header::SERVER,
            concat!("tautline/", env!("CARGO_PKG_VERSION")),
        )
        .header(header::X_CONTENT_TYPE_OPTIONS, "nosniff")
}

fn with_bytes(head: Builder, bytes: Bytes) -> Reply {
    let head = head.header(header::CONTENT_LENGTH, bytes.len());
    Reply {
        head: finish(head),
        body: Body::Bytes(bytes),
    }
}

/// Everything put into heads here is legal; if not, an empty 500 is the honest answer.
fn finish(head: Builder) -> Response<()> {
    head.body(()).unwrap_or_else(|_| {
        let mut response = Response::new(());
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        response
    })
}

fn file_reply(file: OpenFile, method: &Method, headers: &HeaderMap) -> Reply {
    let validators = Validators::of(&file);
    let mut head = base(StatusCode::OK).header(header::ACCEPT_RANGES, "bytes");
    if let Some(etag) = &validators.etag {
        head = head.header(header::ETAG, etag);
    }
    if let Some(date) = validators.modified.and_then(http_date) {
        head = head.header(header::LAST_MODIFIED, date);
    }
    match validators.check(headers) {
        Precondition::Failed => {
            let head = head.status(StatusCode::PRECONDITION_FAILED);
            return with_bytes(head, Bytes::new());
        }
        Precondition::NotModified => {
            let head = head.status(StatusCode::NOT_MODIFIED);
            return Reply {
                head: finish(head),
                body: Body::Empty,
            };
        }
        Precondition::Go => {}
    }
    head = head.header(header::CONTENT_TYPE, content_type(&file.path));
    // RFC 9110 s14.2: of the methods here, only GET knows ranges.
    let range = match method {
        &Method::GET => requested_range(headers, &validators, file.len),
        _ => Range::Whole,
    };
    let range = match range {
        Range::Whole => 0..file.len,
        Range::Part(range) => {
            let shown = format!("bytes {}-{}/{}", range.start, range.end - 1, file.len);
            head = head
                .status(StatusCode::PARTIAL_CONTENT)
                .header(header::CONTENT_RANGE, shown);
            range
        }
        Range::Unsatisfiable => {
            let head = head
                .status(StatusCode::RANGE_NOT_SATISFIABLE)
                .header(header::CONTENT_RANGE, format!("bytes */{}", file.len));
            return with_bytes(head, Bytes::new());
        }
    };
    let len = range.end - range.start;
    let body = Pieces::new(file.file, range.start, len).and_then(|mut pieces| {
        // Small files are read here and now: it saves a trip to another thread.
        if len <= READ_BYTES as u64 {
            Ok(pieces.next()?.map_or(Body::Empty, Body::Bytes))
        } else {
            Ok(Body::File(pieces))
        }
    });
    match body {
        Ok(body) => Reply {
            head: finish(head.header(header::CONTENT_LENGTH, len)),
            body,
        },
        Err(_) => error_page(StatusCode::INTERNAL_SERVER_ERROR),
    }
}

fn content_type(path: &Path) -> HeaderValue {
    let mime = mime_guess::from_path(path).first_or_octet_stream();
    let text = if mime.type_() == mime_guess::mime::TEXT {
        format!("{mime}; charset=utf-8")
    } else {
        mime.to_string()
    };
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("application/octet-stream"))
}

/// What tells one version of a file from another.
struct Validators {
    etag: Option<String>,
    modified: Option<SystemTime>,
}

#[derive(Debug, PartialEq, Eq)]
enum Precondition {
    Go,
    NotModified,
    Failed,
}

impl Validators {
    fn of(file: &OpenFile) -> Self {
        let since = file
            .modified
            .map(|time| match time.duration_since(UNIX_EPOCH) {
                Ok(after) => format!("{:x}", after.as_nanos()),
                Err(before) => format!("-{:x}", before.duration().as_nanos()),
            });
        Self {
            etag: since.map(|since| format!("\"{since}-{:x}\"", file.len)),
            modified: file.modified,
        }
    }

    /// RFC 9110 s13.2.2, in its order.
    fn check(&self, headers: &HeaderMap) -> Precondition {
        if headers.contains_key(header::IF_MATCH) {
            if !self.matches(headers, header::IF_MATCH, false) {
                return Precondition::Failed;
            }
        } else if let Some(date) = date_of(headers, header::IF_UNMODIFIED_SINCE)
            && self
                .seconds()
                .is_some_and(|modified| modified > seconds(date))
        {
            return Precondition::Failed;
        }
        if headers.contains_key(header::IF_NONE_MATCH) {
            if self.matches(headers, header::IF_NONE_MATCH, true) {
                return Precondition::NotModified;
            }
        } else if let Some(date) = date_of(headers, header::IF_MODIFIED_SINCE)
            && self
                .seconds()
                .is_some_and(|modified| modified <= seconds(date))
        {
            return Precondition::NotModified;
        }
        Precondition::Go
    }

    /// Whether one of the listed tags is ours; `weak` comparison ignores the `W/`.
    fn matches(&self, headers: &HeaderMap, name: header::HeaderName, weak: bool) -> bool {
        headers
            .get_all(name)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .any(|list| {
                list.split(',').map(str::trim).any(|tag| {
                    let tag = if weak {
                        tag.strip_prefix("W/").unwrap_or(tag)
                    } else {
                        tag
                    };
                    tag == "*" || self.etag.as_deref() == Some(tag)
                })
            })
    }

    /// HTTP dates know whole seconds only.
    fn seconds(&self) -> Option<u64> {
        self.modified.map(seconds)
    }

    /// RFC 9110 s13.1.5: a range of exactly this version, or no range at all.
    fn allows_range(&self, headers: &HeaderMap) -> bool {
        let Some(value) = headers.get(header::IF_RANGE) else {
            return true;
        };
        let Ok(value) = value.to_str() else {
            return false;
        };
        match httpdate::parse_http_date(value) {
            Ok(date) => self.seconds() == Some(seconds(date)),
            Err(_) => self.etag.as_deref() == Some(value.trim()),
        }
    }
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

fn date_of(headers: &HeaderMap, name: header::HeaderName) -> Option<SystemTime> {
    httpdate::parse_http_date(headers.get(name)?.to_str().ok()?).ok()
}

#[derive(Debug, PartialEq, Eq)]
enum Range {
    Whole,
    Part(std::ops::Range<u64>),
    Unsatisfiable,
}

fn requested_range(headers: &HeaderMap, validators: &Validators, len: u64) -> Range {
    match headers
        .get(header::RANGE)
        .and_then(|value| value.to_str().ok())
    {
        Some(range) if validators.allows_range(headers) => parse_range(range, len),
        _ => Range::Whole,
    }
}

/// RFC 9110 s14.2. Several ranges at once, other units and nonsense get the whole file, as a
/// server may.
fn parse_range(value: &str, len: u64) -> Range {
    let Some((first, last)) = value
        .strip_prefix("bytes=")
        .and_then(|spec| spec.split_once('-'))
    else {
        return Range::Whole;
    };
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        // More digits than fit are beyond any file.
        digits.then(|| text.parse::<u64>().unwrap_or(u64::MAX))
    };
    let range = match (number(first.trim()), number(last.trim())) {
        (Some(first), Some(last)) if first <= last => first..last.saturating_add(1).min(len),
        (Some(first), None) if last.trim().is_empty() => first..len,
        (None, Some(suffix)) if first.trim().is_empty() => len.saturating_sub(suffix)..len,
        _ => return Range::Whole,
    };
    if range.is_empty() {
        Range::Unsatisfiable
    } else {
        Range::Part(range)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn ranges() {
        for (text, expected) in [
            ("bytes=0-0", Range::Part(0..1)),
            ("bytes=2-", Range::Part(2..10)),
            ("bytes=-3", Range::Part(7..10)),
            ("bytes=-30", Range::Part(0..10)),
            ("bytes=5-99", Range::Part(5..10)),
            ("bytes=0-99999999999999999999999", Range::Part(0..10)),
            ("bytes=10-", Range::Unsatisfiable),
            ("bytes=99999999999999999999999-", Range::Unsatisfiable),
            ("bytes=-0", Range::Unsatisfiable),
            ("bytes=5-4", Range::Whole),
            ("bytes=0-1,3-4", Range::Whole),
            ("bytes=a-b", Range::Whole),
            ("bytes=-", Range::Whole),
            ("lines=0-1", Range::Whole),
        ] {
            assert_eq!(parse_range(text, 10), expected, "{text}");
        }
        assert_eq!(parse_range("bytes=0-", 0), Range::Unsatisfiable);
    }

    #[test]
    fn conditions() {
        let modified = UNIX_EPOCH + Duration::new(1_000_000, 5);
        let validators = Validators {
            etag: Some("\"x\"".into()),
            modified: Some(modified),
        };
        let check = |name: header::HeaderName, value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().unwrap());
            validators.check(&headers)
        };
        let date = |offset: i64| {
            let at = UNIX_EPOCH + Duration::from_secs(1_000_000_u64.saturating_add_signed(offset));
            httpdate::fmt_http_date(at)
        };
        use Precondition::{Failed, Go, NotModified};
        assert_eq!(check(header::IF_NONE_MATCH, "\"a\", W/\"x\""), NotModified);
        assert_eq!(check(header::IF_NONE_MATCH, "*"), NotModified);
        assert_eq!(check(header::IF_NONE_MATCH, "\"a\""), Go);
        assert_eq!(check(header::IF_MODIFIED_SINCE, &date(0)), NotModified);
        assert_eq!(check(header::IF_MODIFIED_SINCE, &date(-1)), Go);
        assert_eq!(check(header::IF_MODIFIED_SINCE, "yesterday"), Go);
        assert_eq!(check(header::IF_MATCH, "\"x\""), Go);
        assert_eq!(check(header::IF_MATCH, "W/\"x\""), Failed);
        assert_eq!(check(header::IF_UNMODIFIED_SINCE, &date(-1)), Failed);
        assert_eq!(check(header::IF_UNMODIFIED_SINCE, &date(0)), Go);
    }

    #[test]
    fn content_types() {
        let of = |name: &str| content_type(Path::new(name)).to_str().unwrap().to_owned();
        assert_eq!(of("a.html"), "text/html; charset=utf-8");
        assert_eq!(of("a.png"), "image/png");
        assert_eq!(of("a"), "application/octet-stream");
    }
}
