//! TLS whose transport parameters are not what the connection wanted to say.

use std::sync::atomic::{AtomicU8, Ordering};

use tautline_transport::{
    tls::{ClientSessionFactory, Keys, ServerSessionFactory, Session, StartError},
    units::Side,
    wire::{ConnectionId, Reader, Version},
};

use crate::null_tls::{NullClient, NullServer};

/// A change of encoded transport parameters.
#[derive(Clone, Debug)]
pub(super) struct Edit {
    /// Which parameter is taken out; or one of the constants below.
    pub(super) remove: u8,
    /// What is appended.
    pub(super) append: Vec<u8>,
    /// How many sessions keep their parameters before the change begins.
    pub(super) spared: u8,
}

/// Nothing is taken out.
pub(crate) const REMOVE_NONE: u8 = 255;
/// Everything is taken out.
pub(crate) const REMOVE_ALL: u8 = 254;
/// Not even a session starts.
pub(crate) const NO_SESSION: u8 = 253;

impl Edit {
    fn apply(&self, params: &[u8]) -> Vec<u8> {
        let mut edited = Vec::new();
        let mut r = Reader::new(params);
        while !r.is_empty() && self.remove != REMOVE_ALL {
            let start = r.offset();
            let Ok(id) = r.varint() else { break };
            if r.varint_prefixed().is_err() {
                break;
            }
            if id != u64::from(self.remove) {
                edited.extend_from_slice(&params[start..r.offset()]);
            }
        }
        edited.extend_from_slice(&self.append);
        edited
    }
}

/// The parameters of the session that starts now.
fn edited(edit: Option<&Edit>, started: &AtomicU8, params: Vec<u8>) -> Result<Vec<u8>, StartError> {
    let count = started.fetch_add(1, Ordering::Relaxed);
    match edit {
        Some(edit) if count >= edit.spared => {
            if edit.remove == NO_SESSION {
                return Err(StartError::InvalidServerName("none".to_owned()));
            }
            Ok(edit.apply(&params))
        }
        _ => Ok(params),
    }
}

/// A null client that says something else.
#[derive(Debug)]
pub(super) struct EditedClient {
    pub(super) inner: NullClient,
    pub(super) edit: Option<Edit>,
    pub(super) started: AtomicU8,
}

impl ClientSessionFactory for EditedClient {
    fn start(
        &self,
        version: Version,
        server_name: &str,
        params: Vec<u8>,
    ) -> Result<Box<dyn Session>, StartError> {
        let params = edited(self.edit.as_ref(), &self.started, params)?;
        self.inner.start(version, server_name, params)
    }

    fn initial_keys(&self, version: Version, dcid: &ConnectionId, side: Side) -> Keys {
        ClientSessionFactory::initial_keys(&self.inner, version, dcid, side)
    }
}

/// A null server that says something else.
#[derive(Debug)]
pub(super) struct EditedServer {
    pub(super) inner: NullServer,
    pub(super) edit: Option<Edit>,
    pub(super) started: AtomicU8,
}

impl ServerSessionFactory for EditedServer {
    fn start(&self, version: Version, params: Vec<u8>) -> Result<Box<dyn Session>, StartError> {
        let params = edited(self.edit.as_ref(), &self.started, params)?;
        self.inner.start(version, params)
    }

    fn initial_keys(&self, version: Version, dcid: &ConnectionId, side: Side) -> Keys {
        ServerSessionFactory::initial_keys(&self.inner, version, dcid, side)
    }
}
