//! Adaptive video: segments of a ladder of representations, fetched one after the other into a
//! player's buffer, in the manner of DASH.
//!
//! Owns: [`Video`], [`Representation`], the client. Does not own: the player (`playback.rs`), the
//! choice of representations (`rule.rs`), the score (`score.rs`), requests and answers (`fetch`).

mod playback;
mod rule;
mod score;

use std::time::Duration;

use playback::Playback;
use rule::Chooser;
pub use rule::Rule;
use score::{Shown, Watched};
use serde::{Deserialize, Serialize};
use tautline_transport::{
    rng::Rng,
    time::{Instant, earliest},
    units::Rate,
};

use super::{
    Problem, Program, amount,
    fetch::{Answered, Ask, Asker, Responder},
};
use crate::{
    outcome::Outcome,
    quantity::{Share, Span},
    session::{Half, Happening, Session},
};

/// No video has more segments.
const MAX_SEGMENTS: u128 = 100_000;
/// How often a player that waits or plays looks at the clock, so that a video cut off by the end of
/// its flow is accounted for up to then.
const TICK: Duration = Duration::from_secs(1);

/// Heights of pictures, with the column of each one's share.
const HEIGHTS: [(u32, &str); 9] = [
    (144, "video_share_144p"),
    (240, "video_share_240p"),
    (360, "video_share_360p"),
    (432, "video_share_432p"),
    (480, "video_share_480p"),
    (720, "video_share_720p"),
    (1080, "video_share_1080p"),
    (1440, "video_share_1440p"),
    (2160, "video_share_2160p"),
];

/// A video that is watched while it loads. An item is a segment, wanted when it was asked for.
///
/// Columns of the client: `video_startup_s`, from the first request to the first moving picture
/// (missing when none moved); `video_stalls` and `video_stall_s`, how often and how long in all
/// pictures stood still after that; `video_played_s`, seconds of media shown; and of these seconds
/// `video_switches` (changes of representation), `video_bitrate_bps` (mean of the ladder's bit
/// rates), `video_share_<lines>p` (share by resolution, one column for each of the ladder) and
/// `video_score` (1 to 5, in the style of ITU-T P.1203, on a display of 1920x1080 or of the largest
/// picture of the ladder; the formula stands in `score.rs`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Video {
    /// Representations by rising bit rate, at most 20. Default: 426x240 at 0.4 Mb/s, 640x360 at
    /// 0.8, 854x480 at 1.4, 1280x720 at 2.8, 1920x1080 at 5.
    pub ladder: Vec<Representation>,
    /// Media time in all. Default 120 s.
    pub duration: Span,
    /// Media time of a segment, 0.1 to 60 s. Default 4 s.
    pub segment: Span,
    /// Media time that must be loaded before pictures move, at the start and after a stall; at
    /// most `max_buffer` less a segment. Default 4 s.
    pub startup: Span,
    /// Media time that is loaded ahead at most. Default 30 s.
    pub max_buffer: Span,
    /// How representations are chosen. Default `throughput`.
    pub rule: Rule,
    /// How much the bytes of segments vary around bit rate x time: uniformly by up to this share,
    /// by seed, for a segment of every representation alike. At most 0.9. Default 0.25.
    pub variation: Share,
    /// Frames per second. Default 24.
    pub frame_rate: f64,
}

/// An encoding of the video.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Representation {
    /// Width of a picture in pixels.
    pub width: u32,
    /// Height of a picture: 144, 240, 360, 432, 480, 720, 1080, 1440 or 2160.
    pub height: u32,
    /// Mean bits per second.
    #[serde(with = "amount::rate")]
    pub bitrate: Rate,
}

impl Representation {
    /// Of this size, at so many kilobits per second.
    pub fn new(width: u32, height: u32, kilobits: u64) -> Self {
        Self {
            width,
            height,
            bitrate: Rate::from_bits_per_second(kilobits * 1000),
        }
    }

    fn pixels(self) -> f64 {
        f64::from(self.width) * f64::from(self.height)
    }

    fn bits_per_second(self) -> f64 {
        self.bitrate.bits_per_second() as f64
    }
}

impl Default for Video {
    fn default() -> Self {
        Self {
            ladder: vec![
                Representation::new(426, 240, 400),
                Representation::new(640, 360, 800),
                Representation::new(854, 480, 1_400),
                Representation::new(1280, 720, 2_800),
                Representation::new(1920, 1080, 5_000),
            ],
            duration: Span::seconds(120),
            segment: Span::seconds(4),
            startup: Span::seconds(4),
            max_buffer: Span::seconds(30),
            rule: Rule::default(),
            variation: Share(0.25),
            frame_rate: 24.0,
        }
    }
}

impl Video {
    fn segments(&self) -> u128 {
        let each = self.segment.0.as_nanos().max(1);
        self.duration.0.as_nanos().div_ceil(each)
    }

    fn check_ladder(&self) -> Result<(), Problem> {
        let field = |index: usize, name: &str| format!("ladder[{index}].{name}");
        if self.ladder.is_empty() || self.ladder.len() > 20 {
            let reason = format!("{} representations are not 1 to 20", self.ladder.len());
            return Err(("ladder".to_owned(), reason));
        }
        let mut last = 0;
        for (index, step) in self.ladder.iter().enumerate() {
            if !(1..=16_384).contains(&step.width) {
                let reason = format!("{} is not between 1 and 16384", step.width);
                return Err((field(index, "width"), reason));
            }
            if !HEIGHTS.iter().any(|(height, _)| *height == step.height) {
                let known = HEIGHTS.map(|(height, _)| height.to_string()).join(", ");
                let reason = format!("{} is none of {known}", step.height);
                return Err((field(index, "height"), reason));
            }
            let bits = step.bitrate.bits_per_second();
            if bits <= last || bits > 1_000_000_000 {
                let reason = "bit rates rise from step to step, up to 1 Gb/s".to_owned();
                return Err((field(index, "bitrate"), reason));
            }
            last = bits;
        }
        Ok(())
    }
}

impl Program for Video {
    fn client(&self, seed: u64) -> Box<dyn Half> {
        Box::new(Client::new(self.clone(), seed))
    }

    fn server(&self, _seed: u64) -> Box<dyn Half> {
        Box::<Responder>::default()
    }

    fn volume(&self, _seed: u64) -> Option<u64> {
        let most = self.ladder.iter().map(|step| step.bits_per_second());
        let most = most.fold(0.0, f64::max) / 8.0 * (1.0 + self.variation.0);
        // A segment is asked for again whose answer was cut short: once each.
        Some((2.0 * most * self.duration.0.as_secs_f64()) as u64)
    }

    fn validate(&self) -> Result<(), Problem> {
        let wrong = |field: &str, reason: String| Err((field.to_owned(), reason));
        self.check_ladder()?;
        let (shortest, longest) = (Duration::from_millis(100), Duration::from_secs(60));
        if self.segment.0 < shortest || self.segment.0 > longest {
            return wrong("segment", "is not between 100 ms and 60 s".to_owned());
        }
        if !(1..=MAX_SEGMENTS).contains(&self.segments()) {
            return wrong("duration", format!("is not 1 to {MAX_SEGMENTS} segments"));
        }
        if self.startup.0.saturating_add(self.segment.0) > self.max_buffer.0 {
            let reason = "`startup` and one `segment` do not fit".to_owned();
            return wrong("max_buffer", reason);
        }
        if self.variation.0 > 0.9 {
            return wrong("variation", format!("{} is above 0.9", self.variation.0));
        }
        if !(1.0..=240.0).contains(&self.frame_rate) {
            return wrong("frame_rate", "is not between 1 and 240".to_owned());
        }
        Ok(())
    }
}

struct Client {
    plan: Video,
    /// By segment: its bytes over bit rate x time.
    sizes: Vec<f64>,
    /// By segment asked for: its representation.
    chosen: Vec<usize>,
    chooser: Chooser,
    /// From the first request on.
    playback: Option<(Instant, Playback)>,
    loading: bool,
    closed: bool,
    asker: Asker,
}

impl Client {
    fn new(plan: Video, seed: u64) -> Self {
        let mut rng = Rng::from_u64(seed);
        let segments = plan.segments().min(MAX_SEGMENTS) as usize;
        let variation = plan.variation.0;
        let mut size = |_| 1.0 - variation + 2.0 * variation * rng.unit_f64();
        let ladder = plan.ladder.iter().map(|step| step.bits_per_second());
        Self {
            sizes: (0..segments).map(&mut size).collect(),
            chosen: Vec::new(),
            chooser: Chooser::new(
                plan.rule,
                ladder.collect(),
                plan.segment.0,
                plan.max_buffer.0,
            ),
            playback: None,
            loading: false,
            closed: false,
            asker: Asker::default(),
            plan,
        }
    }

    /// Media time of a segment; the last one has what is left.
    fn media(&self, segment: usize) -> Duration {
        let before = self.plan.segment.0.saturating_mul(segment as u32);
        let left = self.plan.duration.0.saturating_sub(before);
        self.plan.segment.0.min(left)
    }

    /// Media time up to which another segment fits into the buffer.
    fn room_below(&self) -> Duration {
        self.plan.max_buffer.0.saturating_sub(self.plan.segment.0)
    }

    /// Asks for the next segment if there is one, and room.
    fn load(&mut self, session: &mut dyn Session) {
        let Some((_, playback)) = &self.playback else {
            return;
        };
        let segment = self.chosen.len();
        let buffered = playback.buffered();
        if self.loading || segment == self.sizes.len() || buffered > self.room_below() {
            return;
        }
        let step = self.chooser.choose(buffered);
        self.chosen.push(step);
        self.ask(session, segment, step);
    }

    fn ask(&mut self, session: &mut dyn Session, segment: usize, step: usize) {
        let (Some(step), Some(size)) = (self.plan.ladder.get(step), self.sizes.get(segment)) else {
            return;
        };
        let media = self.media(segment).as_secs_f64();
        let bytes = step.bits_per_second() / 8.0 * media * size;
        self.loading = true;
        let ask = Ask {
            answer_bytes: bytes.round() as u64,
            ..Ask::default()
        };
        self.asker.ask(session, ask);
    }

    fn answered(&mut self, session: &mut dyn Session, answered: Answered) {
        self.loading = false;
        let segment = self.chosen.len().saturating_sub(1);
        if !answered.complete {
            // Asked for again, as it is.
            if let Some(&step) = self.chosen.last() {
                self.ask(session, segment, step);
            }
            return;
        }
        if let Some(item) = self.asker.outcome.items.get(answered.item)
            && let Some(took) = item.duration()
        {
            self.chooser.measure(item.bytes, took);
        }
        let media = self.media(segment);
        if let Some((_, playback)) = &mut self.playback {
            playback.load(session.now(), media);
        }
        self.load(session);
    }

    fn tick(&mut self, session: &mut dyn Session) {
        let Some((_, playback)) = &mut self.playback else {
            return;
        };
        playback.advance(session.now());
        if playback.is_over() {
            if self.asker.outcome.finished.is_none() {
                self.asker.outcome.finished = Some(session.now());
                self.closed = true;
                session.close();
            }
        } else {
            self.load(session);
        }
    }

    /// What was shown, and of which step of the ladder.
    fn shown(&self, position: Duration) -> Vec<(usize, Shown)> {
        let mut left = position;
        let mut shown = Vec::new();
        for (segment, &index) in self.chosen.iter().enumerate() {
            let seconds = self.media(segment).min(left);
            left -= seconds;
            let Some(step) = self.plan.ladder.get(index).filter(|_| !seconds.is_zero()) else {
                break;
            };
            let stretch = Shown {
                seconds: seconds.as_secs_f64(),
                bitrate: step.bits_per_second(),
                pixels: step.pixels(),
            };
            shown.push((index, stretch));
        }
        shown
    }

    fn measure(&self, began: Instant, playback: &Playback, outcome: &mut Outcome) {
        let shown = self.shown(playback.position());
        let seconds = playback.position().as_secs_f64();
        let stalls: Vec<(f64, f64)> = playback
            .stalls()
            .iter()
            .map(|stall| (stall.position.as_secs_f64(), stall.length.as_secs_f64()))
            .collect();
        let extra = &mut outcome.extra;
        if let Some(started) = playback.started() {
            let startup = started.saturating_since(began).as_secs_f64();
            extra.insert("video_startup_s", startup);
        }
        extra.insert("video_stalls", stalls.len() as f64);
        let stood = stalls.iter().fold(0.0, |sum, stall| sum + stall.1);
        extra.insert("video_stall_s", stood);
        extra.insert("video_played_s", seconds);
        let switches = shown.windows(2).filter(|pair| pair[0].0 != pair[1].0);
        extra.insert("video_switches", switches.count() as f64);
        let whole = seconds.max(f64::MIN_POSITIVE);
        let bits = shown
            .iter()
            .fold(0.0, |sum, (_, it)| sum + it.seconds * it.bitrate);
        extra.insert("video_bitrate_bps", bits / whole);
        for (height, column) in HEIGHTS {
            let of_height = |index: usize| {
                let step = self.plan.ladder.get(index);
                step.is_some_and(|step| step.height == height)
            };
            if (0..self.plan.ladder.len()).any(of_height) {
                let those = shown.iter().filter(|(index, _)| of_height(*index));
                let seconds = those.fold(0.0, |sum, (_, it)| sum + it.seconds);
                extra.insert(column, seconds / whole);
            }
        }
        let largest = self.plan.ladder.iter().map(|step| step.pixels());
        let shown: Vec<Shown> = shown.into_iter().map(|(_, it)| it).collect();
        let watched = Watched {
            shown: &shown,
            initial_delay: extra.get("video_startup_s").copied().unwrap_or(0.0),
            stalls: &stalls,
            display: largest.fold(1920.0 * 1080.0, f64::max),
            frame_rate: self.plan.frame_rate,
        };
        extra.insert("video_score", watched.score());
    }
}

impl Half for Client {
    fn on(&mut self, session: &mut dyn Session, happening: Happening) {
        let connected = happening == Happening::Connected;
        if matches!(happening, Happening::Closed(_)) {
            self.closed = true;
            if let Some((_, playback)) = &mut self.playback {
                playback.advance(session.now());
            }
        }
        if let Some(answered) = self.asker.on(session, happening) {
            self.answered(session, answered);
        }
        if connected {
            let now = session.now();
            let playback = Playback::new(self.plan.duration.0, self.plan.startup.0, now);
            self.playback = Some((now, playback));
            self.load(session);
        }
    }

    fn on_timer(&mut self, session: &mut dyn Session) {
        self.tick(session);
    }

    fn poll_timer(&self) -> Option<Instant> {
        let (_, playback) = self.playback.as_ref().filter(|_| !self.closed)?;
        // The end, room for another segment, or just time.
        let levels = [Duration::ZERO, self.room_below()];
        let falls = levels.map(|level| playback.falls_to(level));
        let next = falls.into_iter().flatten().filter(|at| *at > playback.at());
        earliest(next.min(), Some(playback.at() + TICK))
    }

    fn received_bytes(&self) -> u64 {
        self.asker.outcome.received_bytes
    }

    fn is_over(&self) -> bool {
        self.asker.outcome.finished.is_some() || self.asker.outcome.error.is_some()
    }

    fn outcome(&self) -> Outcome {
        let mut outcome = self.asker.outcome.clone();
        if let Some((began, playback)) = &self.playback {
            self.measure(*began, playback, &mut outcome);
        }
        outcome
    }
}

#[cfg(test)]
mod tests;
