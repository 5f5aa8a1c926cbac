//! HTTP/0.9 over QUIC streams, as interop tests use it: `GET /path`, and the file as the answer.
//!
//! Owns: the request line. There is no status; a server that has no such file resets the stream
//! with [`NOT_FOUND`].

use tautline::{ReadError, RecvStream, SendStream, WriteError};

/// The ALPN token.
pub(crate) const ALPN: &[u8] = b"hq-interop";
/// Our code for "no such file", chosen to look familiar.
pub(crate) const NOT_FOUND: u64 = 404;
/// Longer request lines are refused.
const MAX_REQUEST_BYTES: usize = 8 * 1024;

/// Sends the request and ends the sending side.
pub(crate) async fn request(send: &mut SendStream, path: &str) -> Result<(), WriteError> {
    send.write_all(format!("GET {path}\r\n").as_bytes()).await?;
    // The stream is ours and open: finishing fails only if the connection is lost, which the
    // reader will tell.
    let _ = send.finish();
    Ok(())
}

/// The path that the client asks for; `None` if this is no request.
pub(crate) async fn read_request(recv: &mut RecvStream) -> Result<Option<String>, ReadError> {
    let mut line = Vec::new();
    while !line.contains(&b'\n') {
        match recv.read_chunk(MAX_REQUEST_BYTES).await? {
            Some(chunk) if line.len() + chunk.len() <= MAX_REQUEST_BYTES => {
                line.extend_from_slice(&chunk);
            }
            Some(_) => return Ok(None),
            None => break,
        }
    }
    Ok(parse_request(&line).map(str::to_owned))
}

fn parse_request(bytes: &[u8]) -> Option<&str> {
    let line = bytes.split(|byte| *byte == b'\n').next()?;
    let line = std::str::from_utf8(line).ok()?.trim_end_matches('\r');
    let path = line.strip_prefix("GET ")?.trim_end();
    // Some clients add a version.
    let path = path.split(' ').next()?;
    path.starts_with('/').then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_lines() {
        assert_eq!(parse_request(b"GET /a\r\n"), Some("/a"));
        assert_eq!(parse_request(b"GET /a/b"), Some("/a/b"));
        assert_eq!(parse_request(b"GET / HTTP/0.9\r\nHost: x\r\n"), Some("/"));
        for bad in [&b""[..], b"GET", b"GET a", b"POST /a", b"GET \xff", b"\n"] {
            assert_eq!(parse_request(bad), None);
        }
    }
}
