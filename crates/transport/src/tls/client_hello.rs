//! Reading a ClientHello before TLS does.
//!
//! A server chooses the version, and so the labels of its keys, by what the client's transport
//! parameters say (RFC 9368 s2.3), and may choose a configuration by name or protocol. It must
//! know these before it builds the session; TLS checks everything once more.

use crate::error::{Code, DecodeError, TransportError};
use crate::wire::Reader;

/// The most a ClientHello may take, handshake header included, in bytes. The length field allows
/// 16 MiB; post-quantum key shares and many extensions stay below 8 KiB.
pub const MAX_CLIENT_HELLO_BYTES: usize = 64 * 1024;

/// Application protocols remembered of one ClientHello; further ones are left to TLS.
const MAX_ALPN_PROTOCOLS: usize = 64;

// TLS alerts. RFC 8446 s6.
const UNEXPECTED_MESSAGE: u8 = 10;
const ILLEGAL_PARAMETER: u8 = 47;
const DECODE_ERROR: u8 = 50;
const MISSING_EXTENSION: u8 = 109;

const CLIENT_HELLO: u8 = 1;
const EXT_SERVER_NAME: u16 = 0;
const EXT_ALPN: u16 = 16;
const EXT_EARLY_DATA: u16 = 42;
const EXT_QUIC_TRANSPORT_PARAMETERS: u16 = 0x39;

/// What a server wants to know of a ClientHello. RFC 8446 s4.1.2.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientHello<'a> {
    /// The DNS name asked for (server_name, RFC 6066 s3).
    pub server_name: Option<String>,
    /// Application protocols, the client's favourite first (RFC 7301 s3.1).
    pub alpn: Vec<Vec<u8>>,
    /// The encoded transport parameters (extension 0x39, RFC 9001 s8.2).
    pub transport_parameters: Option<&'a [u8]>,
    /// Whether the client offers early data (RFC 8446 s4.2.10).
    pub early_data: bool,
    /// Bytes of the whole message, handshake header included.
    pub len: usize,
}

impl<'a> ClientHello<'a> {
    /// The encoded transport parameters.
    ///
    /// # Errors
    /// CRYPTO_ERROR with missing_extension (0x16d) when the client sent none. RFC 9001 s8.2.
    pub fn require_transport_parameters(&self) -> Result<&'a [u8], TransportError> {
        self.transport_parameters.ok_or_else(|| {
            TransportError::new(
                Code::crypto(MISSING_EXTENSION),
                "quic_transport_parameters missing",
            )
        })
    }
}

/// Reads the ClientHello at the start of a client's Initial CRYPTO stream.
///
/// `data` is what has arrived of the stream, from offset 0 without gaps. `None` means that more is
/// needed. Call again with more whenever it grows; the work is linear in its length only once the
/// message is complete.
///
/// # Errors
/// The error to close with: unexpected_message for any other handshake message, decode_error or
/// illegal_parameter for a malformed one, CRYPTO_BUFFER_EXCEEDED above
/// [`MAX_CLIENT_HELLO_BYTES`], PROTOCOL_VIOLATION for a TLS 1.2 compatibility session ID
/// (RFC 9001 s8.4).
pub fn parse(data: &[u8]) -> Result<Option<ClientHello<'_>>, TransportError> {
    let Some(&message_type) = data.first() else {
        return Ok(None);
    };
    if message_type != CLIENT_HELLO {
        return Err(crypto(UNEXPECTED_MESSAGE, "expected a ClientHello"));
    }
    let Some(&[_, a, b, c]) = data.first_chunk::<4>() else {
        return Ok(None);
    };
    let body_len = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
    let len = 4 + body_len;
    if len > MAX_CLIENT_HELLO_BYTES {
        return Err(TransportError::crypto_buffer_exceeded(
            "ClientHello too long",
        ));
    }
    let Some(body) = data.get(4..len) else {
        return Ok(None);
    };
    let mut hello = parse_body(body)?;
    hello.len = len;
    Ok(Some(hello))
}

fn parse_body(body: &[u8]) -> Result<ClientHello<'_>, TransportError> {
    let mut reader = Reader::new(body);
    read(reader.bytes(2 + 32), "version and random")?;
    let session_id = vector8(&mut reader, "session ID")?;
    if !session_id.is_empty() {
        return Err(TransportError::protocol_violation(
            "legacy_session_id not empty",
        ));
    }
    let cipher_suites = vector16(&mut reader, "cipher suites")?;
    if cipher_suites.is_empty() || !cipher_suites.len().is_multiple_of(2) {
        return Err(crypto(DECODE_ERROR, "cipher suites"));
    }
    if vector8(&mut reader, "compression methods")?.is_empty() {
        return Err(crypto(DECODE_ERROR, "compression methods"));
    }
    let mut hello = ClientHello::default();
    if reader.is_empty() {
        // No extensions at all: not TLS 1.3, but that is for TLS to say.
        return Ok(hello);
    }
    let extensions = vector16(&mut reader, "extensions")?;
    if !reader.is_empty() {
        return Err(crypto(DECODE_ERROR, "bytes after the extensions"));
    }
    parse_extensions(extensions, &mut hello)?;
    Ok(hello)
}

fn parse_extensions<'a>(
    extensions: &'a [u8],
    hello: &mut ClientHello<'a>,
) -> Result<(), TransportError> {
    let mut reader = Reader::new(extensions);
    let (mut name_seen, mut alpn_seen, mut params_seen) = (false, false, false);
    while !reader.is_empty() {
        let extension_type = read(reader.u16(), "extension type")?;
        let content = vector16(&mut reader, "extension")?;
        match extension_type {
            EXT_SERVER_NAME => {
                once(&mut name_seen)?;
                hello.server_name = parse_server_name(content)?;
            }
            EXT_ALPN => {
                once(&mut alpn_seen)?;
                hello.alpn = parse_alpn(content)?;
            }
            EXT_QUIC_TRANSPORT_PARAMETERS => {
                once(&mut params_seen)?;
                hello.transport_parameters = Some(content);
            }
            EXT_EARLY_DATA => once(&mut hello.early_data)?,
            _ => {}
        }
    }
    Ok(())
}

/// RFC 6066 s3. A name that is no DNS name is left to TLS.
fn parse_server_name(content: &[u8]) -> Result<Option<String>, TransportError> {
    const HOST_NAME: u8 = 0;
    let mut reader = Reader::new(content);
    let mut list = Reader::new(vector16(&mut reader, "server name list")?);
    if !reader.is_empty() || list.is_empty() {
        return Err(crypto(DECODE_ERROR, "server name list"));
    }
    let name_type = read(list.u8(), "server name type")?;
    let name = vector16(&mut list, "server name")?;
    let name = std::str::from_utf8(name)
        .ok()
        .filter(|name| name.is_ascii() && !name.is_empty());
    Ok(name
        .filter(|_| name_type == HOST_NAME)
        .map(str::to_ascii_lowercase))
}

/// RFC 7301 s3.1.
fn parse_alpn(content: &[u8]) -> Result<Vec<Vec<u8>>, TransportError> {
    let mut reader = Reader::new(content);
    let mut list = Reader::new(vector16(&mut reader, "protocol list")?);
    if !reader.is_empty() || list.is_empty() {
        return Err(crypto(DECODE_ERROR, "protocol list"));
    }
    let mut protocols = Vec::new();
    while !list.is_empty() {
        let protocol = vector8(&mut list, "protocol name")?;
        if protocol.is_empty() {
            return Err(crypto(DECODE_ERROR, "empty protocol name"));
        }
        if protocols.len() < MAX_ALPN_PROTOCOLS {
            protocols.push(protocol.to_vec());
        }
    }
    Ok(protocols)
}

fn once(seen: &mut bool) -> Result<(), TransportError> {
    if std::mem::replace(seen, true) {
        return Err(crypto(ILLEGAL_PARAMETER, "extension twice"));
    }
    Ok(())
}

fn crypto(alert: u8, reason: &'static str) -> TransportError {
    TransportError::new(Code::crypto(alert), reason)
}

fn read<T>(result: Result<T, DecodeError>, field: &'static str) -> Result<T, TransportError> {
    result.map_err(|_| crypto(DECODE_ERROR, field))
}

/// A vector with a one-byte length.
fn vector8<'a>(reader: &mut Reader<'a>, field: &'static str) -> Result<&'a [u8], TransportError> {
    let len = read(reader.u8(), field)?;
    read(reader.bytes(usize::from(len)), field)
}

/// A vector with a two-byte length.
fn vector16<'a>(reader: &mut Reader<'a>, field: &'static str) -> Result<&'a [u8], TransportError> {
    let len = read(reader.u16(), field)?;
    read(reader.bytes(usize::from(len)), field)
}
