//! What makes a request or response malformed.
//!
//! Owns: the rules for field sections ([`request`], [`response`], [`trailers`]), and for bodies
//! what a section says about them ([`Head`]).
//! Does not own: counting bodies (`watch.rs`), decoding (`section`), what a receiver does about it
//! (`stream.rs`).
//! Spec: RFC 9114 s4.1.2, s4.2, s4.3, s4.4, s10.3; RFC 9110 s8.6; RFC 8441 s4 (extended CONNECT).

use crate::section::{Field, Fields, Undecodable};

/// Why a section is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// A connection error: QPACK_DECOMPRESSION_FAILED.
    Undecodable,
    /// A stream error: H3_MESSAGE_ERROR.
    Malformed(&'static str),
}

impl From<Undecodable> for Refused {
    fn from(Undecodable: Undecodable) -> Self {
        Self::Undecodable
    }
}

/// A request's method, as far as framing depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Method {
    /// Neither of the others.
    #[default]
    Other,
    /// Its response has no body, whatever the fields say.
    Head,
    Connect,
}

/// What a request or response says of what follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Head {
    /// Bytes of the body.
    pub(crate) content_length: Option<u64>,
    /// Of a request.
    pub(crate) method: Method,
    /// Of a response.
    pub(crate) status: u16,
}

impl Head {
    /// A response that comes before the response. RFC 9110 s15.2.
    pub(crate) fn is_interim(&self) -> bool {
        (100..200).contains(&self.status)
    }

    /// Whether a response to such a request may announce a body and have none. RFC 9110 s6.4.1.
    pub(crate) fn may_lack_body(&self, asked: Method) -> bool {
        asked == Method::Head || matches!(self.status, 204 | 304)
    }
}

/// Reads the header section of a request.
pub(crate) fn request(section: &[u8]) -> Result<Head, Refused> {
    let section = Section::read(section, Kind::Request)?;
    section.check_request()?;
    Ok(section.head)
}

/// Reads the header section of a response, interim ones included.
pub(crate) fn response(section: &[u8]) -> Result<Head, Refused> {
    let section = Section::read(section, Kind::Response)?;
    if !section.has_status {
        return Err(Refused::Malformed("no :status"));
    }
    Ok(section.head)
}

/// Reads a trailer section.
pub(crate) fn trailers(section: &[u8]) -> Result<(), Refused> {
    Section::read(section, Kind::Trailers).map(drop)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Request,
    Response,
    Trailers,
}

/// What the fields so far come to.
#[derive(Debug)]
struct Section {
    kind: Kind,
    head: Head,
    /// A field that is no pseudo-header has come.
    regular: bool,
    has_method: bool,
    has_status: bool,
    has_protocol: bool,
    has_authority: bool,
    has_host: bool,
    scheme: Option<Scheme>,
    path: Option<Path>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    Http,
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Path {
    /// `/` and what follows.
    Absolute,
    /// `*`: of OPTIONS alone.
    Asterisk {
        allowed: bool,
    },
    Other,
}

type Checked = Result<(), Refused>;

const fn malformed(reason: &'static str) -> Checked {
    Err(Refused::Malformed(reason))
}

impl Section {
    fn read(section: &[u8], kind: Kind) -> Result<Self, Refused> {
        let mut this = Self {
            kind,
            head: Head::default(),
            regular: false,
            has_method: false,
            has_status: false,
            has_protocol: false,
            has_authority: false,
            has_host: false,
            scheme: None,
            path: None,
        };
        let mut options = false;
        // A section that cannot be decoded ends the connection, whatever its first fields are.
        let mut outcome = Ok(());
        for field in Fields::new(section)? {
            let field = field?;
            options |= *field.name == *b":method" && *field.value == *b"OPTIONS";
            if outcome.is_ok() {
                outcome = this.field(&field);
            }
        }
        outcome?;
        if let Some(Path::Asterisk { allowed }) = &mut this.path {
            *allowed = options;
        }
        Ok(this)
    }

    fn field(&mut self, field: &Field<'_>) -> Checked {
        let (name, value) = (&*field.name, &*field.value);
        // RFC 9110 s5.5; RFC 9114 s10.3.
        let forbidden = |byte: &u8| matches!(byte, 0..=8 | 10..=31 | 127);
        if value.iter().any(forbidden) {
            return malformed("a character that field values must not have");
        }
        if let Some(pseudo) = name.strip_prefix(b":") {
            return self.pseudo(pseudo, value);
        }
        self.regular = true;
        if name.is_empty() || !name.iter().all(|byte| is_name_byte(*byte)) {
            // Capitals among others.
            return malformed("a character that field names must not have");
        }
        match name {
            b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding"
            | b"upgrade" => malformed("a field of a single connection"),
            b"te" if self.kind != Kind::Request => malformed("te outside of a request"),
            b"te" if !value.eq_ignore_ascii_case(b"trailers") => malformed("te is not trailers"),
            b"content-length" => self.content_length(value),
            b"host" if self.kind == Kind::Request => {
                self.has_host = true;
                if value.is_empty() {
                    return malformed("host is empty");
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn pseudo(&mut self, name: &[u8], value: &[u8]) -> Checked {
        const TWICE: Checked = malformed("a pseudo-header twice");
        if self.kind == Kind::Trailers {
            return malformed("a pseudo-header among trailers");
        }
        if self.regular {
            return malformed("a pseudo-header behind other fields");
        }
        let twice = match (self.kind, name) {
            (Kind::Request, b"method") => {
                self.head.method = match value {
                    b"HEAD" => Method::Head,
                    b"CONNECT" => Method::Connect,
                    _ => Method::Other,
                };
                std::mem::replace(&mut self.has_method, true)
            }
            (Kind::Request, b"scheme") => {
                let http =
                    value.eq_ignore_ascii_case(b"https") || value.eq_ignore_ascii_case(b"http");
                let scheme = if http { Scheme::Http } else { Scheme::Other };
                self.scheme.replace(scheme).is_some()
            }
            (Kind::Request, b"authority") => {
                if value.is_empty() {
                    return malformed(":authority is empty");
                }
                if value.contains(&b'@') {
                    return malformed("a user name in :authority");
                }
                std::mem::replace(&mut self.has_authority, true)
            }
            (Kind::Request, b"path") => {
                let path = match value {
                    [b'/', ..] => Path::Absolute,
                    b"*" => Path::Asterisk { allowed: false },
                    _ => Path::Other,
                };
                self.path.replace(path).is_some()
            }
            (Kind::Request, b"protocol") => std::mem::replace(&mut self.has_protocol, true),
            (Kind::Response, b"status") => {
                let [
                    hundreds @ b'1'..=b'9',
                    tens @ b'0'..=b'9',
                    ones @ b'0'..=b'9',
                ] = value
                else {
                    return malformed(":status is no number of three digits");
                };
                let digit = |byte: u8| u16::from(byte - b'0');
                self.head.status = digit(*hundreds) * 100 + digit(*tens) * 10 + digit(*ones);
                std::mem::replace(&mut self.has_status, true)
            }
            _ => return malformed("a pseudo-header that does not belong here"),
        };
        if twice { TWICE } else { Ok(()) }
    }

    fn content_length(&mut self, value: &[u8]) -> Checked {
        let number = std::str::from_utf8(value)
            .ok()
            .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
            .and_then(|text| text.parse::<u64>().ok());
        if number.is_none() {
            return malformed("content-length is no number");
        }
        if self.kind == Kind::Trailers {
            // Says nothing there. RFC 9110 s6.5.1.
            return Ok(());
        }
        match self.head.content_length {
            Some(_) if self.head.content_length != number => malformed("two content-lengths"),
            _ => {
                self.head.content_length = number;
                Ok(())
            }
        }
    }

    /// RFC 9114 s4.3.1, s4.4.
    fn check_request(&self) -> Checked {
        if !self.has_method {
            return malformed("no :method");
        }
        let connect = self.head.method == Method::Connect;
        if connect && !self.has_protocol {
            return match (self.has_authority, self.scheme, self.path) {
                (true, None, None) => Ok(()),
                (false, ..) => malformed("CONNECT without :authority"),
                _ => malformed("CONNECT with :scheme or :path"),
            };
        }
        if self.has_protocol && !connect {
            return malformed(":protocol without CONNECT");
        }
        let Some(scheme) = self.scheme else {
            return malformed("no :scheme");
        };
        let Some(path) = self.path else {
            return malformed("no :path");
        };
        if scheme == Scheme::Http {
            if matches!(path, Path::Other | Path::Asterisk { allowed: false }) {
                return malformed(":path does not begin with a slash");
            }
            if !self.has_authority && !self.has_host {
                return malformed("neither :authority nor host");
            }
        }
        Ok(())
    }
}

/// A token without capitals. RFC 9110 s5.6.2, RFC 9114 s4.2.
fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Names and values as literals.
    fn section(fields: &[(&str, &str)]) -> Vec<u8> {
        let mut bytes = vec![0, 0];
        for (name, value) in fields {
            assert!(name.len() < 100 && value.len() < 100);
            if name.len() < 7 {
                bytes.push(0x20 | name.len() as u8);
            } else {
                bytes.extend([0x27, name.len() as u8 - 7]);
            }
            bytes.extend(name.as_bytes());
            bytes.push(value.len() as u8);
            bytes.extend(value.as_bytes());
        }
        bytes
    }

    const GET: [(&str, &str); 4] = [
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "a"),
        (":path", "/"),
    ];

    fn get_and(more: &[(&str, &str)]) -> Result<Head, Refused> {
        request(&section(&[&GET, more].concat()))
    }

    fn get_without(name: &str) -> Vec<(&'static str, &'static str)> {
        GET.into_iter().filter(|field| field.0 != name).collect()
    }

    #[test]
    fn good_requests() {
        let other = Head::default();
        assert_eq!(get_and(&[]), Ok(other));
        assert_eq!(get_and(&[("te", "trailers"), ("x", "")]), Ok(other));
        let length = get_and(&[("content-length", "12"), ("content-length", "12")]);
        assert_eq!(length.unwrap().content_length, Some(12));
        let mut fields = get_without(":authority");
        fields.push(("host", "a"));
        assert_eq!(request(&section(&fields)), Ok(other));
        let options = [
            (":path", "*"),
            (":method", "OPTIONS"),
            (":scheme", "https"),
            (":authority", "a"),
        ];
        assert_eq!(request(&section(&options)), Ok(other));
        // Other schemes have rules of their own.
        let urn = [(":method", "GET"), (":scheme", "urn"), (":path", "x")];
        assert_eq!(request(&section(&urn)), Ok(other));
        let connect = [(":method", "CONNECT"), (":authority", "a:1")];
        let connected = request(&section(&connect)).unwrap();
        assert_eq!(connected.method, Method::Connect);
        let mut extended = get_without(":method");
        extended.extend([(":method", "CONNECT"), (":protocol", "websocket")]);
        assert!(request(&section(&extended)).is_ok());
    }

    #[test]
    fn malformed_requests() {
        for name in [":method", ":scheme", ":authority", ":path"] {
            let without = request(&section(&get_without(name)));
            assert!(matches!(without, Err(Refused::Malformed(_))), "{name}");
        }
        for more in [
            &[(":method", "GET")][..],
            &[(":path", "/")],
            &[(":scheme", "https")],
            &[(":authority", "a")],
            &[(":status", "200")],
            &[(":unknown", "x")],
            &[(":protocol", "websocket")],
            &[(":", "")],
            &[("", "")],
            &[("X", "y")],
            &[("a b", "y")],
            &[("x", "a\0b")],
            &[("x", "a\nb")],
            &[("connection", "close")],
            &[("keep-alive", "1")],
            &[("proxy-connection", "x")],
            &[("transfer-encoding", "chunked")],
            &[("upgrade", "x")],
            &[("te", "gzip")],
            &[("te", "trailers, gzip")],
            &[("content-length", "")],
            &[("content-length", "+1")],
            &[("content-length", "1, 1")],
            &[("content-length", "99999999999999999999")],
            &[("content-length", "1"), ("content-length", "2")],
            &[("host", "")],
        ] {
            assert!(
                matches!(get_and(more), Err(Refused::Malformed(_))),
                "{more:?}"
            );
        }
        for (name, value) in [
            (":path", ""),
            (":path", "x"),
            (":path", "*"),
            (":authority", ""),
            (":authority", "u@a"),
        ] {
            let mut fields = get_without(name);
            fields.push((name, value));
            let told = request(&section(&fields));
            assert!(matches!(told, Err(Refused::Malformed(_))), "{name}={value}");
        }
        // Pseudo-headers come first.
        let mut late = get_without(":path");
        late.extend([("x", "y"), (":path", "/")]);
        let told = request(&section(&late));
        assert!(matches!(told, Err(Refused::Malformed(_))));
        let connect = [(":method", "CONNECT"), (":authority", "a"), (":path", "/")];
        let told = request(&section(&connect));
        assert!(matches!(told, Err(Refused::Malformed(_))));
    }

    #[test]
    fn responses() {
        let head = response(&section(&[(":status", "206"), ("content-length", "5")])).unwrap();
        assert_eq!((head.status, head.content_length), (206, Some(5)));
        assert!(!head.is_interim() && !head.may_lack_body(Method::Other));
        assert!(head.may_lack_body(Method::Head));
        let head = response(&section(&[(":status", "103")])).unwrap();
        assert!(head.is_interim());
        for fields in [
            &[][..],
            &[("x", "y")],
            &[("x", "y"), (":status", "200")],
            &[(":status", "200"), (":status", "200")],
            &[(":status", "20")],
            &[(":status", "099")],
            &[(":status", "2000")],
            &[(":status", "OK!")],
            &[(":status", "200"), (":path", "/")],
            &[(":status", "200"), ("connection", "close")],
            &[(":status", "200"), ("te", "trailers")],
            &[(":status", "200"), ("Server", "x")],
        ] {
            let told = response(&section(fields));
            assert!(matches!(told, Err(Refused::Malformed(_))), "{fields:?}");
        }
    }

    #[test]
    fn trailer_sections() {
        assert_eq!(trailers(&section(&[("checksum", "x")])), Ok(()));
        for fields in [
            (":path", "/"),
            (":status", "200"),
            ("upgrade", "x"),
            ("A", ""),
        ] {
            let told = trailers(&section(&[fields]));
            assert!(matches!(told, Err(Refused::Malformed(_))), "{fields:?}");
        }
    }

    /// What cannot be decoded ends the connection, though the beginning is malformed.
    #[test]
    fn undecodable_goes_first() {
        let mut bytes = section(&[("X", "y")]);
        bytes.push(0x80);
        assert_eq!(request(&bytes), Err(Refused::Undecodable));
    }

    proptest! {
        #[test]
        fn any_bytes_do_no_harm(section in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = (request(&section), response(&section), trailers(&section));
        }
    }
}
