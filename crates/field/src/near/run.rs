//! One run, from the end that has the plan.

use std::{collections::BTreeMap, time::Duration};

use tautline::{ClientConfig, Endpoint, HandshakeError};
use tautline_lab::{
    campaign::FieldNote,
    plan::{Cell, Plan},
    run::{FlowRecord, Record, Sample, cut_off},
    scene::{Flow, Scene},
    session::Half,
    stack::{StackOptions, Tautline},
    workload::End,
};
use tautline_transport::{rng::Rng, time::Instant};
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
    time::{sleep_until, timeout},
};

use super::{
    FieldError,
    link::{self, Link},
};
use crate::{
    clock::{self, RunClock},
    live::{Allowance, Seat, Seen, play as play_half},
    talk::{self, Answer, Ask, FlowAsk, RunAsk},
};

/// What the other end needs beside the network's time to be ready for time zero.
const READY: Duration = Duration::from_millis(50);
/// How long halves have to stop.
const STOPPING: Duration = Duration::from_secs(5);

/// Why there is no record of a run.
#[derive(Debug)]
pub(super) enum RunError {
    /// It could not begin.
    Refused(String),
    /// It failed as a whole.
    Failed(String),
    /// The control connection is of no use any more.
    Link(FieldError),
}

impl From<FieldError> for RunError {
    fn from(error: FieldError) -> Self {
        Self::Link(error)
    }
}

/// A connection of a run.
struct Line<'a> {
    index: usize,
    flow: &'a Flow,
    options: &'a StackOptions,
    start: Instant,
    seed: u64,
}

/// The connections of a scene, in its order. When they begin is drawn as the simulator draws it.
fn lines<'a>(scene: &'a Scene, cell: &Cell) -> Vec<Line<'a>> {
    let mut lines = Vec::new();
    for (index, flow) in scene.flows.iter().enumerate() {
        let first = lines.len() as u64;
        let mut rng = Rng::from_u64(cell.seed ^ first.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let later = flow.start_within.0.mul_f64(rng.unit_f64());
        for number in 0..flow.count {
            let order = first + u64::from(number);
            lines.push(Line {
                index,
                flow,
                options: scene.options(flow),
                start: Instant::ZERO + flow.start.0 + later + flow.stagger.0 * number,
                seed: cell.seed.wrapping_mul(1009).wrapping_add(order),
            });
        }
    }
    lines
}

/// What the far end is to get ready.
fn ask(plan: &Plan, scene: &Scene, lines: &[Line<'_>]) -> Result<Ask, RunError> {
    let wanted = lines
        .iter()
        .flat_map(|line| line.flow.workload.program().files());
    let wanted: Vec<String> = wanted.map(|file| file.path).collect();
    let files = plan.kept_files().map_err(RunError::Refused)?;
    let files: BTreeMap<String, String> = files
        .into_iter()
        .filter(|(path, _)| wanted.contains(path))
        .collect();
    let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    let flow = |line: &Line<'_>| FlowAsk {
        workload: line.flow.workload.clone(),
        options: line.options.clone(),
        seed: line.seed,
    };
    let ask = Ask::Prepare(Box::new(RunAsk {
        limit_nanos: nanos(scene.limit),
        sample_nanos: nanos(scene.sample),
        flows: lines.iter().map(flow).collect(),
        files,
    }));
    Link::fits(&ask).map_err(|error| match error {
        talk::TalkError::TooLong { bytes, most } => RunError::Refused(format!(
            "the run's flows and the files that they name take {bytes} bytes, and a far end hears {most}: \
             use smaller files"
        )),
        error => RunError::Refused(error.to_string()),
    })?;
    Ok(ask)
}

/// A connection that is set up to be played.
struct Ready {
    endpoint: Endpoint,
    config: ClientConfig,
    half: Box<dyn Half>,
    start: Instant,
}

fn ready(line: &Line<'_>, link: &Link) -> Result<Ready, RunError> {
    let transport = Tautline::default().transport(line.options);
    let transport = transport
        .map_err(|error| RunError::Refused(format!("{}: {}", error.option, error.problem)))?;
    let failed = |error: &dyn std::fmt::Display| RunError::Failed(error.to_string());
    let config = link::config(Some(link.fingerprint()), talk::RUN, transport);
    let mut half = line.flow.workload.program().client(line.seed);
    if let Some(stop) = line.flow.stop {
        half = cut_off(half, Instant::ZERO + stop.0);
    }
    Ok(Ready {
        endpoint: link::endpoint(&link.remote()).map_err(|error| failed(&error))?,
        config: config.map_err(|error| failed(&error))?,
        half,
        start: line.start,
    })
}

/// Plays a scene with the far end; `note` gets what is measured of the network before, and when.
pub(super) async fn play(
    plan: &Plan,
    scene: &Scene,
    cell: &Cell,
    link: &mut Link,
    note: &mut FieldNote,
) -> Result<Record, RunError> {
    let lines = lines(scene, cell);
    let ask = ask(plan, scene, &lines)?;
    let keys = match link.ask(&ask).await? {
        Answer::Prepared { keys } if keys.len() == lines.len() => keys,
        Answer::Refused { reason } => return Err(RunError::Refused(reason)),
        answer => return Err(link.unexpected(answer).into()),
    };
    let mut all = Vec::new();
    for (line, key) in lines.iter().zip(&keys) {
        let ready = ready(line, link)?;
        let knocked = link.knock(&ready.endpoint, key).await;
        knocked.map_err(RunError::Failed)?;
        all.push(ready);
    }
    let clocks = link.clocks().await?;
    note.rtt_ms = Some(clocks.rtt.as_secs_f64() * 1e3);
    note.clock_error_ms = Some(clocks.rtt.as_secs_f64() * 0.5e3);
    let zero = clock::now() + clocks.rtt * 2 + READY;
    let zero_nanos = clocks.there(zero);
    match link.ask(&Ask::Begin { zero_nanos }).await? {
        Answer::Done => {}
        Answer::Refused { reason } => return Err(RunError::Failed(reason)),
        answer => return Err(link.unexpected(answer).into()),
    }
    sleep_until(zero.into()).await;
    note.started = clock::utc();
    let (near, end) = both(scene, &lines, all, RunClock::from(zero), link).await;
    let far = match link.ask(&Ask::Finish).await? {
        Answer::Seen { flows } => flows,
        Answer::Refused { reason } => return Err(RunError::Failed(reason)),
        answer => return Err(link.unexpected(answer).into()),
    };
    if far.len() != lines.len() {
        let reason = "it tells of other connections than the run's";
        return Err(link.lost(reason.to_owned()).into());
    }
    let far = far.into_iter().map(crate::forms::SeenForm::into_seen);
    let flows = lines.iter().zip(near).zip(far);
    let flows = flows.map(|((line, (start, near)), far)| record(line, start, near, far));
    Ok(Record::of_flows(scene, end, flows.collect()))
}

/// Plays this end of every connection until the measured ones are over. When each began, what was seen of
/// it, and when the run was over.
async fn both(
    scene: &Scene,
    lines: &[Line<'_>],
    all: Vec<Ready>,
    clock: RunClock,
    link: &Link,
) -> (Vec<(Instant, Seen)>, Instant) {
    let until = Instant::ZERO + scene.limit;
    let (stop, stopped) = watch::channel(false);
    let (over, mut overs) = mpsc::unbounded_channel();
    let mut playing: Vec<JoinHandle<(Instant, Seen)>> = Vec::new();
    for (number, ready) in all.into_iter().enumerate() {
        let over = over.clone();
        let seat = Seat {
            half: ready.half,
            clock,
            until,
            sample: scene.sample,
            allowance: Allowance::NO_LIMIT,
            stop: stopped.clone(),
        };
        let remote = link.remote();
        let (endpoint, config) = (ready.endpoint, ready.config);
        playing.push(tokio::spawn(async move {
            sleep_until(clock.at(ready.start).into()).await;
            let start = clock.now();
            let connecting = async move {
                match endpoint.connect_with(config, remote, "localhost") {
                    Ok(connecting) => connecting.await,
                    Err(error) => Err(HandshakeError::NotAccepted {
                        reason: error.to_string(),
                    }),
                }
            };
            let seen = play_half(connecting, seat, move || {
                // Fails when nobody waits any more.
                let _ = over.send(number);
            });
            (start, seen.await)
        }));
    }
    drop(over);
    let mut waited: Vec<bool> = lines.iter().map(|line| line.flow.is_measured()).collect();
    while waited.contains(&true) {
        tokio::select! {
            over = overs.recv() => match over {
                Some(number) => waited.iter_mut().skip(number).take(1).for_each(|it| *it = false),
                None => break,
            },
            () = sleep_until(clock.at(until).into()) => break,
        }
    }
    let end = clock.now().min(until);
    stop.send_replace(true);
    let mut seen = Vec::new();
    for (playing, line) in playing.into_iter().zip(lines) {
        let halted = timeout(STOPPING, playing).await;
        let halted = halted.ok().and_then(Result::ok);
        seen.push(halted.unwrap_or_else(|| (line.start, Seen::default())));
    }
    (seen, end)
}

/// What came of a connection, as both ends saw it.
fn record(line: &Line<'_>, start: Instant, near: Seen, far: Seen) -> FlowRecord {
    let program = line.flow.workload.program();
    let up = program.receiver() == End::Server;
    let (connected, error) = (
        near.outcome.connected,
        near.outcome.error.clone().or(far.outcome.error.clone()),
    );
    let (receiver, sender) = if up { (far, near) } else { (near, far) };
    FlowRecord {
        name: line.flow.name.clone(),
        flow: line.index,
        measured: line.flow.is_measured(),
        endless: line.flow.stop.is_some() || program.is_endless(),
        stack: line.options.stack.clone(),
        congestion: line.options.congestion.clone(),
        deterministic: false,
        start,
        stop: line.flow.stop.map(|stop| Instant::ZERO + stop.0),
        connected,
        error,
        sender_wire: sender.wire,
        receiver_wire: receiver.wire,
        homes: Vec::new(),
        paths: Vec::new(),
        up,
        direction: None,
        history: together(&receiver.history, &sender.history),
        window: (Duration::ZERO, Duration::ZERO),
        receiver: receiver.outcome,
    }
}

/// Bytes as the receiver saw them, with the transport as the sender saw it last.
fn together(receiver: &[Sample], sender: &[Sample]) -> Vec<Sample> {
    let with_wire = |sample: &Sample| {
        let later = sender.partition_point(|other| other.at <= sample.at);
        let wire = sender.get(later.saturating_sub(1))?.wire;
        Some(Sample { wire, ..*sample })
    };
    receiver.iter().filter_map(with_wire).collect()
}
