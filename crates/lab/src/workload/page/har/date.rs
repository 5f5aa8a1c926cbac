//! Times as HTTP Archive files write them.

/// Milliseconds since 1970 of an ISO 8601 time with its zone, such as `2026-01-31T12:00:00.5Z` or
/// `2026-01-31T13:00:00+01:00`.
pub(super) fn date_time(text: &str) -> Option<f64> {
    let number = |range: std::ops::Range<usize>| {
        let digits = text.get(range)?;
        let all_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
        all_digits.then(|| digits.parse::<i64>().ok()).flatten()
    };
    let sign = |at: usize, wanted: &[u8]| text.as_bytes().get(at).filter(|b| wanted.contains(b));
    for (at, wanted) in [
        (4, b"-".as_slice()),
        (7, b"-"),
        (10, b"Tt "),
        (13, b":"),
        (16, b":"),
    ] {
        sign(at, wanted)?;
    }
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
    let in_range = (1..=12).contains(&month) && (1..=31).contains(&day);
    if !in_range || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let rest = text.get(19..)?;
    let digits = rest.strip_prefix('.').map_or(0, |rest| {
        1 + rest.bytes().take_while(u8::is_ascii_digit).count()
    });
    let fraction = match digits {
        0 => 0.0,
        _ => format!("0{}", rest.get(..digits)?).parse::<f64>().ok()?,
    };
    let zone = match rest.get(digits..)? {
        "Z" | "z" => 0,
        zone => {
            let at = text.len() - zone.len();
            let sign = if *sign(at, b"+-")? == b'-' { -1 } else { 1 };
            let minutes = match zone.len() {
                6 => sign_minutes(zone, 4)?,
                5 => sign_minutes(zone, 3)?,
                _ => return None,
            };
            sign * (number(at + 1..at + 3)? * 60 + minutes)
        }
    };
    // Days since 1970 by counting from March, so that leap days end years.
    let (years, months) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let days = years * 365 + years.div_euclid(4) - years.div_euclid(100)
        + years.div_euclid(400)
        + (153 * months + 2) / 5
        + day
        - 719_469;
    let seconds = ((days * 24 + hour) * 60 + minute - zone) * 60 + second;
    Some(seconds as f64 * 1e3 + fraction * 1e3)
}

/// The minutes of a zone, from this byte on.
fn sign_minutes(zone: &str, from: usize) -> Option<i64> {
    zone.get(from..)?
        .parse()
        .ok()
        .filter(|it| (0..60).contains(it))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times_are_read_with_their_zone() {
        for (text, millis) in [
            ("1970-01-01T00:00:00Z", 0.0),
            ("1970-01-01T00:00:01.250Z", 1_250.0),
            ("2000-03-01T00:00:00.000Z", 951_868_800_000.0),
            ("2024-02-29T12:00:00.5Z", 1_709_208_000_500.0),
            ("2024-02-29T13:30:00.5+01:30", 1_709_208_000_500.0),
            ("2024-02-29T11:00:00.5-0100", 1_709_208_000_500.0),
        ] {
            assert_eq!(date_time(text), Some(millis), "{text}");
        }
        for bad in [
            "",
            "2024-02-29",
            "2024-02-29T12:00:00",
            "2024-13-01T00:00:00Z",
            "2024-01-01T24:00:00Z",
            "2024-01-01T00:00:00+1",
            "2024-01-01T00:00:00+01:99",
            "2024-01-01T00:00:00.Zx",
            "20é4-01-01T00:00:00Z",
        ] {
            assert_eq!(date_time(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_time_is_read_or_refused(text in "\\PC{0,40}") {
            let _ = date_time(&text);
        }
    }
}
