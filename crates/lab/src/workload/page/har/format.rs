//! The parts of an HTTP Archive file that matter here. Everything else in it is passed over.

use serde::Deserialize;

/// A number that may be missing or null.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(transparent)]
pub(super) struct Number(Option<f64>);

impl Number {
    /// The number; -1, which the format also writes for it, when it is not known.
    pub(super) fn get(self) -> f64 {
        self.0.unwrap_or(-1.0)
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct File {
    pub(super) log: Log,
}

#[derive(Debug, Deserialize)]
pub(super) struct Log {
    pub(super) entries: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Entry {
    pub(super) started_date_time: String,
    #[serde(default)]
    pub(super) time: Number,
    pub(super) request: Request,
    pub(super) response: Response,
    #[serde(default)]
    pub(super) timings: Timings,
    #[serde(default, rename = "_initiator")]
    pub(super) initiator: Option<Initiator>,
    #[serde(default, rename = "_priority")]
    pub(super) priority: Option<String>,
    #[serde(default, rename = "_fromCache")]
    pub(super) from_cache: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Request {
    pub(super) url: String,
    #[serde(default)]
    pub(super) headers: Vec<Header>,
    #[serde(default)]
    pub(super) headers_size: Number,
    #[serde(default)]
    pub(super) body_size: Number,
}

#[derive(Debug, Deserialize)]
pub(super) struct Header {
    pub(super) name: String,
    #[serde(default)]
    pub(super) value: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Response {
    #[serde(default)]
    pub(super) status: i64,
    #[serde(default, rename = "redirectURL")]
    pub(super) redirect_url: Option<String>,
    #[serde(default)]
    pub(super) headers_size: Number,
    #[serde(default)]
    pub(super) body_size: Number,
    #[serde(default, rename = "_transferSize")]
    pub(super) transfer_size: Number,
    #[serde(default)]
    pub(super) content: Body,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Body {
    #[serde(default)]
    pub(super) size: Number,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Timings {
    #[serde(default)]
    pub(super) wait: Number,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Initiator {
    Url(String),
    Detail {
        #[serde(default)]
        url: Option<String>,
        #[serde(default)]
        stack: Option<Stack>,
    },
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Stack {
    #[serde(default)]
    pub(super) call_frames: Vec<Frame>,
    #[serde(default)]
    pub(super) parent: Option<Box<Stack>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Frame {
    #[serde(default)]
    pub(super) url: Option<String>,
}
