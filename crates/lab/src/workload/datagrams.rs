//! Unreliable datagrams at a constant bit rate.
//!
//! A datagram begins with its index and the time at which the first one was sent (eight bytes each,
//! big-endian, the latter in nanoseconds of the clock that both ends share). After the last one the
//! sender tells on a stream how many the transport took and refused, with the same time; what has
//! not come a second after that is lost.
//!
//! Owns: [`Datagrams`], the sending and the receiving half.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tautline_transport::{time::Instant, units::Rate};

use super::{
    Direction, End, Problem, Program, amount,
    fetch::{Head, Sink, Source},
};
use crate::{
    outcome::{Item, Outcome},
    quantity::{Size, Span},
    session::{Half, Happening, Session, StreamKey, Way},
};

/// Index and time of the first.
const HEAD_BYTES: usize = 16;
/// Taken, refused, time of the first.
const END_BYTES: usize = 24;
/// How long after the sender's last word a datagram may still come.
const GRACE: Duration = Duration::from_secs(1);
/// No flow has more datagrams.
const MAX_DATAGRAMS: u64 = 1_000_000;

/// Unreliable datagrams at a constant bit rate. An item is a datagram, wanted when it was sent.
///
/// Columns of the receiver: `datagrams_received`; `datagrams_lost`, those of the whole flow that
/// did not come, refused ones included; `datagrams_refused`, those that the sending transport did
/// not take (too large for the path, or its queue full), known once the sender has told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Datagrams {
    /// Application bits per second.
    #[serde(with = "amount::rate")]
    pub rate: Rate,
    /// Application bytes of each datagram, 16 to 65,000. Default 1000; a path of 1200-byte
    /// datagrams takes about 1150. More than ever fits one over the flow's links is refused.
    #[serde(default = "kilobyte")]
    pub bytes: Size,
    /// Which way. Default `down`.
    #[serde(default)]
    pub direction: Direction,
    /// How long. Default 60 s.
    #[serde(default = "minute")]
    pub duration: Span,
}

const fn kilobyte() -> Size {
    Size(1000)
}

const fn minute() -> Span {
    Span::seconds(60)
}

impl Datagrams {
    /// A minute of datagrams of 1000 bytes at this rate.
    pub const fn new(rate: Rate) -> Self {
        Self {
            rate,
            bytes: kilobyte(),
            direction: Direction::Down,
            duration: minute(),
        }
    }

    fn schedule(&self) -> Schedule {
        let per_second = self.rate.bytes_in(Duration::from_secs(1)).max(1);
        Schedule {
            bytes: self.bytes.0,
            per_second,
            count: self.count(per_second),
        }
    }

    /// How many are sent before `duration` is over.
    fn count(&self, per_second: u64) -> u64 {
        let bytes_nanos = self.duration.0.as_nanos() * u128::from(per_second);
        let each = u128::from(self.bytes.0.max(1)) * 1_000_000_000;
        u64::try_from(bytes_nanos.div_ceil(each)).unwrap_or(u64::MAX)
    }

    fn half(&self, end: End) -> Box<dyn Half> {
        let schedule = self.schedule();
        if end == self.direction.receiver() {
            Box::new(Receiver::new(schedule))
        } else {
            Box::new(Sender::new(schedule))
        }
    }
}

impl Program for Datagrams {
    fn client(&self, _seed: u64) -> Box<dyn Half> {
        self.half(End::Client)
    }

    fn server(&self, _seed: u64) -> Box<dyn Half> {
        self.half(End::Server)
    }

    fn receiver(&self) -> End {
        self.direction.receiver()
    }

    fn volume(&self, _seed: u64) -> Option<u64> {
        let Schedule { count, bytes, .. } = self.schedule();
        Some(count.saturating_mul(bytes).saturating_add(END_BYTES as u64))
    }

    fn datagram_bytes(&self) -> Option<u64> {
        Some(self.bytes.0)
    }

    fn validate(&self) -> Result<(), Problem> {
        let wrong = |field: &str, reason: String| Err((field.to_owned(), reason));
        let per_second = self.rate.bytes_in(Duration::from_secs(1));
        if per_second == 0 {
            return wrong("rate", "sends nothing".to_owned());
        }
        if !(HEAD_BYTES as u64..=65_000).contains(&self.bytes.0) {
            return wrong(
                "bytes",
                format!("{} is not between 16 B and 65 kB", self.bytes),
            );
        }
        match self.count(per_second) {
            0 => wrong("duration", "lets nothing be sent".to_owned()),
            1..=MAX_DATAGRAMS => Ok(()),
            count => wrong(
                "duration",
                format!("{count} datagrams are more than {MAX_DATAGRAMS}"),
            ),
        }
    }
}

/// When which datagram is sent.
#[derive(Clone, Copy, Debug)]
struct Schedule {
    bytes: u64,
    per_second: u64,
    count: u64,
}

impl Schedule {
    /// When datagram `index` is sent, counted from the first; exact to the nanosecond, so that
    /// no rounding adds up.
    fn at(self, index: u64) -> Duration {
        let sent = u128::from(index) * u128::from(self.bytes) * 1_000_000_000;
        let nanos = sent / u128::from(self.per_second);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

struct Sender {
    schedule: Schedule,
    filler: Arc<[u8]>,
    began: Option<Instant>,
    next: u64,
    refused: u64,
    end: Option<(StreamKey, Source)>,
    told: bool,
    outcome: Outcome,
}

impl Sender {
    fn new(schedule: Schedule) -> Self {
        Self {
            schedule,
            filler: vec![0x74; schedule.bytes as usize].into(),
            began: None,
            next: 0,
            refused: 0,
            end: None,
            told: false,
            outcome: Outcome::default(),
        }
    }

    fn send(&mut self, session: &mut dyn Session) {
        let Some(began) = self.began else { return };
        while self.next < self.schedule.count
            && began + self.schedule.at(self.next) <= session.now()
        {
            let mut data = self.filler.to_vec();
            let head = self.next.to_be_bytes().into_iter();
            let head = head.chain(began.as_nanos().to_be_bytes());
            for (byte, head) in data.iter_mut().zip(head) {
                *byte = head;
            }
            if !session.send_datagram(Bytes::from(data)) {
                self.refused += 1;
            }
            self.next += 1;
        }
        self.tell(session, began);
    }

    /// After the last one.
    fn tell(&mut self, session: &mut dyn Session, began: Instant) {
        if self.next < self.schedule.count || self.told {
            return;
        }
        if self.end.is_none()
            && let Some(stream) = session.open(Way::Out)
        {
            let mut word = Vec::with_capacity(END_BYTES);
            word.extend_from_slice(&(self.next - self.refused).to_be_bytes());
            word.extend_from_slice(&self.refused.to_be_bytes());
            word.extend_from_slice(&began.as_nanos().to_be_bytes());
            self.end = Some((stream, Source::new(word.into(), 0)));
        }
        if let Some((stream, source)) = &mut self.end {
            self.told = source.write(session, *stream);
        }
    }
}

impl Half for Sender {
    fn on(&mut self, session: &mut dyn Session, happening: Happening) {
        match happening {
            Happening::Connected => {
                self.outcome.connected = Some(session.now());
                self.began = Some(session.now());
                self.send(session);
            }
            Happening::MayOpen | Happening::Writable(_) => self.send(session),
            Happening::Closed(error) => {
                self.outcome.error = error;
                self.began = None;
            }
            Happening::Opened(_)
            | Happening::Readable(_)
            | Happening::Datagram
            | Happening::Fate(_) => {}
        }
    }

    fn on_timer(&mut self, session: &mut dyn Session) {
        self.send(session);
    }

    fn poll_timer(&self) -> Option<Instant> {
        (self.next < self.schedule.count)
            .then(|| self.began.map(|began| began + self.schedule.at(self.next)))
            .flatten()
    }

    fn received_bytes(&self) -> u64 {
        self.outcome.received_bytes
    }

    fn is_over(&self) -> bool {
        self.outcome.finished.is_some() || self.outcome.error.is_some()
    }

    fn outcome(&self) -> Outcome {
        let mut outcome = self.outcome.clone();
        let extra = &mut outcome.extra;
        extra.insert("datagrams_refused", self.refused as f64);
        outcome
    }
}

struct Receiver {
    schedule: Schedule,
    began: Option<Instant>,
    received: u64,
    end: Option<(StreamKey, Head<END_BYTES>, Sink)>,
    refused: Option<u64>,
    /// When nothing more is waited for.
    over: Option<Instant>,
    outcome: Outcome,
}

impl Receiver {
    fn new(schedule: Schedule) -> Self {
        let item = |index| Item::wanted(schedule.bytes, Instant::ZERO + schedule.at(index));
        let outcome = Outcome {
            items: (0..schedule.count).map(item).collect(),
            ..Outcome::default()
        };
        Self {
            schedule,
            began: None,
            received: 0,
            end: None,
            refused: None,
            over: None,
            outcome,
        }
    }

    fn date_from(&mut self, began: Instant, known: bool) {
        if self.began.is_some() {
            return;
        }
        self.began = known.then_some(began);
        for (index, item) in (0..).zip(&mut self.outcome.items) {
            item.wanted = began + self.schedule.at(index);
        }
    }

    fn take(&mut self, session: &mut dyn Session) {
        let now = session.now();
        while let Some(data) = session.receive_datagram() {
            let Some((index, rest)) = data.split_first_chunk::<8>() else {
                continue;
            };
            let Some(began) = rest.first_chunk::<8>() else {
                continue;
            };
            self.date_from(Instant::from_nanos(u64::from_be_bytes(*began)), true);
            let index = usize::try_from(u64::from_be_bytes(*index)).unwrap_or(usize::MAX);
            // A second copy is none.
            if let Some(item) = self.outcome.items.get_mut(index)
                && item.done.is_none()
            {
                item.began = Some(now);
                item.done = Some(now);
                self.received += 1;
                self.outcome.received_bytes += data.len() as u64;
            }
        }
        if self.received == self.schedule.count {
            self.finish(session);
        }
    }

    fn read_end(&mut self, session: &mut dyn Session) {
        let Some((stream, head, sink)) = &mut self.end else {
            return;
        };
        sink.read(session, *stream, |chunk| head.take(chunk));
        let Some(word) = head.bytes().filter(|_| sink.finished) else {
            return;
        };
        let (numbers, _) = word.as_chunks::<8>();
        if let [_, refused, began] = numbers {
            self.refused = Some(u64::from_be_bytes(*refused));
            let began = Instant::from_nanos(u64::from_be_bytes(*began));
            self.date_from(began, true);
        }
        self.over.get_or_insert(session.now() + GRACE);
    }

    fn finish(&mut self, session: &mut dyn Session) {
        if self.outcome.finished.is_none() {
            self.outcome.finished = Some(session.now());
            session.close();
        }
        self.over = None;
    }
}

impl Half for Receiver {
    fn on(&mut self, session: &mut dyn Session, happening: Happening) {
        match happening {
            Happening::Connected => {
                self.outcome.connected = Some(session.now());
                // The best guess until a datagram tells.
                self.date_from(session.now(), false);
            }
            Happening::Datagram => self.take(session),
            Happening::Opened(stream) => {
                self.end
                    .get_or_insert_with(|| (stream, Head::default(), Sink::default()));
                self.read_end(session);
            }
            Happening::Readable(_) => self.read_end(session),
            Happening::Closed(error) => {
                self.outcome.error = error;
                self.over = None;
            }
            Happening::Writable(_) | Happening::MayOpen | Happening::Fate(_) => {}
        }
    }

    fn on_timer(&mut self, session: &mut dyn Session) {
        if self.over.is_some_and(|over| over <= session.now()) {
            self.finish(session);
        }
    }

    fn poll_timer(&self) -> Option<Instant> {
        self.over
    }

    fn received_bytes(&self) -> u64 {
        self.outcome.received_bytes
    }

    fn is_over(&self) -> bool {
        self.outcome.finished.is_some() || self.outcome.error.is_some()
    }

    fn outcome(&self) -> Outcome {
        let mut outcome = self.outcome.clone();
        let lost = self.schedule.count - self.received;
        let extra = &mut outcome.extra;
        extra.insert("datagrams_received", self.received as f64);
        extra.insert("datagrams_lost", lost as f64);
        if let Some(refused) = self.refused {
            extra.insert("datagrams_refused", refused as f64);
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::tests::{clean, lossy, micros, ms, play};

    fn voice() -> Datagrams {
        let mut datagrams = Datagrams::new(Rate::from_bits_per_second(64_000));
        datagrams.bytes = Size(160);
        datagrams
    }

    #[test]
    fn delays_are_the_one_way_delay_and_the_serialisation() {
        for direction in [Direction::Down, Direction::Up] {
            let mut datagrams = voice();
            datagrams.direction = direction;
            let played = play(&datagrams, clean(), 1);
            let counted = played.counted(&datagrams);
            assert_eq!(counted.items.len(), 3_000);
            assert_eq!(counted.received_bytes, 3_000 * 160);
            assert_eq!(counted.extra["datagrams_lost"], 0.0);
            for pair in counted.items.windows(2) {
                assert_eq!(pair[1].wanted, pair[0].wanted + ms(20));
            }
            let mut took: Vec<u128> = micros(&counted.items).into_iter().flatten().collect();
            took.sort_unstable();
            // 160 bytes, and about 60 of QUIC, UDP and IP, at 20 Mb/s are 86 us. At the start a
            // few wait behind the end of the handshake and probes of the path's MTU.
            assert!((10_080..10_095).contains(&took[0]), "{took:?}");
            assert!((10_080..10_095).contains(&took[2_950]), "{took:?}");
            assert!(took[2_999] < 12_000, "{took:?}");
        }
    }

    #[test]
    fn losses_are_counted_and_not_repaired() {
        let datagrams = Datagrams::new(Rate::from_bits_per_second(400_000));
        let played = play(&datagrams, lossy(0.05), 1);
        let outcome = &played.client;
        let lost = outcome
            .items
            .iter()
            .filter(|item| item.done.is_none())
            .count();
        assert_eq!(outcome.items.len(), 3_000);
        assert_eq!(outcome.extra["datagrams_lost"], lost as f64);
        assert_eq!(outcome.extra["datagrams_refused"], 0.0);
        assert_eq!(outcome.received_bytes, (3_000 - lost as u64) * 1_000);
        // Binomial, mean 150, standard deviation 12.
        assert!((100..200).contains(&lost), "{lost}");
        // All but a few wait for nothing but the link.
        let on_time = outcome
            .items
            .iter()
            .filter(|item| item.duration() < Some(ms(12)));
        assert!(on_time.count() > 2_700);
        assert_eq!(played, play(&datagrams, lossy(0.05), 1));
    }

    #[test]
    fn what_the_transport_does_not_take_is_told() {
        let mut datagrams = Datagrams::new(Rate::from_bits_per_second(1_000_000));
        datagrams.bytes = Size(5_000);
        datagrams.duration = Span::seconds(1);
        let played = play(&datagrams, clean(), 1);
        assert_eq!(played.client.items.len(), 25);
        assert_eq!(played.client.extra["datagrams_refused"], 25.0);
        assert_eq!(played.client.extra["datagrams_lost"], 25.0);
        assert!(played.client.finished.is_some());
    }

    #[test]
    fn plans_are_checked() {
        let read = |text: &str| toml::from_str::<Datagrams>(text).expect("well-formed");
        assert_eq!(read("rate = \"64 kb/s\"\nbytes = 160"), voice());
        for bad in [
            "rate = \"0 b/s\"",
            "rate = \"1 Mb/s\"\nbytes = 8",
            "rate = \"1 Mb/s\"\nduration = \"0 s\"",
            "rate = \"10 Gb/s\"\nbytes = 16\nduration = \"100 s\"",
        ] {
            assert!(read(bad).validate().is_err(), "{bad}");
        }
        let text = toml::to_string(&voice()).expect("serialises");
        assert_eq!(read(&text), voice());
    }
}
