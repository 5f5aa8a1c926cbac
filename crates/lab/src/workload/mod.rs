//! What flows do: programs at both ends of a connection, as plain data and as [`Half`]s.
//!
//! Owns: [`Workload`], one file per kind, and the request protocol they share (`fetch.rs`).
//! Does not own: stacks, networks, when a flow begins and ends (`scene`).
//! To add a kind: a file with a struct that implements [`Program`], and a variant of [`Workload`].

pub mod amount;
mod bulk;
pub mod columns;
mod datagrams;
#[cfg(test)]
mod disorder;
mod fetch;
pub mod file;
pub mod messages;
mod objects;
pub mod page;
#[cfg(test)]
mod tests;
mod urgent;
pub mod video;

pub use bulk::Bulk;
pub use datagrams::Datagrams;
use file::{FileError, FileRecord, Inputs};
pub use messages::Messages;
pub use objects::Objects;
pub use page::Page;
use serde::{Deserialize, Serialize};
pub use urgent::Urgent;
pub use video::Video;

use crate::{
    outcome::Outcome,
    reading::{Misread, read},
    session::{Half, Happening, Session},
};

/// Which end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The one that connects.
    Client,
    /// The one that accepts.
    Server,
}

impl End {
    /// The other one.
    pub const fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// Which way most bytes go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// From server to client.
    #[default]
    Down,
    /// From client to server.
    Up,
}

impl Direction {
    /// The end that receives most.
    pub const fn receiver(self) -> End {
        match self {
            Self::Down => End::Client,
            Self::Up => End::Server,
        }
    }
}

/// What is wrong with the parameters of a workload: the field and the reason.
pub type Problem = (String, String);

/// A kind of traffic with its parameters.
pub trait Program {
    /// The program that connects. `seed` decides what is random in it.
    fn client(&self, seed: u64) -> Box<dyn Half>;
    /// The program that accepts. `seed` is the client's.
    fn server(&self, seed: u64) -> Box<dyn Half>;
    /// The end whose outcome counts; the other one's congestion control is looked at.
    fn receiver(&self) -> End {
        End::Client
    }
    /// Whether it goes on until it is cut off.
    fn is_endless(&self) -> bool {
        false
    }
    /// Application bytes that both ends together hand to their transports at most, but for the few around
    /// each request; `None` if time is the only bound. `seed` is the client's.
    fn volume(&self, seed: u64) -> Option<u64>;
    /// Application bytes of each unreliable datagram that it sends; `None` if it sends none.
    fn datagram_bytes(&self) -> Option<u64> {
        None
    }
    /// What is wrong with the parameters, by field.
    ///
    /// # Errors
    /// The field and the reason.
    fn validate(&self) -> Result<(), Problem> {
        Ok(())
    }
    /// Reads the files that the parameters name from where the plan's are, so that a run touches no
    /// disk. A workload that was not resolved ends at once, with an error.
    ///
    /// # Errors
    /// The file, the line where one is to blame, and the reason.
    fn resolve(&mut self, _inputs: &Inputs) -> Result<(), FileError> {
        Ok(())
    }
    /// The files that the parameters name, with the hash of what was read.
    fn files(&self) -> Vec<FileRecord> {
        Vec::new()
    }
}

/// Either end of a workload that cannot run.
struct Unready(String);

impl Half for Unready {
    fn on(&mut self, session: &mut dyn Session, _happening: Happening) {
        session.close();
    }

    fn outcome(&self) -> Outcome {
        Outcome {
            error: Some(self.0.clone()),
            ..Outcome::default()
        }
    }
}

/// What a flow does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Workload {
    /// Bytes on one or several streams, as many as stated or without end.
    Bulk(Bulk),
    /// Unreliable datagrams at a constant bit rate.
    Datagrams(Datagrams),
    /// Messages by a trace, each on a stream of its own.
    Messages(Messages),
    /// Requests and answers, each on a stream of its own: all at once, a few at a time, one after
    /// the other, or at set intervals.
    Objects(Objects),
    /// A page: objects that depend on each other.
    Page(Page),
    /// A transfer, and small urgent objects that are asked for while it runs.
    Urgent(Urgent),
    /// A video that is watched while it loads.
    Video(Video),
}

impl Workload {
    /// Reads one from a plan, by its kind first, so that faults inside have a place.
    pub(crate) fn read(value: &toml::Value) -> Result<Self, Misread> {
        let mut inner = value.clone();
        let kind = inner.as_table_mut().and_then(|table| table.remove("kind"));
        match kind.as_ref().and_then(toml::Value::as_str) {
            Some("bulk") => read(inner).map(Self::Bulk),
            Some("datagrams") => read(inner).map(Self::Datagrams),
            Some("messages") => read(inner).map(Self::Messages),
            Some("objects") => read(inner).map(Self::Objects),
            Some("page") => read(inner).map(Self::Page),
            Some("urgent") => read(inner).map(Self::Urgent),
            Some("video") => read(inner).map(Self::Video),
            // Serde has the words for a kind that is not there.
            _ => read(value.clone()),
        }
    }

    /// The programs behind it.
    pub fn program(&self) -> &dyn Program {
        match self {
            Self::Bulk(it) => it,
            Self::Datagrams(it) => it,
            Self::Messages(it) => it,
            Self::Objects(it) => it,
            Self::Page(it) => it,
            Self::Urgent(it) => it,
            Self::Video(it) => it,
        }
    }

    /// As [`Program::resolve`].
    ///
    /// # Errors
    /// The file, the line where one is to blame, and the reason.
    pub fn resolve(&mut self, inputs: &Inputs) -> Result<(), FileError> {
        match self {
            Self::Bulk(it) => it.resolve(inputs),
            Self::Datagrams(it) => it.resolve(inputs),
            Self::Messages(it) => it.resolve(inputs),
            Self::Objects(it) => it.resolve(inputs),
            Self::Page(it) => it.resolve(inputs),
            Self::Urgent(it) => it.resolve(inputs),
            Self::Video(it) => it.resolve(inputs),
        }
    }
}
