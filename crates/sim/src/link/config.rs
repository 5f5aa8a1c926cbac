//! What a link does to packets, as plain data.
//!
//! Owns: [`LinkConfig`], [`DirectionConfig`] and their parts, defaults and validation.
//! Does not own: the running link (see `direction.rs`).

use std::{ops::RangeInclusive, path::Path, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use tautline_transport::units::Rate;

use super::{
    aqm::Aqm,
    coding::AdaptiveCoding,
    grants::Grants,
    handover::Handover,
    input::{self, InputFile},
    loss::LossModel,
    outage::Outage,
    queue::QueueSize,
    rate::{RateSteps, RateWander},
    recorded::Pattern,
    silence::{Gaps, Silences},
    trace::TraceSource,
};
use crate::text;

/// A value that a link cannot have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct ConfigError {
    /// The field, as a dotted path from the struct that was validated.
    pub field: String,
    /// What is wrong with it.
    pub problem: String,
}

impl ConfigError {
    pub(crate) fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            problem: problem.into(),
        }
    }

    pub(crate) fn within(mut self, outer: &str) -> Self {
        self.field = format!("{outer}.{}", self.field);
        self
    }
}

/// Both directions of a link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkConfig {
    /// From the first host given to `connect` to the second: the uplink when the client is first.
    pub forward: DirectionConfig,
    /// From the second host to the first: the downlink when the client is first.
    pub backward: DirectionConfig,
}

impl LinkConfig {
    /// The same in both directions.
    pub fn symmetric(direction: DirectionConfig) -> Self {
        Self {
            forward: direction.clone(),
            backward: direction,
        }
    }

    /// The link seen from the other end.
    pub fn reversed(self) -> Self {
        Self {
            forward: self.backward,
            backward: self.forward,
        }
    }

    /// One packet's way there and back without queueing and serialisation.
    pub fn round_trip(&self) -> Duration {
        self.forward.delay.saturating_add(self.backward.delay)
    }

    /// Reads the files that the configuration names (traces, loss patterns) and puts their text in
    /// their place; relative paths start at `base`. To be called before the link is used; the
    /// simulator itself opens no file.
    ///
    /// Returns the files that were read, for those who keep a record of their inputs.
    ///
    /// # Errors
    /// The field and what is wrong with its file; files above 64 MiB are refused.
    pub fn load(&mut self, base: &Path) -> Result<Vec<InputFile>, ConfigError> {
        self.load_with(|path| input::read(base, path))
    }

    /// As [`LinkConfig::load`], with the text of each file from `find`, which says why where there is
    /// none.
    ///
    /// # Errors
    /// The field and what `find` said.
    pub fn load_with(
        &mut self,
        mut find: impl FnMut(&Path) -> Result<Arc<str>, String>,
    ) -> Result<Vec<InputFile>, ConfigError> {
        let mut files = Vec::new();
        for (side, name) in [
            (&mut self.forward, "forward"),
            (&mut self.backward, "backward"),
        ] {
            files.extend(side.load_with(&mut find).map_err(|e| e.within(name))?);
        }
        Ok(files)
    }

    /// Whether every value is one a link can have.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.forward.validate().map_err(|e| e.within("forward"))?;
        self.backward.validate().map_err(|e| e.within("backward"))
    }
}

/// One direction of a link.
///
/// A packet meets, in this order: scripted faults and rules, MTU, the queue (drop-tail or `aqm`,
/// ECN marking), the transmitter (`rate` and what varies it, outages that hold, hand-over gaps,
/// silences, grants), then on the wire outages, hand-over losses, gaps, loss of coding, loss,
/// corruption, `delay`, jitter, reordering and duplication. Packets dropped on the wire have used
/// the transmitter.
///
/// At most one of `rate_steps`, `rate_wander`, `trace` and `coding` says how the rate varies. A
/// queue in bandwidth-delay products counts with [`DirectionConfig::mean_rate`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DirectionConfig {
    /// Speed of the transmitter, counted in IP bytes; `None` is infinitely fast.
    #[serde(with = "text::rate_option", skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// The rate at given times, instead of or after `rate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_steps: Option<RateSteps>,
    /// A rate drawn anew again and again, instead of `rate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_wander: Option<RateWander>,
    /// Recorded opportunities to send, instead of `rate`. A packet waits in the queue until its
    /// first one; [`super::DirectionStats::busy`] counts only packets that take several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceSource>,
    /// Steps of rate and loss under `rate`, which is that of a modem in its fastest state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coding: Option<AdaptiveCoding>,
    /// Capacity that has to be asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grants: Option<Grants>,
    /// One-way propagation delay. At most an hour.
    #[serde(with = "text::duration")]
    pub delay: Duration,
    /// Variation of `delay`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter: Option<Jitter>,
    /// Packets that may wait for the transmitter; the one being sent does not count. Drop-tail,
    /// whatever else `aqm` does.
    pub queue: QueueSize,
    /// Who is dropped or marked before the queue is full, and in which order packets leave.
    #[serde(skip_serializing_if = "Aqm::is_none")]
    pub aqm: Aqm,
    /// Which packets vanish on the wire.
    #[serde(skip_serializing_if = "LossModel::is_none")]
    pub loss: LossModel,
    /// Which packets get one byte of their payload changed; they are delivered.
    #[serde(skip_serializing_if = "LossModel::is_none")]
    pub corruption: LossModel,
    /// Packets that are held back while later ones pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reordering: Option<Reordering>,
    /// Probability that a packet arrives twice (the copy uses no transmitter time).
    pub duplication: f64,
    /// Largest IP packet; larger ones are dropped without notice.
    pub mtu: u16,
    /// Waiting data above which ECN-capable packets are marked CE on arrival at the queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecn_threshold: Option<QueueSize>,
    /// Times at which nothing passes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outages: Vec<Outage>,
    /// A grid of hand-overs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handover: Option<Handover>,
    /// Random or periodic times at which nothing is sent and nothing lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub silences: Option<Silences>,
    /// Random or periodic times at which packets are lost.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<Gaps>,
    /// Ranges of packet indices (from 0, counting every packet offered) that are dropped before
    /// the queue.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub drop_packets: Vec<RangeInclusive<u64>>,
}

impl Default for DirectionConfig {
    /// Infinitely fast, no delay, an Ethernet's MTU, no faults.
    fn default() -> Self {
        Self {
            rate: None,
            rate_steps: None,
            rate_wander: None,
            trace: None,
            coding: None,
            grants: None,
            delay: Duration::ZERO,
            jitter: None,
            queue: QueueSize::Unlimited,
            aqm: Aqm::None,
            loss: LossModel::None,
            corruption: LossModel::None,
            reordering: None,
            duplication: 0.0,
            mtu: 1500,
            ecn_threshold: None,
            outages: Vec::new(),
            handover: None,
            silences: None,
            gaps: Vec::new(),
            drop_packets: Vec::new(),
        }
    }
}

const MAX_DELAY: Duration = Duration::from_secs(3600);
/// 10 Tb/s: keeps every product of sizes and times far from overflow.
pub(crate) const MAX_RATE: Rate = Rate::from_bits_per_second(10_000_000_000_000);

impl DirectionConfig {
    /// A drop-tail queue of one bandwidth-delay product before a wire without faults.
    pub fn new(rate: Rate, delay: Duration) -> Self {
        Self {
            rate: Some(rate),
            delay,
            queue: QueueSize::Bdp(1.0),
            ..Self::default()
        }
    }

    /// Whether every value is one a link can have.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if let Some(rate) = self.rate
            && (rate == Rate::ZERO || rate > MAX_RATE)
        {
            let problem = format!("{rate} is not above 0 and at most {MAX_RATE}");
            return Err(ConfigError::new("rate", problem));
        }
        self.validate_pace()?;
        delay("delay", self.delay)?;
        if let Some(jitter) = &self.jitter {
            delay("jitter.correlation", jitter.correlation)?;
            if jitter.spread > self.delay {
                let problem = format!("{:?} exceeds the delay of {:?}", jitter.spread, self.delay);
                return Err(ConfigError::new("jitter.spread", problem));
            }
        }
        self.queue.validate("queue")?;
        self.aqm.validate().map_err(|e| e.within("aqm"))?;
        self.loss.validate().map_err(|e| e.within("loss"))?;
        self.corruption
            .validate()
            .map_err(|e| e.within("corruption"))?;
        if let Some(reordering) = &self.reordering {
            probability("reordering.probability", reordering.probability)?;
            delay("reordering.extra", reordering.extra)?;
        }
        probability("duplication", self.duplication)?;
        if let Some(threshold) = &self.ecn_threshold {
            threshold.validate("ecn_threshold")?;
        }
        for (i, outage) in self.outages.iter().enumerate() {
            outage
                .validate()
                .map_err(|e| e.within(&format!("outages[{i}]")))?;
        }
        if let Some(handover) = &self.handover {
            let jitter = self.jitter.map_or(Duration::ZERO, |j| j.spread);
            let room = self.delay.saturating_sub(jitter);
            handover.validate(room).map_err(|e| e.within("handover"))?;
        }
        if let Some(silences) = &self.silences {
            silences.validate().map_err(|e| e.within("silences"))?;
        }
        for (i, gaps) in self.gaps.iter().enumerate() {
            let inside = |e: ConfigError| e.within(&format!("gaps[{i}]"));
            gaps.validate().map_err(inside)?;
        }
        for (i, range) in self.drop_packets.iter().enumerate() {
            if range.is_empty() {
                let problem = format!("{}..={} is empty", range.start(), range.end());
                return Err(ConfigError::new(format!("drop_packets[{i}]"), problem));
            }
        }
        Ok(())
    }
}

impl DirectionConfig {
    /// As [`LinkConfig::load`].
    ///
    /// # Errors
    /// As there.
    pub fn load(&mut self, base: &Path) -> Result<Vec<InputFile>, ConfigError> {
        self.load_with(&mut |path| input::read(base, path))
    }

    fn load_with(
        &mut self,
        find: &mut dyn FnMut(&Path) -> Result<Arc<str>, String>,
    ) -> Result<Vec<InputFile>, ConfigError> {
        let mut text_of = |field: &str, path: &Path| {
            let text = find(path).map_err(|problem| ConfigError::new(field, problem))?;
            let path = path.to_owned();
            Ok::<_, ConfigError>(InputFile { path, text })
        };
        let mut files = Vec::new();
        if let Some(TraceSource::File(path)) = &self.trace {
            let file = text_of("trace", path)?;
            self.trace = Some(TraceSource::Inline(Arc::clone(&file.text)));
            files.push(file);
        }
        let models = [
            ("loss", &mut self.loss),
            ("corruption", &mut self.corruption),
        ];
        for (field, model) in models {
            if let LossModel::Recorded { pattern, .. } = model
                && let Pattern::File { file } = pattern
            {
                let file = text_of(&format!("{field}.pattern"), file)?;
                *pattern = Pattern::Inline(Arc::clone(&file.text));
                files.push(file);
            }
        }
        Ok(files)
    }

    /// Whether the rate, its variation and its grants go together.
    fn validate_pace(&self) -> Result<(), ConfigError> {
        let varying = [
            ("rate_steps", self.rate_steps.is_some()),
            ("rate_wander", self.rate_wander.is_some()),
            ("trace", self.trace.is_some()),
            ("coding", self.coding.is_some()),
        ];
        let mut varying = varying
            .iter()
            .filter(|(_, used)| *used)
            .map(|(name, _)| *name);
        let first = varying.next();
        if let (Some(first), Some(second)) = (first, varying.next()) {
            let problem = format!("cannot be combined with `{first}`");
            return Err(ConfigError::new(second, problem));
        }
        if let Some(name) = first.filter(|name| ["rate_wander", "trace"].contains(name))
            && self.rate.is_some()
        {
            return Err(ConfigError::new(name, "cannot be combined with `rate`"));
        }
        if let Some(steps) = &self.rate_steps {
            steps
                .validate(self.rate)
                .map_err(|e| e.within("rate_steps"))?;
        }
        if let Some(wander) = &self.rate_wander {
            wander.validate().map_err(|e| e.within("rate_wander"))?;
        }
        if let Some(trace) = &self.trace {
            trace.validate()?;
        }
        if let Some(coding) = &self.coding {
            coding.validate().map_err(|e| e.within("coding"))?;
            match self.rate {
                None => return Err(ConfigError::new("coding", "needs a `rate`")),
                Some(value) => super::rate::rate("rate", value)?,
            }
        }
        if let Some(grants) = &self.grants {
            grants.validate().map_err(|e| e.within("grants"))?;
        }
        Ok(())
    }
}

pub(crate) fn delay(field: &str, value: Duration) -> Result<(), ConfigError> {
    if value > MAX_DELAY {
        return Err(ConfigError::new(
            field,
            format!("{value:?} exceeds {MAX_DELAY:?}"),
        ));
    }
    Ok(())
}

/// Whether `value` lies in `0..=1`.
pub(crate) fn probability(field: &str, value: f64) -> Result<(), ConfigError> {
    if !(0.0..=1.0).contains(&value) {
        return Err(ConfigError::new(
            field,
            format!("{value} is not a probability (0 to 1)"),
        ));
    }
    Ok(())
}

/// Variation of a delay: uniform in `delay - spread ..= delay + spread`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Jitter {
    /// Half the width of the range; at most the delay.
    #[serde(with = "text::duration")]
    pub spread: Duration,
    /// Whether a packet may overtake an earlier one.
    pub order: JitterOrder,
    /// Zero draws per packet. Otherwise the delay wanders: one value is drawn per `correlation`
    /// of time and the delay moves in a straight line from one to the next.
    ///
    /// With `Fifo` and per-packet draws a packet waits for the slowest before it, so that under
    /// load the delay of all lies near the upper end; a correlation keeps the mean at `delay`.
    #[serde(with = "text::duration", default)]
    pub correlation: Duration,
}

impl Jitter {
    /// Drawn per packet; order is kept.
    pub const fn fifo(spread: Duration) -> Self {
        Self {
            spread,
            order: JitterOrder::Fifo,
            correlation: Duration::ZERO,
        }
    }

    /// Drawn per packet; packets overtake.
    pub const fn reorder(spread: Duration) -> Self {
        Self {
            spread,
            order: JitterOrder::Reorder,
            correlation: Duration::ZERO,
        }
    }
}

/// Whether jitter may change the order of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JitterOrder {
    /// A packet never arrives before an earlier one.
    Fifo,
    /// Each packet arrives when its own delay has passed.
    Reorder,
}

/// Some packets are held back while later ones pass.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reordering {
    /// Share of the packets held back.
    pub probability: f64,
    /// For how long.
    #[serde(with = "text::duration")]
    pub extra: Duration,
}
