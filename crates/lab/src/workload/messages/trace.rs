//! When an application hands over how much: traces of messages.
//!
//! Owns: [`Trace`], [`Frame`], the synthetic traces, the CSV format. Does not own: how messages
//! travel.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use tautline_sim::parse_duration;
use tautline_transport::rng::Rng;

use super::HEAD_BYTES;
use crate::{
    quantity::Span,
    workload::{
        Problem,
        amount::Amount,
        file::{Fault, Parse, PlanFile},
    },
};

/// No trace has more messages.
pub(super) const MAX_FRAMES: usize = 1_000_000;
/// No message is longer: 1 GB.
const MAX_BYTES: u64 = 1_000_000_000;

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// When the application hands it over, counted from the first one's time.
    pub at: Duration,
    /// Application bytes.
    pub bytes: u64,
    /// How long after `at` it is of use, if that matters.
    pub deadline: Option<Duration>,
}

/// Which messages, and when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trace {
    /// 25 messages a second of 5 to 25 kB (uniform, by seed) for two minutes: 3 Mb/s. The
    /// measurements of Starlink were made with such messages.
    Starlink,
    /// A synthetic video conference of 86 s: 15 frames a second for 6 s, then 30. A frame of 20 to
    /// 70 kB (uniform) at the start and every 2 s, the others of 400 to 6000 bytes: 55 % of them
    /// up to 1200 bytes, the rest above (each part uniform), by seed. Deadline 250 ms. These sizes
    /// come to 0.65 Mb/s; with `scale = 5.0` the same pattern has 3.2 Mb/s.
    VideoConference,
    /// Messages at one interval.
    Constant(Constant),
    /// A CSV file of `time_ms,bytes[,deadline_ms]`, one message a line, in order of time, times
    /// and deadlines in decimal milliseconds. A first line that begins with `time_ms` is a
    /// heading; empty lines and lines that begin with `#` say nothing.
    File(PlanFile<Frames>),
}

/// Messages at one interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Constant {
    /// Time between two messages.
    pub every: Span,
    /// Application bytes of each, fixed or drawn for each.
    pub bytes: Amount,
    /// How many messages. Default 1000, at most 1,000,000.
    #[serde(default = "thousand")]
    pub count: u32,
}

const fn thousand() -> u32 {
    1000
}

impl Trace {
    /// The messages. `seed` decides what is random in them.
    ///
    /// # Errors
    /// When the trace is a file that was not read.
    pub fn frames(&self, seed: u64) -> Result<Arc<[Frame]>, String> {
        let mut rng = Rng::from_u64(seed);
        Ok(match self {
            Self::Starlink => regular(Duration::from_millis(40), 3000, || {
                Amount::between(5_000, 25_000).draw(&mut rng)
            }),
            Self::VideoConference => video_conference(&mut rng),
            Self::Constant(constant) => regular(constant.every.0, constant.count, || {
                constant.bytes.draw(&mut rng)
            }),
            Self::File(file) => Arc::clone(&file.get()?.0),
        })
    }

    pub(super) fn validate(&self) -> Result<(), Problem> {
        let Self::Constant(constant) = self else {
            return Ok(());
        };
        let wrong = |field: &str, reason: String| Err((format!("trace.constant.{field}"), reason));
        constant.bytes.check("trace.constant.bytes")?;
        if constant.every.0.is_zero() {
            return wrong("every", "the interval is zero".to_owned());
        }
        if constant.count == 0 || constant.count as usize > MAX_FRAMES {
            let reason = format!("{} is not between 1 and {MAX_FRAMES}", constant.count);
            return wrong("count", reason);
        }
        if constant.bytes.min() < HEAD_BYTES as u64 || constant.bytes.max() > MAX_BYTES {
            let reason = format!(
                "a message has {HEAD_BYTES} B to {} MB",
                MAX_BYTES / 1_000_000
            );
            return wrong("bytes", reason);
        }
        Ok(())
    }
}

fn regular(every: Duration, count: u32, mut bytes: impl FnMut() -> u64) -> Arc<[Frame]> {
    let frame = |index| Frame {
        at: every.saturating_mul(index),
        bytes: bytes(),
        deadline: None,
    };
    (0..count).map(frame).collect()
}

const SLOW_FRAMES: u32 = 15 * 6;
const FAST_FRAMES: u32 = 30 * 80;

fn video_conference(rng: &mut Rng) -> Arc<[Frame]> {
    let nanos = |slow: u64, fast: u64| slow * 1_000_000_000 / 15 + fast * 1_000_000_000 / 30;
    let mut next_key = Duration::ZERO;
    let mut frame = |index: u32| {
        let (slow, fast) = (index.min(SLOW_FRAMES), index.saturating_sub(SLOW_FRAMES));
        let at = Duration::from_nanos(nanos(slow.into(), fast.into()));
        let bytes = if at >= next_key {
            next_key += Duration::from_secs(2);
            Amount::between(20_000, 70_000)
        } else if rng.chance(0.55) {
            Amount::between(400, 1_200)
        } else {
            Amount::between(1_201, 6_000)
        };
        Frame {
            at,
            bytes: bytes.draw(rng),
            deadline: Some(Duration::from_millis(250)),
        }
    };
    (0..SLOW_FRAMES + FAST_FRAMES).map(&mut frame).collect()
}

/// The messages of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frames(pub Arc<[Frame]>);

impl Parse for Frames {
    const MAX_BYTES: u64 = 64 << 20;

    fn parse(content: &[u8]) -> Result<Self, Fault> {
        let mut frames: Vec<Frame> = Vec::new();
        for (number, line) in content.split(|byte| *byte == b'\n').enumerate() {
            let number = number + 1;
            let line =
                std::str::from_utf8(line).map_err(|_| Fault::at(number, "is not UTF-8 text"))?;
            let line = line.trim();
            let heading = frames.is_empty() && line.starts_with("time_ms");
            if line.is_empty() || line.starts_with('#') || heading {
                continue;
            }
            let frame = frame(line).map_err(|reason| Fault::at(number, reason))?;
            if frames.last().is_some_and(|last| last.at > frame.at) {
                return Err(Fault::at(number, "is earlier than the line before"));
            }
            if frames.len() == MAX_FRAMES {
                return Err(Fault::at(
                    number,
                    format!("more than {MAX_FRAMES} messages"),
                ));
            }
            frames.push(frame);
        }
        if frames.is_empty() {
            return Err(Fault::whole(
                "has no message: lines are time_ms,bytes[,deadline_ms]",
            ));
        }
        Ok(Self(frames.into()))
    }
}

fn frame(line: &str) -> Result<Frame, String> {
    let mut fields = line.split(',').map(str::trim);
    let millis = |name: &str, text: &str| {
        parse_duration(&format!("{text} ms"))
            .map_err(|_| format!("{name} {text:?} is not a number of milliseconds"))
    };
    let at = millis("time_ms", fields.next().unwrap_or_default())?;
    let bytes = fields
        .next()
        .ok_or("has no second field, the number of bytes")?;
    let deadline = match fields.next() {
        None | Some("") => None,
        Some(text) => Some(millis("deadline_ms", text)?),
    };
    if fields.next().is_some() {
        return Err("has more fields than time_ms,bytes,deadline_ms".to_owned());
    }
    let bytes = bytes
        .parse::<u64>()
        .ok()
        .filter(|bytes| (HEAD_BYTES as u64..=MAX_BYTES).contains(bytes))
        .ok_or_else(|| {
            format!("bytes {bytes:?} is not a whole number between {HEAD_BYTES} and {MAX_BYTES}")
        })?;
    Ok(Frame {
        at,
        bytes,
        deadline,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn megabits(frames: &[Frame], seconds: f64) -> f64 {
        frames.iter().map(|frame| frame.bytes).sum::<u64>() as f64 * 8e-6 / seconds
    }

    #[test]
    fn the_video_conference_has_the_stated_shape() {
        for seed in 0..20 {
            let frames = Trace::VideoConference.frames(seed).expect("synthetic");
            let (slow, fast) = frames.split_at(90);
            assert_eq!(fast.len(), 2400);
            assert!(slow.iter().all(|frame| frame.at < Duration::from_secs(6)));
            assert_eq!(fast[0].at, Duration::from_secs(6));
            let step = |frames: &[Frame]| {
                let span = frames[frames.len() - 1].at - frames[0].at;
                span / (frames.len() as u32 - 1)
            };
            assert_eq!(step(slow).as_micros(), 66_666);
            assert_eq!(step(fast).as_micros(), 33_333);
            assert!(frames[2489].at < Duration::from_secs(86));
            assert!(frames[2489].at > Duration::from_millis(85_900));

            let (keys, others): (Vec<Frame>, Vec<Frame>) =
                frames.iter().partition(|frame| frame.bytes > 6_000);
            assert_eq!(keys.len(), 43);
            for (index, key) in keys.iter().enumerate() {
                assert!((20_000..=70_000).contains(&key.bytes));
                let late = key.at - Duration::from_secs(2 * index as u64);
                assert!(late < Duration::from_millis(1), "{late:?}");
            }
            assert!(others.iter().all(|frame| frame.bytes >= 400));
            let small = others.iter().filter(|frame| frame.bytes <= 1_200).count();
            let share = small as f64 / others.len() as f64;
            assert!((0.52..0.58).contains(&share), "{share}");
            assert!(
                frames
                    .iter()
                    .all(|f| f.deadline == Some(Duration::from_millis(250)))
            );
            let rate = megabits(&frames, 86.0);
            assert!((0.60..0.70).contains(&rate), "{rate}");
        }
    }

    #[test]
    fn starlink_messages_are_25_a_second_for_two_minutes() {
        let frames = Trace::Starlink.frames(1).expect("synthetic");
        assert_eq!(frames.len(), 25 * 120);
        assert_eq!(frames[25].at, Duration::from_secs(1));
        assert!(frames.iter().all(|f| (5_000..=25_000).contains(&f.bytes)));
        let rate = megabits(&frames, 120.0);
        assert!((2.9..3.1).contains(&rate), "{rate}");
        assert_eq!(Trace::Starlink.frames(1), Ok(frames.clone()));
        assert_ne!(Trace::Starlink.frames(2), Ok(frames));
    }

    #[test]
    fn a_csv_file_is_read_line_by_line() {
        let text = "time_ms,bytes,deadline_ms\n0,1000\r\n# a pause\n\n33.5, 2000 ,250\n33.5,16,\n";
        let frames = Frames::parse(text.as_bytes()).expect("well-formed").0;
        let frame = |micros, bytes, deadline| Frame {
            at: Duration::from_micros(micros),
            bytes,
            deadline,
        };
        let deadline = Some(Duration::from_millis(250));
        assert_eq!(
            *frames,
            [
                frame(0, 1000, None),
                frame(33_500, 2000, deadline),
                frame(33_500, 16, None)
            ]
        );
    }

    #[test]
    fn a_wrong_line_is_named() {
        let line = |text: &str| Frames::parse(text.as_bytes()).expect_err(text).line;
        assert_eq!(line(""), None);
        assert_eq!(line("time_ms,bytes\n"), None);
        for wrong in [
            "1",
            "x,100",
            "-1,100",
            "1,15",
            "1,1e3",
            "1,100,soon",
            "1,100,2,3",
            "1,1000000001",
            "99999999999999999999,100",
        ] {
            assert_eq!(line(&format!("0,100\n{wrong}\n")), Some(2), "{wrong}");
        }
        assert_eq!(line("5,100\n\n4,100"), Some(3));
        assert_eq!(
            Frames::parse(b"0,100\n\xff,1").expect_err("bytes").line,
            Some(2)
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(content in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Frames::parse(&content);
        }

        #[test]
        fn any_text_is_read_or_refused(content in "[0-9,.\n#a ]{0,80}") {
            let _ = Frames::parse(content.as_bytes());
        }
    }
}
