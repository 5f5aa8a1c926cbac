//! A run at the far end: checked, bounded, and played.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tautline::{HandshakeError, Incoming, ServerConfig};
use tautline_lab::{
    plan::{MOST_CONNECTIONS, refusal},
    session::Half,
    stack::{Stack, Tautline},
    workload::{
        End, Workload,
        file::Inputs,
        messages::{Api, Messages},
    },
};
use tautline_transport::{message::MessageConfig, time::Instant};
use tokio::{
    sync::{oneshot, watch},
    task::JoinHandle,
    time::timeout,
};

use super::House;
use crate::{
    clock::{self, RunClock},
    forms::SeenForm,
    live::{Allowance, Seat, Seen, play},
    talk::{FlowAsk, RunAsk},
    trust,
};

/// Bytes beside those of a workload's own count: heads of requests, last words.
const AROUND: u64 = 64 << 10;
/// Streams of one connection: the most that a workload opens, with some to spare.
const STREAMS: u64 = 1_100_000;
/// How long a run may wait for its time zero.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long halves have to stop.
const STOPPING: Duration = Duration::from_secs(5);
/// No samples closer to each other.
const FINEST: Duration = Duration::from_millis(1);

/// A connection that is waited for.
struct Waiting {
    config: Arc<ServerConfig>,
    half: Box<dyn Half>,
    counts: bool,
    /// What its workload comes to, if that is bounded.
    volume: Option<u64>,
    allowance: Allowance,
    comes: oneshot::Receiver<Incoming>,
}

/// A run that was prepared, and perhaps begun. Dropped, it stops.
pub(super) struct Run {
    house: Arc<House>,
    keys: Vec<String>,
    limit: Duration,
    sample: Duration,
    waiting: Vec<Waiting>,
    playing: Vec<(bool, JoinHandle<Seen>)>,
    stop: watch::Sender<bool>,
}

impl Drop for Run {
    fn drop(&mut self) {
        self.house.forget(&self.keys);
    }
}

/// A workload as it will be played, with its files.
fn resolved(mut workload: Workload, inputs: &Inputs) -> Result<Workload, String> {
    let checked = workload.program().validate();
    checked.map_err(|(field, problem)| format!("workload.{field}: {problem}"))?;
    workload
        .resolve(inputs)
        .map_err(|error| format!("workload: {error}"))?;
    Ok(workload)
}

/// Whether every message of theirs is one that the transport takes, so that none is made in vain.
fn messages_fit(messages: &Messages, seed: u64) -> Result<(), String> {
    let longest = MessageConfig::default().message_bytes;
    let frames = messages.frames(seed)?;
    match frames.iter().find(|frame| frame.bytes > longest) {
        Some(frame) if messages.api == Api::Messages => Err(format!(
            "workload: messages above {longest} B ({}) are for api = \"streams\"",
            frame.bytes
        )),
        _ => Ok(()),
    }
}

impl Run {
    /// Checks a run; what to knock with for each of its connections.
    pub(super) fn prepare(house: &Arc<House>, ask: RunAsk) -> Result<(Self, Vec<String>), String> {
        let limits = house.limits;
        let limit = Duration::from_nanos(ask.limit_nanos);
        if limit.is_zero() || limit > limits.duration {
            return Err(format!(
                "a run of up to {limit:?} (run.limit); this far end serves up to {:?}: shorten it, or start \
                 the far end with a longer --max-duration",
                limits.duration
            ));
        }
        if ask.flows.is_empty() || ask.flows.len() > MOST_CONNECTIONS {
            let count = ask.flows.len();
            return Err(format!("{count} connections; 1 to {MOST_CONNECTIONS}"));
        }
        let kept = ask.files.into_iter();
        let kept: BTreeMap<String, Arc<str>> =
            kept.map(|(path, text)| (path, text.into())).collect();
        let inputs = Inputs::Kept(Arc::new(kept));
        let mut run = Self {
            house: Arc::clone(house),
            keys: Vec::new(),
            limit,
            sample: Duration::from_nanos(ask.sample_nanos).max(FINEST),
            waiting: Vec::new(),
            playing: Vec::new(),
            stop: watch::channel(false).0,
        };
        for flow in ask.flows {
            run.add(flow, &inputs)?;
        }
        run.share(limits.bytes)?;
        let keys = run.keys.clone();
        Ok((run, keys))
    }

    fn add(&mut self, flow: FlowAsk, inputs: &Inputs) -> Result<(), String> {
        let options = &flow.options;
        if let Some((key, problem)) = refusal(options) {
            return Err(format!("{key}: {problem}"));
        }
        let stack = Tautline::default();
        let wrong = |error: tautline_lab::stack::OptionError| {
            format!("{}: {}", error.option, error.problem)
        };
        stack.check(options).map_err(wrong)?;
        let transport = stack.transport(options).map_err(wrong)?;
        let workload = resolved(flow.workload, inputs)?;
        if let Workload::Messages(messages) = &workload {
            messages_fit(messages, flow.seed)?;
        }
        let program = workload.program();
        let config = self.house.run_config(transport);
        let config = config.map_err(|error| error.to_string())?;
        let key = trust::token().map_err(|_| "no randomness on this machine".to_owned())?;
        let (run, comes) = oneshot::channel();
        self.house
            .doors(|doors| doors.keys.insert(key.clone(), run));
        self.keys.push(key);
        self.waiting.push(Waiting {
            config: Arc::new(config),
            half: program.server(flow.seed),
            counts: program.receiver() == End::Server,
            volume: program
                .volume(flow.seed)
                .map(|volume| volume.saturating_add(AROUND)),
            allowance: Allowance::NO_LIMIT,
            comes,
        });
        Ok(())
    }

    /// Says how much each connection moves at most: what its workload comes to; those without a size share
    /// what is left.
    fn share(&mut self, bytes: u64) -> Result<(), String> {
        let sized = self.waiting.iter().filter_map(|waiting| waiting.volume);
        let sized = sized.fold(0, u64::saturating_add);
        let left = bytes.checked_sub(sized).ok_or_else(|| {
            format!(
                "a run of {sized} application bytes or more; this far end serves {bytes} a run: make it \
                 smaller, or start the far end with a larger --max-bytes"
            )
        })?;
        let endless = self
            .waiting
            .iter()
            .filter(|waiting| waiting.volume.is_none());
        let share = left / (endless.count() as u64).max(1);
        for waiting in &mut self.waiting {
            waiting.allowance = Allowance {
                sent_bytes: waiting.volume.unwrap_or(share),
                received_bytes: bytes,
                streams: STREAMS,
            };
        }
        Ok(())
    }

    /// Begins it at this time of [`House::since`].
    pub(super) fn begin(&mut self, zero_nanos: u64) -> Result<(), String> {
        let zero = self
            .house
            .since
            .checked_add(Duration::from_nanos(zero_nanos));
        let now = clock::now();
        let near = |zero: &std::time::Instant| {
            let ahead = zero.saturating_duration_since(now);
            let behind = now.saturating_duration_since(*zero);
            ahead.max(behind) <= PATIENCE
        };
        let zero = zero.filter(near).ok_or_else(|| {
            format!("the run would not begin within {PATIENCE:?} of now; ask for the clock again")
        })?;
        if !self.playing.is_empty() {
            return Err("the run has begun already".to_owned());
        }
        for waiting in self.waiting.drain(..) {
            let seat = Seat {
                half: waiting.half,
                clock: RunClock::from(zero),
                until: Instant::ZERO + self.limit,
                sample: self.sample,
                allowance: waiting.allowance,
                stop: self.stop.subscribe(),
            };
            let (config, comes) = (waiting.config, waiting.comes);
            let connecting = async move {
                match comes.await {
                    Ok(incoming) => Ok::<_, HandshakeError>(incoming.accept_with(config)?.await?),
                    // The run is over.
                    Err(_) => std::future::pending().await,
                }
            };
            let playing = tokio::spawn(play(connecting, seat, || {}));
            self.playing.push((waiting.counts, playing));
        }
        Ok(())
    }

    /// Ends it. What was seen of each connection.
    pub(super) async fn finish(mut self) -> Vec<SeenForm> {
        self.stop.send_replace(true);
        let mut all = Vec::new();
        for (counts, playing) in std::mem::take(&mut self.playing) {
            let seen = timeout(STOPPING, playing).await;
            let seen = seen.ok().and_then(Result::ok).unwrap_or_default();
            all.push(SeenForm::of(&seen, counts));
        }
        all
    }
}
