//! Pages recorded by browsers: HTTP Archive 1.2 files.
//!
//! What becomes of an entry:
//!
//! - **Object**: every entry fetched over HTTP, whatever its origin; all of them travel on the one
//!   connection. `data:`, `blob:`, extension and WebSocket entries are left out. An entry from the
//!   browser's cache, or that failed (status 0), moves no bytes: it is no object, and what depends
//!   on it depends on what it depends on.
//! - **Bytes**: `response._transferSize` where it is positive (Chrome: headers and encoded body),
//!   else `headersSize` + `bodySize` of the response, as far as they are not negative; when that is
//!   0, `content.size`.
//! - **Request bytes**: `headersSize` + `bodySize` of the request as far as they are not negative;
//!   400 when that is 0.
//! - **Think time**: `timings.wait`, less the round-trip time stated in the plan: the wait was
//!   measured at the client, from the end of the request to the first byte of the answer.
//! - **Dependency**, the first of these that names an earlier entry (the latest such entry, when a
//!   URL was fetched several times):
//!   1. the entry whose `response.redirectURL` led to this URL;
//!   2. `_initiator.url` (Chrome writes it for what the parser found), or `_initiator` itself where
//!      it is a URL (other programs write it so);
//!   3. the frames of `_initiator.stack`, innermost first, then those of its `parent` stacks (for
//!      what a script asked for);
//!   4. the `Referer` header of the request (files without `_initiator`);
//!   5. the first entry of the page, if it was complete before this one began; a page's first entry
//!      depends on nothing.
//! - **Parse time**: from the end of the dependency to the beginning of this entry, as recorded; 0
//!   when this one began earlier, because a browser reads documents while they arrive: here it is
//!   asked for when the whole dependency is there, hence later than it could be.
//! - **Urgency**: `_priority`: `VeryHigh` 0, `High` 1, `Medium` 2, `Low` 3, `VeryLow` 4; else 3.
//!
//! Owns: [`Recording`], the rules above. Does not own: what is done with the objects.

mod date;
mod format;

use std::{collections::BTreeMap, time::Duration};

use date::date_time;
use format::{Entry, File, Initiator, Number};

use super::{MAX_OBJECTS, Object, request_bytes, urgency};
use crate::{
    quantity::{Size, Span},
    workload::file::{Fault, Parse},
};

/// No parse or think time is longer: what waited for a person is no page load.
const LONGEST: Duration = Duration::from_secs(60);
/// No object and no request is larger.
const LARGEST: f64 = 4e9;
/// Frames and parents of a call stack that are looked at.
const MAX_FRAMES: usize = 256;

/// A recorded page.
#[derive(Clone, Debug, PartialEq)]
pub struct Recording {
    objects: Vec<Object>,
}

impl Recording {
    /// The page; `rtt` is taken off every wait.
    pub fn objects(&self, rtt: Duration) -> Vec<Object> {
        let shorter = |object: &Object| Object {
            think: Span(object.think.0.saturating_sub(rtt)),
            ..object.clone()
        };
        self.objects.iter().map(shorter).collect()
    }
}

impl Parse for Recording {
    const MAX_BYTES: u64 = 256 << 20;

    fn parse(content: &[u8]) -> Result<Self, Fault> {
        // Some programs write a byte order mark, which JSON does not have.
        let content = content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(content);
        let file: File = serde_json::from_slice(content)
            .map_err(|error| Fault::at(error.line(), format!("is not an HTTP Archive: {error}")))?;
        let mut entries = Vec::new();
        for (number, entry) in file.log.entries.iter().enumerate() {
            let timed = Timed::new(entry)
                .map_err(|reason| Fault::whole(format!("log.entries[{number}]: {reason}")))?;
            entries.push(timed);
        }
        entries.retain(|timed| timed.over_http());
        entries.sort_by(|a, b| a.began.total_cmp(&b.began));
        let objects = graph(&entries);
        if objects.is_empty() {
            return Err(Fault::whole("has no entry that was fetched over HTTP"));
        }
        if objects.len() > MAX_OBJECTS {
            let reason = format!("has {} entries, more than {MAX_OBJECTS}", objects.len());
            return Err(Fault::whole(reason));
        }
        Ok(Self { objects })
    }
}

/// An entry or an ancestor that stands for it.
#[derive(Clone, Copy)]
struct Stand {
    /// The object.
    object: Option<usize>,
    /// When it was complete, in milliseconds.
    end: f64,
}

/// Objects from entries in order of time.
fn graph(entries: &[Timed<'_>]) -> Vec<Object> {
    let mut objects: Vec<Object> = Vec::new();
    let mut stands: Vec<Stand> = Vec::new();
    // The latest entry so far of each URL, and of each target of a redirection.
    let mut by_url: BTreeMap<&str, usize> = BTreeMap::new();
    let mut redirected: BTreeMap<String, usize> = BTreeMap::new();
    for (index, timed) in entries.iter().enumerate() {
        let entry = timed.entry;
        let url = without_fragment(&entry.request.url);
        let found = redirected.get(url).or_else(|| {
            let mut names = timed.initiators();
            names.find_map(|name| by_url.get(without_fragment(name)))
        });
        let found = found.copied().and_then(|found| stands.get(found).copied());
        let first = stands.first().copied();
        let on = found.or_else(|| first.filter(|first| first.end <= timed.began));
        let parent = on.and_then(|on| on.object);
        if timed.moved_nothing() {
            stands.push(Stand {
                object: parent,
                end: on.map_or(timed.began, |on| on.end),
            });
        } else {
            let parse = on.map_or(0.0, |on| timed.began - on.end);
            stands.push(Stand {
                object: Some(objects.len()),
                end: timed.end(),
            });
            objects.push(timed.object(parent, parse));
        }
        by_url.insert(url, index);
        if let Some(target) = entry.response.redirect_url.as_deref()
            && !target.is_empty()
        {
            redirected.insert(absolute(url, without_fragment(target)), index);
        }
    }
    objects
}

fn without_fragment(url: &str) -> &str {
    url.split('#').next().unwrap_or(url)
}

/// The target of a redirection; one that is an absolute path is of the same origin. Other relative
/// targets find no entry, which leaves theirs to its initiator.
fn absolute(url: &str, target: &str) -> String {
    let host = url.find("://").map_or(0, |at| at + 3);
    let origin = url.get(host..).and_then(|rest| rest.find('/'));
    let origin = origin.map_or(url, |length| url.get(..host + length).unwrap_or(url));
    if target.starts_with('/') && !target.starts_with("//") {
        format!("{origin}{target}")
    } else {
        target.to_owned()
    }
}

/// Milliseconds of a file as a time.
fn millis(value: f64) -> Duration {
    if value.is_finite() && value > 0.0 {
        let micros = (value * 1e3).round().min(LONGEST.as_micros() as f64);
        Duration::from_micros(micros as u64)
    } else {
        Duration::ZERO
    }
}

/// The sum of the sizes that are known.
fn bytes<const PARTS: usize>(parts: [Number; PARTS]) -> u64 {
    let parts = parts.into_iter().map(Number::get);
    let known = parts.filter(|part| part.is_finite());
    known.map(|part| part.clamp(0.0, LARGEST) as u64).sum()
}

/// An entry and its time in milliseconds.
struct Timed<'a> {
    entry: &'a Entry,
    began: f64,
}

impl<'a> Timed<'a> {
    fn new(entry: &'a Entry) -> Result<Self, String> {
        let text = &entry.started_date_time;
        let began = date_time(text).ok_or_else(|| {
            let text: String = text.chars().take(40).collect();
            format!("startedDateTime {text:?} is not a time such as 2026-01-31T12:00:00.000Z")
        })?;
        Ok(Self { entry, began })
    }

    fn over_http(&self) -> bool {
        let url = &self.entry.request.url;
        url.starts_with("http://") || url.starts_with("https://")
    }

    fn end(&self) -> f64 {
        let time = self.entry.time.get();
        self.began + if time.is_finite() { time.max(0.0) } else { 0.0 }
    }

    fn moved_nothing(&self) -> bool {
        let from_cache = |cache: &String| cache == "disk" || cache == "memory";
        self.entry.from_cache.as_ref().is_some_and(from_cache) || self.entry.response.status == 0
    }

    /// Names of what asked for this entry, the best first.
    fn initiators(&self) -> impl Iterator<Item = &'a str> {
        let (url, stack) = match &self.entry.initiator {
            None => (None, None),
            Some(Initiator::Url(url)) => (Some(url), None),
            Some(Initiator::Detail { url, stack }) => (url.as_ref(), stack.as_ref()),
        };
        let url = url.map(String::as_str);
        let stacks = std::iter::successors(stack, |stack| stack.parent.as_deref());
        let frames = stacks
            .take(MAX_FRAMES)
            .flat_map(|stack| stack.call_frames.iter().take(MAX_FRAMES))
            .filter_map(|frame| frame.url.as_deref());
        let headers = self.entry.request.headers.iter();
        let referer = headers
            .filter(|header| header.name.eq_ignore_ascii_case("referer"))
            .map(|header| header.value.as_str());
        url.into_iter().chain(frames).chain(referer)
    }

    fn object(&self, parent: Option<usize>, parse: f64) -> Object {
        let Entry {
            request, response, ..
        } = self.entry;
        let answer = match bytes([response.transfer_size]) {
            0 => match bytes([response.headers_size, response.body_size]) {
                0 => bytes([response.content.size]),
                known => known,
            },
            known => known,
        };
        let asked = match bytes([request.headers_size, request.body_size]) {
            0 => request_bytes().0,
            known => known,
        };
        Object {
            bytes: Size(answer),
            request_bytes: Size(asked),
            depends_on: parent.map(|parent| parent as u32).into_iter().collect(),
            think: Span(millis(self.entry.timings.wait.get())),
            parse: Span(millis(parse)),
            urgency: match self.entry.priority.as_deref() {
                Some("VeryHigh") => 0,
                Some("High") => 1,
                Some("Medium") => 2,
                Some("VeryLow") => 4,
                _ => urgency(),
            },
            incremental: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn redirections_lead_to_absolute_urls() {
        let to = |target| absolute("https://a.example:8/b/c", target);
        assert_eq!(to("/d"), "https://a.example:8/d");
        assert_eq!(to("http://e/"), "http://e/");
        assert_eq!(absolute("https://a", "/d"), "https://a/d");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(content in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Recording::parse(&content);
        }
    }
}
