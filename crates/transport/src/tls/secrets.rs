//! Traffic secrets as TLS reports them.
//!
//! rustls derives packet keys with the labels of the version that a session was started with. A
//! connection that moves to another version on the way (RFC 9368) needs keys from the same
//! secrets with other labels. The only place where rustls shows the secrets is its key log.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rustls::{KeyLog, crypto::tls13::OkmBlock};

/// Both sides' secrets of one level. Wiped when dropped.
#[derive(Default)]
pub(super) struct SecretPair {
    pub(super) client: Option<OkmBlock>,
    pub(super) server: Option<OkmBlock>,
}

#[derive(Default)]
struct Captured {
    handshake: SecretPair,
    application: SecretPair,
    /// Whether handshake secrets ever existed; outlives their removal.
    handshake_known: bool,
}

/// A key log that keeps a session's traffic secrets and passes everything on to the user's.
pub(super) struct SecretCapture {
    user: Arc<dyn KeyLog>,
    captured: Mutex<Captured>,
}

impl SecretCapture {
    pub(super) fn new(user: Arc<dyn KeyLog>) -> Self {
        Self {
            user,
            captured: Mutex::default(),
        }
    }

    fn captured(&self) -> MutexGuard<'_, Captured> {
        self.captured.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether TLS has moved on from the Initial level.
    pub(super) fn handshake_known(&self) -> bool {
        self.captured().handshake_known
    }

    /// Removes and returns the handshake traffic secrets.
    pub(super) fn take_handshake(&self) -> SecretPair {
        std::mem::take(&mut self.captured().handshake)
    }

    /// Removes and returns the application traffic secrets.
    pub(super) fn take_application(&self) -> SecretPair {
        std::mem::take(&mut self.captured().application)
    }
}

impl fmt::Debug for SecretCapture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretCapture")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

const CLIENT_HANDSHAKE: &str = "CLIENT_HANDSHAKE_TRAFFIC_SECRET";
const SERVER_HANDSHAKE: &str = "SERVER_HANDSHAKE_TRAFFIC_SECRET";
const CLIENT_APPLICATION: &str = "CLIENT_TRAFFIC_SECRET_0";
const SERVER_APPLICATION: &str = "SERVER_TRAFFIC_SECRET_0";
/// The longest hash any TLS 1.3 suite may use, in bytes.
const MAX_SECRET_LEN: usize = 64;

impl KeyLog for SecretCapture {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        if secret.len() <= MAX_SECRET_LEN {
            let mut captured = self.captured();
            let slot = match label {
                CLIENT_HANDSHAKE => Some(&mut captured.handshake.client),
                SERVER_HANDSHAKE => Some(&mut captured.handshake.server),
                CLIENT_APPLICATION => Some(&mut captured.application.client),
                SERVER_APPLICATION => Some(&mut captured.application.server),
                _ => None,
            };
            if let Some(slot) = slot {
                *slot = Some(OkmBlock::new(secret));
                captured.handshake_known = true;
            }
        }
        if self.user.will_log(label) {
            self.user.log(label, client_random, secret);
        }
    }

    fn will_log(&self, label: &str) -> bool {
        matches!(
            label,
            CLIENT_HANDSHAKE | SERVER_HANDSHAKE | CLIENT_APPLICATION | SERVER_APPLICATION
        ) || self.user.will_log(label)
    }
}
