//! The `priority` header field and what it means for streams. RFC 9218.
//!
//! The field is a structured-fields dictionary (RFC 8941) with two known members: `u` (urgency,
//! an integer 0 to 7) and `i` (incremental, a boolean). RFC 9218 s4 wants everything else and
//! every value out of range ignored, and so the parser looks at members one by one and never
//! fails.

use http::{HeaderMap, header::HeaderName};
use tautline::Priority;

/// The `priority` header field. RFC 9218 s5.
pub const PRIORITY: HeaderName = HeaderName::from_static("priority");

/// What a request asks for; the default where it says nothing.
///
/// Several `priority` lines count as one, in order; the last word of a member wins.
pub fn of_headers(headers: &HeaderMap) -> Priority {
    let mut priority = Priority::default();
    for value in headers.get_all(PRIORITY) {
        priority = apply(priority, value.as_bytes());
    }
    priority
}

/// Reads a field value, as it also stands in PRIORITY_UPDATE frames.
///
/// ```
/// use tautline::Priority;
/// let priority = tautline_h3::priority::parse(b"u=5, i");
/// assert_eq!(priority, Priority { urgency: 5, incremental: true });
/// ```
pub fn parse(value: &[u8]) -> Priority {
    apply(Priority::default(), value)
}

/// Writes a field value; empty where everything is at its default.
pub fn format(priority: Priority) -> String {
    let mut members = Vec::new();
    if priority.urgency != Priority::default().urgency {
        members.push(format!("u={}", priority.urgency.min(7)));
    }
    if priority.incremental {
        members.push("i".to_owned());
    }
    members.join(", ")
}

fn apply(mut priority: Priority, value: &[u8]) -> Priority {
    for member in Members(value) {
        let member = member.trim_ascii();
        let (key, value) = match member.iter().position(|b| matches!(b, b'=' | b';')) {
            Some(at) if member.get(at) == Some(&b'=') => {
                let (key, rest) = member.split_at(at);
                (
                    key,
                    Some(without_parameters(rest.get(1..).unwrap_or_default())),
                )
            }
            _ => (without_parameters(member), None),
        };
        match (key, value) {
            (b"u", Some([digit @ b'0'..=b'7'])) => priority.urgency = digit - b'0',
            (b"i", None | Some(b"?1")) => priority.incremental = true,
            (b"i", Some(b"?0")) => priority.incremental = false,
            _ => {}
        }
    }
    priority
}

fn without_parameters(member: &[u8]) -> &[u8] {
    member
        .split(|b| *b == b';')
        .next()
        .unwrap_or_default()
        .trim_ascii()
}

/// Splits a dictionary at its commas, but not at those inside strings and lists.
struct Members<'a>(&'a [u8]);

impl<'a> Iterator for Members<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.0.is_empty() {
            return None;
        }
        let (mut quoted, mut escaped, mut depth) = (false, false, 0_u32);
        let end = self.0.iter().position(|&byte| {
            match byte {
                _ if escaped => escaped = false,
                b'\\' if quoted => escaped = true,
                b'"' => quoted = !quoted,
                _ if quoted => {}
                b'(' => depth += 1,
                b')' => depth = depth.saturating_sub(1),
                b',' => return depth == 0,
                _ => {}
            }
            false
        });
        let (member, rest) = match end {
            Some(at) => (self.0.get(..at)?, self.0.get(at + 1..)?),
            None => (self.0, &[][..]),
        };
        self.0 = rest;
        Some(member)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_what_rfc_9218_defines_and_ignores_the_rest() {
        let of = |urgency, incremental| Priority {
            urgency,
            incremental,
        };
        for (text, expected) in [
            ("", of(3, false)),
            ("u=0", of(0, false)),
            ("u=5, i", of(5, true)),
            ("i,u=7", of(7, true)),
            ("i=?0", of(3, false)),
            ("i=?1;x=2, u=1;q", of(1, true)),
            // Out of range or of another type: ignored (s4).
            ("u=8", of(3, false)),
            ("u=-1, i", of(3, true)),
            ("u=2.0", of(3, false)),
            ("u=\"1\"", of(3, false)),
            ("i=1", of(3, false)),
            // Unknown members, also such that look like known ones inside.
            ("a=\"x, u=1\", b=(1 2, u=0), u=2", of(2, false)),
            ("U=1, ui=2", of(3, false)),
            // The last one wins.
            ("u=1, u=6", of(6, false)),
            (" u=4 ,  i ", of(4, true)),
        ] {
            assert_eq!(parse(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn several_lines_are_one_field() {
        let mut headers = HeaderMap::new();
        headers.append(PRIORITY, "u=1".parse().unwrap());
        headers.append(PRIORITY, "i".parse().unwrap());
        assert_eq!(
            of_headers(&headers),
            Priority {
                urgency: 1,
                incremental: true
            }
        );
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(urgency in 0_u8..8, incremental: bool) {
            let priority = Priority { urgency, incremental };
            prop_assert_eq!(parse(format(priority).as_bytes()), priority);
        }

        #[test]
        fn any_bytes_give_a_legal_priority(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(parse(&bytes).urgency <= 7);
        }
    }
}
