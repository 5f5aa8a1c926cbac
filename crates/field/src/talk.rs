//! What both machines say to each other on their control connection.
//!
//! One bidirectional stream, opened by the near end: asks there, an answer to each back. A message is its
//! length (4 bytes, big-endian) and so many bytes of JSON. A reader takes no more than it says it will.
//!
//! Owns: [`Ask`], [`Answer`] and their parts, [`write`], [`read`], the protocol's names and version. Does
//! not own: who says what when (`far`, `near`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tautline::{Bytes, RecvStream, SendStream};
use tautline_lab::{stack::StackOptions, workload::Workload};

use crate::forms::SeenForm;

/// ALPN of control connections, the same in every version: who speaks another one is told so.
pub(crate) const CONTROL: &str = "tautline-field";
/// ALPN of a run's connections.
pub(crate) const RUN: &str = "tautline-field-run";
/// The version of what is said here.
pub(crate) const VERSION: u32 = 1;

/// Longest message of somebody who has not shown the token.
pub(crate) const STRANGER_BYTES: usize = 4 << 10;
/// Longest ask: a run with the files that its workloads name.
pub(crate) const ASK_BYTES: usize = 8 << 20;
/// Longest answer: what was seen of a run, items and all.
pub(crate) const ANSWER_BYTES: usize = 256 << 20;

/// From the machine with the plan.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case")]
pub(crate) enum Ask {
    /// The first on a control connection.
    Hello(Hello),
    /// Instead of it: the next connection from this address and port is that of a run.
    Knock { key: String },
    /// What time is it there?
    Clock,
    /// Get a run ready.
    Prepare(Box<RunAsk>),
    /// The run that is ready begins at this time of the far end's clock.
    Begin { zero_nanos: u64 },
    /// The run is over.
    Finish,
}

/// From the machine that waits.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub(crate) enum Answer {
    /// To [`Ask::Hello`].
    Hello(Hello),
    /// To [`Ask::Knock`] and [`Ask::Begin`].
    Done,
    /// To [`Ask::Clock`].
    Clock { nanos: u64 },
    /// To [`Ask::Prepare`]: what to knock with for each connection.
    Prepared { keys: Vec<String> },
    /// To [`Ask::Finish`]: of each connection.
    Seen { flows: Vec<SeenForm> },
    /// To anything: no, and why.
    Refused { reason: String },
}

/// Who one is.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Hello {
    /// [`VERSION`]
    pub(crate) version: u32,
    /// The laboratory, whose figures can stand beside those of the same alone.
    pub(crate) laboratory: String,
    /// That one has the token: `trust::proof`.
    pub(crate) proof: String,
}

/// A run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RunAsk {
    /// When it ends at the latest.
    pub(crate) limit_nanos: u64,
    /// Time between two samples.
    pub(crate) sample_nanos: u64,
    /// Its connections.
    pub(crate) flows: Vec<FlowAsk>,
    /// What its workloads' files hold, by the path that the plan has.
    pub(crate) files: BTreeMap<String, String>,
}

/// A connection of a run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct FlowAsk {
    pub(crate) workload: Workload,
    pub(crate) options: StackOptions,
    /// The client's.
    pub(crate) seed: u64,
}

/// Why nothing (more) was said.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TalkError {
    /// The stream or the connection is over.
    #[error("the control connection is over: {0}")]
    Over(String),
    /// A message is longer than its reader takes.
    #[error("a message of {bytes} bytes; at most {most} are taken")]
    TooLong { bytes: usize, most: usize },
    /// Not what is said here.
    #[error("what came cannot be understood: {0}")]
    Garbled(String),
}

/// A message as it is sent.
pub(crate) fn encode(message: &impl Serialize, most: usize) -> Result<Bytes, TalkError> {
    let mut text = vec![0; 4];
    serde_json::to_writer(&mut text, message)
        .map_err(|error| TalkError::Garbled(error.to_string()))?;
    let bytes = text.len() - 4;
    let length = u32::try_from(bytes).ok().filter(|_| bytes <= most);
    let length = length.ok_or(TalkError::TooLong { bytes, most })?;
    if let Some(head) = text.first_chunk_mut::<4>() {
        *head = length.to_be_bytes();
    }
    Ok(text.into())
}

/// Says something. Not cancel safe.
pub(crate) async fn write(send: &mut SendStream, message: Bytes) -> Result<(), TalkError> {
    let written = send.write_chunk(message).await;
    written.map_err(|error| TalkError::Over(error.to_string()))
}

/// Hears something of at most `most` bytes. Not cancel safe.
pub(crate) async fn read<T: DeserializeOwned>(
    recv: &mut RecvStream,
    most: usize,
) -> Result<T, TalkError> {
    let over = |error: tautline::ReadExactError| TalkError::Over(error.to_string());
    let mut head = [0; 4];
    recv.read_exact(&mut head).await.map_err(over)?;
    let bytes = u32::from_be_bytes(head) as usize;
    if bytes > most {
        return Err(TalkError::TooLong { bytes, most });
    }
    // Memory is taken for what has come, not for what is announced.
    let mut text = Vec::new();
    while text.len() < bytes {
        let chunk = recv.read_chunk(bytes - text.len()).await;
        match chunk.map_err(|error| TalkError::Over(error.to_string()))? {
            Some(chunk) => text.extend_from_slice(&chunk),
            None => return Err(TalkError::Over("it ended within a message".to_owned())),
        }
    }
    serde_json::from_slice(&text).map_err(|error| TalkError::Garbled(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_bounded_where_they_are_made() {
        let answer = |length: usize| Answer::Refused {
            reason: "x".repeat(length),
        };
        let message = encode(&answer(10), 100).unwrap();
        let length = u32::from_be_bytes(*message.first_chunk::<4>().unwrap());
        assert_eq!(message.len(), 4 + length as usize);
        let error = encode(&answer(200), 100).unwrap_err();
        assert!(
            matches!(error, TalkError::TooLong { most: 100, .. }),
            "{error}"
        );
    }

    /// Each kind of workload comes over as it was.
    #[test]
    fn workloads_come_over() {
        use std::path::Path;

        use tautline_lab::{
            bundled,
            plan::{Plan, ReadOptions},
            stack::Stacks,
        };

        let stacks = Stacks::default();
        let mut kinds = std::collections::BTreeSet::new();
        for bundled in bundled::PLANS {
            let options = ReadOptions::default();
            let plan = Plan::parse(bundled.text, Path::new("."), &options, &stacks).unwrap();
            let scene = plan.scene(&plan.cell(0).unwrap(), &stacks).unwrap();
            for flow in &scene.flows {
                let text = serde_json::to_string(&flow.workload).unwrap();
                let back: Workload = serde_json::from_str(&text).unwrap();
                let again = serde_json::to_string(&back).unwrap();
                assert_eq!(text, again, "{}", bundled.name);
                kinds.insert(text.split('"').nth(3).unwrap_or_default().to_owned());
            }
            for (_, options) in &plan.solutions {
                let text = serde_json::to_string(options).unwrap();
                let back: StackOptions = serde_json::from_str(&text).unwrap();
                assert_eq!(back, *options, "{}", bundled.name);
            }
        }
        assert_eq!(kinds.len(), 7, "{kinds:?}");
    }
}
