//! Page load: objects that are asked for when those they depend on are complete.
//!
//! Owns: [`Page`], [`Object`] (a node of the dependency graph), the client that walks it. Does not
//! own: the bundled pages (`bundled.rs`), HAR files (`har.rs`), requests and answers (`fetch`).

mod bundled;
mod har;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

pub use har::Recording;
use serde::{Deserialize, Serialize};
use tautline_transport::time::Instant;

use super::{
    Problem, Program, Unready,
    fetch::{Answered, Ask, Asker, Priority, Responder},
    file::{FileError, FileRecord, Inputs, PlanFile},
};
use crate::{
    outcome::Outcome,
    quantity::{Size, Span},
    session::{Half, Happening, Session},
};

/// No page has more objects.
const MAX_OBJECTS: usize = 10_000;

/// A page load over one connection. An item is an object, in the order in which they were wanted;
/// wanted when everything it depends on is complete and was parsed.
///
/// Columns of the client, once the page is complete: `page_load_s`, from the first request to the
/// last byte; `page_byte_index_s`, the mean over the page's bytes of the time from the first
/// request to the end of their object; `page_objects_failed`, answers that were cut short.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Page {
    /// Which page.
    pub page: Content,
    /// Factor on all think and parse times, 0 to 100; 0: only the network takes time. Default 1.
    #[serde(default = "one")]
    pub compute: f64,
    /// Round-trip time of the network on which a HAR file was recorded: it is taken off the think
    /// times, which the file only has with it. Default 0.
    #[serde(default)]
    pub recorded_rtt: Span,
}

const fn one() -> f64 {
    1.0
}

/// Which page.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Content {
    /// Synthetic: 6 objects, 400 KiB, like a search engine's front page.
    #[serde(rename = "objects-6")]
    Objects6,
    /// Synthetic: 30 objects, 1,776 KiB, like a photo site's front page.
    #[serde(rename = "objects-30")]
    Objects30,
    /// Synthetic: 110 objects, 2,400 KiB, like a newspaper's front page.
    #[serde(rename = "objects-110")]
    Objects110,
    /// Synthetic: an encyclopedia's article, 25 objects, 510 kB.
    #[serde(rename = "article")]
    Article,
    /// Synthetic: a news page, 200 objects, 8.2 MB.
    #[serde(rename = "news")]
    News,
    /// A page recorded by a browser (HTTP Archive 1.2).
    #[serde(rename = "har")]
    Har(PlanFile<Recording>),
    /// A page written down in the plan.
    #[serde(rename = "objects")]
    Objects(Vec<Object>),
}

/// An object of a page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Object {
    /// Application bytes of the answer.
    pub bytes: Size,
    /// Application bytes of the request. Default 400.
    #[serde(default = "request_bytes")]
    pub request_bytes: Size,
    /// Objects that must be complete before this one is asked for, by number from 0; only numbers
    /// below this object's own. None: asked for at once.
    #[serde(default)]
    pub depends_on: Vec<u32>,
    /// How long the server thinks before it answers. Default 0.
    #[serde(default)]
    pub think: Span,
    /// How long the client takes after the last of `depends_on` is complete. Default 0.
    #[serde(default)]
    pub parse: Span,
    /// Urgency, 0 first to 7 last (RFC 9218). Default 3.
    #[serde(default = "urgency")]
    pub urgency: u8,
    /// Whether it takes turns with others of its urgency. Default no.
    #[serde(default)]
    pub incremental: bool,
}

const fn request_bytes() -> Size {
    Size(400)
}

const fn urgency() -> u8 {
    3
}

impl Object {
    /// An object of so many bytes that depends on nothing.
    pub const fn new(bytes: u64) -> Self {
        Self {
            bytes: Size(bytes),
            request_bytes: request_bytes(),
            depends_on: Vec::new(),
            think: Span(Duration::ZERO),
            parse: Span(Duration::ZERO),
            urgency: urgency(),
            incremental: false,
        }
    }
}

impl Page {
    /// A load of this page.
    pub const fn new(page: Content) -> Self {
        Self {
            page,
            compute: 1.0,
            recorded_rtt: Span(Duration::ZERO),
        }
    }

    /// The dependency graph: every object after those it depends on.
    ///
    /// # Errors
    /// When the page is a file that was not read.
    pub fn objects(&self) -> Result<Vec<Object>, String> {
        let mut objects = match &self.page {
            Content::Objects6 => bundled::OBJECTS_6.objects(),
            Content::Objects30 => bundled::OBJECTS_30.objects(),
            Content::Objects110 => bundled::OBJECTS_110.objects(),
            Content::Article => bundled::ARTICLE.objects(),
            Content::News => bundled::NEWS.objects(),
            Content::Har(file) => file.get()?.objects(self.recorded_rtt.0),
            Content::Objects(objects) => objects.clone(),
        };
        if self.compute != 1.0 {
            for object in &mut objects {
                for time in [&mut object.think, &mut object.parse] {
                    time.0 = time.0.mul_f64(self.compute);
                }
            }
        }
        Ok(objects)
    }
}

impl Program for Page {
    fn client(&self, _seed: u64) -> Box<dyn Half> {
        match self.objects() {
            Ok(objects) => Box::new(Client::new(objects)),
            Err(reason) => Box::new(Unready(reason)),
        }
    }

    fn server(&self, _seed: u64) -> Box<dyn Half> {
        Box::<Responder>::default()
    }

    fn volume(&self, _seed: u64) -> Option<u64> {
        let objects = self.objects().ok()?;
        let each = |object: &Object| object.bytes.0.saturating_add(object.request_bytes.0);
        Some(objects.iter().map(each).fold(0, u64::saturating_add))
    }

    fn validate(&self) -> Result<(), Problem> {
        if !(0.0..=100.0).contains(&self.compute) {
            let reason = format!("{} is not between 0 and 100", self.compute);
            return Err(("compute".to_owned(), reason));
        }
        let Content::Objects(objects) = &self.page else {
            return Ok(());
        };
        if objects.is_empty() || objects.len() > MAX_OBJECTS {
            let reason = format!("{} objects are not 1 to {MAX_OBJECTS}", objects.len());
            return Err(("page.objects".to_owned(), reason));
        }
        for (index, object) in objects.iter().enumerate() {
            let wrong =
                |field: &str, reason| Err((format!("page.objects[{index}].{field}"), reason));
            if object.urgency > 7 {
                return wrong("urgency", format!("{} is above 7", object.urgency));
            }
            let late = object.depends_on.iter().find(|on| **on as usize >= index);
            if let Some(on) = late {
                let reason = format!("{on} does not stand before object {index}");
                return wrong("depends_on", reason);
            }
        }
        Ok(())
    }

    fn resolve(&mut self, inputs: &Inputs) -> Result<(), FileError> {
        match &mut self.page {
            Content::Har(file) => file.load(inputs),
            _ => Ok(()),
        }
    }

    fn files(&self) -> Vec<FileRecord> {
        match &self.page {
            Content::Har(file) => vec![file.record()],
            _ => Vec::new(),
        }
    }
}

struct Client {
    objects: Arc<[Object]>,
    /// By object: how many of those it depends on are not complete.
    missing: Vec<u32>,
    /// By object: which depend on it.
    dependents: Vec<Vec<usize>>,
    /// Objects whose dependencies are being parsed, and until when.
    parsing: BTreeSet<(Instant, usize)>,
    /// By item: which object.
    asked: Vec<usize>,
    ended: usize,
    failed: usize,
    began: Option<Instant>,
    asker: Asker,
}

impl Client {
    fn new(objects: Vec<Object>) -> Self {
        let mut dependents = vec![Vec::new(); objects.len()];
        let mut missing = vec![0; objects.len()];
        for (index, object) in objects.iter().enumerate() {
            for on in object.depends_on.iter().collect::<BTreeSet<_>>() {
                if let Some(list) = dependents
                    .get_mut(*on as usize)
                    .filter(|_| (*on as usize) < index)
                {
                    list.push(index);
                    missing[index] += 1;
                }
            }
        }
        Self {
            objects: objects.into(),
            missing,
            dependents,
            parsing: BTreeSet::new(),
            asked: Vec::new(),
            ended: 0,
            failed: 0,
            began: None,
            asker: Asker::default(),
        }
    }

    fn start(&mut self, session: &mut dyn Session) {
        self.began = Some(session.now());
        for index in 0..self.objects.len() {
            if self.missing[index] == 0 {
                self.unlock(session, index);
            }
        }
    }

    /// Everything that the object depends on is complete.
    fn unlock(&mut self, session: &mut dyn Session, index: usize) {
        let parse = self.objects[index].parse.0;
        if parse.is_zero() {
            self.ask(session, index);
        } else {
            self.parsing.insert((session.now() + parse, index));
        }
    }

    fn ask(&mut self, session: &mut dyn Session, index: usize) {
        let object = &self.objects[index];
        let ask = Ask {
            answer_bytes: object.bytes.0,
            body_bytes: object.request_bytes.0,
            think: object.think.0,
            priority: Priority {
                urgency: object.urgency,
                incremental: object.incremental,
            },
        };
        let item = self.asker.ask(session, ask);
        // An item of a page is its answer, however long the request.
        if let Some(item) = self.asker.outcome.items.get_mut(item) {
            item.bytes = object.bytes.0;
        }
        self.asked.push(index);
    }

    fn answered(&mut self, session: &mut dyn Session, answered: Answered) {
        self.ended += 1;
        self.failed += usize::from(!answered.complete);
        if let Some(&index) = self.asked.get(answered.item) {
            // A browser goes on without what it cannot have.
            for dependent in std::mem::take(&mut self.dependents[index]) {
                self.missing[dependent] -= 1;
                if self.missing[dependent] == 0 {
                    self.unlock(session, dependent);
                }
            }
        }
        if self.ended == self.objects.len() {
            self.finish(session);
        }
    }

    fn finish(&mut self, session: &mut dyn Session) {
        let now = session.now();
        let outcome = &mut self.asker.outcome;
        outcome.finished = Some(now);
        let began = self.began.unwrap_or(now);
        let (mut bytes, mut weighted) = (0.0, 0.0);
        for item in &outcome.items {
            let end = item.done.unwrap_or(now).saturating_since(began);
            bytes += item.bytes as f64;
            weighted += item.bytes as f64 * end.as_secs_f64();
        }
        let load = now.saturating_since(began).as_secs_f64();
        let index = if bytes > 0.0 { weighted / bytes } else { load };
        let extra = &mut outcome.extra;
        extra.insert("page_load_s", load);
        extra.insert("page_byte_index_s", index);
        extra.insert("page_objects_failed", self.failed as f64);
        session.close();
    }
}

impl Half for Client {
    fn on(&mut self, session: &mut dyn Session, happening: Happening) {
        let connected = happening == Happening::Connected;
        if matches!(happening, Happening::Closed(_)) {
            self.parsing.clear();
        }
        if let Some(answered) = self.asker.on(session, happening) {
            self.answered(session, answered);
        }
        if connected {
            self.start(session);
        }
    }

    fn on_timer(&mut self, session: &mut dyn Session) {
        while let Some(&(at, index)) = self.parsing.first()
            && at <= session.now()
        {
            self.parsing.pop_first();
            self.ask(session, index);
        }
    }

    fn poll_timer(&self) -> Option<Instant> {
        self.parsing.first().map(|(at, _)| *at)
    }

    fn received_bytes(&self) -> u64 {
        self.asker.outcome.received_bytes
    }

    fn outcome(&self) -> Outcome {
        self.asker.outcome.clone()
    }

    fn is_over(&self) -> bool {
        self.asker.outcome.finished.is_some() || self.asker.outcome.error.is_some()
    }
}

#[cfg(test)]
mod tests;
