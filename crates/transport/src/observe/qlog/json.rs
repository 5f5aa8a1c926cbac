//! Just enough JSON to write qlog records. No value can make the output malformed.

/// Writes one JSON object after the other into a buffer.
///
/// Commas are set by looking at the last byte, so that callers only say what they mean.
pub(super) struct Json<'a>(pub(super) &'a mut Vec<u8>);

impl Json<'_> {
    fn separate(&mut self) {
        if !matches!(self.0.last(), None | Some(b'{' | b'[' | b':' | b'\x1e')) {
            self.0.push(b',');
        }
    }

    /// `"name":`
    pub(super) fn key(&mut self, name: &str) -> &mut Self {
        self.separate();
        string(self.0, name);
        self.0.push(b':');
        self
    }

    /// `{ ... }`
    pub(super) fn object(&mut self, fill: impl FnOnce(&mut Json<'_>)) {
        self.separate();
        self.0.push(b'{');
        fill(&mut Json(self.0));
        self.0.push(b'}');
    }

    /// `[ ... ]`
    pub(super) fn array(&mut self, fill: impl FnOnce(&mut Json<'_>)) {
        self.separate();
        self.0.push(b'[');
        fill(&mut Json(self.0));
        self.0.push(b']');
    }

    pub(super) fn str(&mut self, value: &str) {
        self.separate();
        string(self.0, value);
    }

    pub(super) fn bool(&mut self, value: bool) {
        self.separate();
        self.0
            .extend_from_slice(if value { b"true" } else { b"false" });
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.separate();
        digits(self.0, value, 1);
    }

    /// Not-finite values become `null`: JSON has none.
    pub(super) fn f64(&mut self, value: f64) {
        self.separate();
        if value.is_finite() {
            self.0.extend_from_slice(format!("{value}").as_bytes());
        } else {
            self.0.extend_from_slice(b"null");
        }
    }

    /// Nanoseconds as milliseconds with six decimals, exact.
    pub(super) fn millis(&mut self, nanos: u64) {
        self.separate();
        digits(self.0, nanos / 1_000_000, 1);
        self.0.push(b'.');
        digits(self.0, nanos % 1_000_000, 6);
    }

    /// Bytes as a string of hexadecimal digits.
    pub(super) fn hex(&mut self, bytes: &[u8]) {
        self.separate();
        self.0.push(b'"');
        for byte in bytes {
            self.0.push(hex_digit(byte >> 4));
            self.0.push(hex_digit(byte & 15));
        }
        self.0.push(b'"');
    }
}

fn hex_digit(value: u8) -> u8 {
    if value < 10 {
        b'0' + value
    } else {
        b'a' + (value - 10)
    }
}

/// At least `width` digits.
fn digits(out: &mut Vec<u8>, mut value: u64, width: usize) {
    let mut buffer = [b'0'; 20];
    let mut used = 0;
    for place in buffer.iter_mut().rev() {
        if value == 0 && used >= width {
            break;
        }
        *place = b'0' + (value % 10) as u8;
        value /= 10;
        used += 1;
    }
    out.extend_from_slice(buffer.get(buffer.len() - used..).unwrap_or(b"0"));
}

fn string(out: &mut Vec<u8>, value: &str) {
    out.push(b'"');
    for byte in value.bytes() {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0..=0x1f | 0x7f => {
                out.extend_from_slice(b"\\u00");
                out.push(hex_digit(byte >> 4));
                out.push(hex_digit(byte & 15));
            }
            // UTF-8 passes through.
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(fill: impl FnOnce(&mut Json<'_>)) -> String {
        let mut out = Vec::new();
        fill(&mut Json(&mut out));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn commas_stand_between_values_only() {
        let json = written(|j| {
            j.object(|j| {
                j.key("a").u64(1);
                j.key("b").array(|j| {
                    j.u64(0);
                    j.object(|_| {});
                    j.object(|j| j.key("c").bool(true));
                });
                j.key("d").str("x,");
            });
        });
        assert_eq!(json, r#"{"a":1,"b":[0,{},{"c":true}],"d":"x,"}"#);
    }

    #[test]
    fn strings_are_escaped() {
        let json = written(|j| j.str("a\"b\\c\n\u{1}\u{7f}é"));
        assert_eq!(json, "\"a\\\"b\\\\c\\n\\u0001\\u007fé\"");
    }

    #[test]
    fn numbers() {
        assert_eq!(written(|j| j.u64(u64::MAX)), "18446744073709551615");
        assert_eq!(written(|j| j.u64(0)), "0");
        assert_eq!(written(|j| j.millis(1_000_001)), "1.000001");
        assert_eq!(written(|j| j.millis(999)), "0.000999");
        assert_eq!(written(|j| j.f64(f64::NAN)), "null");
        assert_eq!(written(|j| j.f64(0.5)), "0.5");
        assert_eq!(written(|j| j.hex(&[0, 0xab])), "\"00ab\"");
    }
}
