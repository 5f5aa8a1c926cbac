//! What flows do: programs at both ends of a connection, as plain data and as [`Half`]s.
//!
//! Owns: [`Workload`], one file per kind, and the request protocol they share (`fetch.rs`).
//! Does not own: stacks, networks, when a flow begins and ends (`scene`).
//! To add a kind: a file with a struct that implements [`Program`], and a variant of [`Workload`].

mod bulk;
mod fetch;
mod objects;

use serde::{Deserialize, Serialize};

pub use bulk::Bulk;
pub use objects::Objects;

use crate::session::Half;

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
    /// What is wrong with the parameters, by field.
    ///
    /// # Errors
    /// The field and the reason.
    fn validate(&self) -> Result<(), (String, String)> {
        Ok(())
    }
}

/// What a flow does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Workload {
    /// Bytes on one or several streams, as many as stated or without end.
    Bulk(Bulk),
    /// Objects, each on a stream of its own: all at once, a few at a time, or one after the other.
    Objects(Objects),
}

impl Workload {
    /// The programs behind it.
    pub fn program(&self) -> &dyn Program {
        match self {
            Self::Bulk(bulk) => bulk,
            Self::Objects(objects) => objects,
        }
    }
}
