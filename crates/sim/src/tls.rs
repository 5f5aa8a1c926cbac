//! TLS that repeats byte for byte.
//!
//! Purpose: a rustls provider whose randomness and key shares come from a seed, certificates made
//! from constant keys, and a clock that stands still or is moved by hand. The same seeds give the
//! same handshake in any process; stock rustls cannot do that.
//! Owns: [`provider`], [`Identity`], [`VirtualClock`], ready-made configurations ([`client`],
//! [`server`]) and [`handshake`], which runs two sessions against each other in memory.
//! Does not own: the protocol; these are plain rustls configurations. Never use on a real network:
//! every secret here is predictable. That is why it stands behind the feature `tls`, off by default.
//! Called by: tests, the simulator's worlds, benches, `tautline demo`.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use aws_lc_rs::agreement;
use rustls::{
    ClientConfig, Error, KeyLog, NamedGroup, PeerMisbehaved, RootCertStore, ServerConfig,
    crypto::{
        ActiveKeyExchange, CryptoProvider, GetRandomFailed, SecureRandom, SharedSecret,
        SupportedKxGroup, aws_lc_rs as stock,
    },
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, UnixTime},
    server::WebPkiClientVerifier,
    time_provider::TimeProvider,
    version::TLS13,
};
use tautline_transport::{
    error::TransportError,
    rng::Rng,
    tls::{KeyChange, Keys, Level, NextKeys, RustlsClient, RustlsServer, Session},
};

/// The DNS name that [`Identity::server`] is valid for, beside `localhost` and loopback addresses.
pub const SERVER_NAME: &str = "server.test";

/// The application protocol of the ready-made configurations.
pub const ALPN: &[u8] = b"tautline-test";

/// Seconds since the Unix epoch at which a fresh [`VirtualClock`] stands (15 January 2027).
pub const EPOCH_SECONDS: u64 = 1_800_000_000;

// ---------------------------------------------------------------------------------------------
// Provider

/// Randomness from a seed.
struct SeededRandom(Mutex<Rng>);

impl SeededRandom {
    fn array<const N: usize>(&self) -> [u8; N] {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .array()
    }
}

impl fmt::Debug for SeededRandom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SeededRandom")
    }
}

impl SecureRandom for SeededRandom {
    fn fill(&self, out: &mut [u8]) -> Result<(), GetRandomFailed> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .fill(out);
        Ok(())
    }
}

/// X25519 with private keys from a seed.
#[derive(Debug)]
struct SeededX25519(&'static SeededRandom);

impl SupportedKxGroup for SeededX25519 {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        let failed = |_| Error::General("X25519 key".into());
        let bytes: [u8; 32] = self.0.array();
        let private = agreement::PrivateKey::from_private_key(&agreement::X25519, &bytes)
            .map_err(|_| Error::General("X25519 key".into()))?;
        let public = private.compute_public_key().map_err(failed)?;
        Ok(Box::new(X25519Exchange { private, public }))
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}

struct X25519Exchange {
    private: agreement::PrivateKey,
    public: agreement::PublicKey,
}

impl ActiveKeyExchange for X25519Exchange {
    fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, Error> {
        agreement::agree(
            &self.private,
            agreement::UnparsedPublicKey::new(&agreement::X25519, peer),
            Error::from(PeerMisbehaved::InvalidKeyShare),
            |secret| Ok(SharedSecret::from(secret)),
        )
    }

    fn pub_key(&self) -> &[u8] {
        self.public.as_ref()
    }

    fn group(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}

/// A provider whose every random byte follows from `seed`: TLS 1.3 suites, X25519 only.
///
/// Give each endpoint its own, so that the order in which endpoints run does not matter. Each
/// call leaks about 200 bytes: rustls wants these parts to live forever.
pub fn provider(seed: u64) -> Arc<CryptoProvider> {
    let random: &'static SeededRandom =
        Box::leak(Box::new(SeededRandom(Mutex::new(Rng::from_u64(seed)))));
    let group: &'static SeededX25519 = Box::leak(Box::new(SeededX25519(random)));
    let mut provider = stock::default_provider();
    provider
        .cipher_suites
        .retain(|suite| suite.tls13().is_some());
    provider.kx_groups = vec![group];
    provider.secure_random = random;
    Arc::new(provider)
}

// ---------------------------------------------------------------------------------------------
// Time

/// A wall clock that moves only by hand. Clones share the time.
#[derive(Clone, Debug)]
pub struct VirtualClock(Arc<AtomicU64>);

impl VirtualClock {
    /// Stands at [`EPOCH_SECONDS`].
    pub fn new() -> Self {
        Self(Arc::new(AtomicU64::new(EPOCH_SECONDS * 1000)))
    }

    /// Moves the clock to `elapsed` after [`EPOCH_SECONDS`]; resolution 1 ms.
    pub fn set(&self, elapsed: Duration) {
        let millis = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        self.0.store(
            (EPOCH_SECONDS * 1000).saturating_add(millis),
            Ordering::Relaxed,
        );
    }
}

impl Default for VirtualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl TimeProvider for VirtualClock {
    fn current_time(&self) -> Option<UnixTime> {
        let millis = self.0.load(Ordering::Relaxed);
        Some(UnixTime::since_unix_epoch(Duration::from_millis(millis)))
    }
}

// ---------------------------------------------------------------------------------------------
// Certificates

/// A self-signed Ed25519 certificate and its key, always the same.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The certificate, its own root of trust.
    pub certificate: CertificateDer<'static>,
    key: Vec<u8>,
}

impl Identity {
    /// The server of all ready-made configurations.
    pub fn server() -> Self {
        Self::new(
            1,
            SERVER_NAME,
            &[SERVER_NAME, "localhost"],
            &[
                IpAddr::V4(Ipv4Addr::LOCALHOST),
                IpAddr::V6(Ipv6Addr::LOCALHOST),
            ],
        )
    }

    /// A client that shows a certificate.
    pub fn client() -> Self {
        Self::new(2, "client.test", &["client.test"], &[])
    }

    /// A stranger, whom nobody trusts, with the server's names.
    pub fn stranger() -> Self {
        Self::new(3, SERVER_NAME, &[SERVER_NAME, "localhost"], &[])
    }

    fn new(number: u8, common_name: &str, names: &[&str], addresses: &[IpAddr]) -> Self {
        let key = ed25519_pkcs8([number; 32]);
        let pair = rcgen::KeyPair::try_from(&PrivatePkcs8KeyDer::from(key.as_slice()))
            .expect("an Ed25519 key");
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = rcgen::CertificateParams::new(names).expect("DNS names");
        for &address in addresses {
            params
                .subject_alt_names
                .push(rcgen::SanType::IpAddress(address));
        }
        params.distinguished_name = rcgen::DistinguishedName::new();
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, common_name);
        params.serial_number = Some(vec![number].into());
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2120, 1, 1);
        let certificate = params
            .self_signed(&pair)
            .expect("a certificate")
            .der()
            .clone();
        Self { certificate, key }
    }

    /// The private key.
    pub fn key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.key.clone()))
    }

    /// A store that trusts this certificate and nothing else.
    pub fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots
            .add(self.certificate.clone())
            .expect("a certificate of ours");
        roots
    }
}

/// A private key in PKCS #8, version 1. RFC 8410 s7.
fn ed25519_pkcs8(seed: [u8; 32]) -> Vec<u8> {
    const PREFIX: [u8; 16] = [
        0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04,
        0x20,
    ];
    [PREFIX.as_slice(), &seed].concat()
}

// ---------------------------------------------------------------------------------------------
// Configurations

/// A client configuration that trusts [`Identity::server`] and offers [`ALPN`]; early data on.
pub fn client_config(seed: u64) -> ClientConfig {
    let mut config =
        ClientConfig::builder_with_details(provider(seed), Arc::new(VirtualClock::new()))
            .with_protocol_versions(&[&TLS13])
            .expect("TLS 1.3")
            .with_root_certificates(Identity::server().roots())
            .with_no_client_auth();
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.enable_early_data = true;
    config
}

/// As [`client_config`], showing [`Identity::client`] when asked.
pub fn client_config_with_certificate(seed: u64) -> ClientConfig {
    let identity = Identity::client();
    let mut config =
        ClientConfig::builder_with_details(provider(seed), Arc::new(VirtualClock::new()))
            .with_protocol_versions(&[&TLS13])
            .expect("TLS 1.3")
            .with_root_certificates(Identity::server().roots())
            .with_client_auth_cert(vec![identity.certificate.clone()], identity.key())
            .expect("a key of ours");
    config.alpn_protocols = vec![ALPN.to_vec()];
    config
}

/// A server configuration that is [`Identity::server`] and takes [`ALPN`]; early data on.
pub fn server_config(seed: u64) -> ServerConfig {
    server_config_of(seed, &Identity::server())
}

/// As [`server_config`], with another certificate.
pub fn server_config_of(seed: u64, identity: &Identity) -> ServerConfig {
    let mut config =
        ServerConfig::builder_with_details(provider(seed), Arc::new(VirtualClock::new()))
            .with_protocol_versions(&[&TLS13])
            .expect("TLS 1.3")
            .with_no_client_auth()
            .with_single_cert(vec![identity.certificate.clone()], identity.key())
            .expect("a key of ours");
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.max_early_data_size = u32::MAX;
    config
}

/// As [`server_config`], demanding [`Identity::client`]'s certificate.
pub fn server_config_demanding_certificate(seed: u64) -> ServerConfig {
    let provider = provider(seed);
    let verifier = WebPkiClientVerifier::builder_with_provider(
        Arc::new(Identity::client().roots()),
        Arc::clone(&provider),
    )
    .build()
    .expect("one root");
    let identity = Identity::server();
    let mut config = ServerConfig::builder_with_details(provider, Arc::new(VirtualClock::new()))
        .with_protocol_versions(&[&TLS13])
        .expect("TLS 1.3")
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![identity.certificate.clone()], identity.key())
        .expect("a key of ours");
    config.alpn_protocols = vec![ALPN.to_vec()];
    config
}

/// [`client_config`] as a session factory.
pub fn client(seed: u64) -> RustlsClient {
    RustlsClient::new(client_config(seed)).expect("a valid configuration")
}

/// As [`client`], writing its secrets down.
pub fn client_with_keys(seed: u64, keys: Arc<KeyLines>) -> RustlsClient {
    let mut config = client_config(seed);
    config.key_log = keys;
    RustlsClient::new(config).expect("a valid configuration")
}

/// Secrets of connections as lines of NSS key logs, which Wireshark decrypts captures with.
#[derive(Debug, Default)]
pub struct KeyLines(Mutex<String>);

impl KeyLines {
    /// The lines so far.
    pub fn text(&self) -> String {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl KeyLog for KeyLines {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        let hex = |bytes: &[u8]| -> String { bytes.iter().map(|b| format!("{b:02x}")).collect() };
        let line = format!("{label} {} {}\n", hex(client_random), hex(secret));
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.push_str(&line);
    }
}

/// [`server_config`] as a session factory.
pub fn server(seed: u64) -> RustlsServer {
    RustlsServer::new(server_config(seed)).expect("a valid configuration")
}

// ---------------------------------------------------------------------------------------------
// A handshake without a network

/// What one side of [`handshake`] has at the end.
#[derive(Debug, Default)]
pub struct Outcome {
    /// All CRYPTO bytes it sent, by level, in order.
    pub sent: Vec<(Level, Vec<u8>)>,
    /// Its Handshake keys.
    pub handshake: Option<Keys>,
    /// Its 1-RTT keys and the source of later phases.
    pub one_rtt: Option<(Keys, Box<dyn NextKeys>)>,
}

/// Carries CRYPTO bytes between two sessions until both fall silent.
///
/// # Errors
/// The side that objected and its error.
pub fn handshake(
    client: &mut dyn Session,
    server: &mut dyn Session,
) -> Result<(Outcome, Outcome), (tautline_transport::units::Side, TransportError)> {
    use tautline_transport::units::Side;

    let (mut from_client, mut from_server) = (Outcome::default(), Outcome::default());
    let (mut client_level, mut server_level) = (Level::Initial, Level::Initial);
    loop {
        let to_server = flush(client, &mut client_level, &mut from_client);
        let to_client = flush(server, &mut server_level, &mut from_server);
        if to_server.is_empty() && to_client.is_empty() {
            return Ok((from_client, from_server));
        }
        for (level, data) in to_server {
            server
                .read(level, &data)
                .map_err(|error| (Side::Server, error))?;
        }
        for (level, data) in to_client {
            client
                .read(level, &data)
                .map_err(|error| (Side::Client, error))?;
            // Keys must be taken before bytes of the next level are read.
            let more = flush(client, &mut client_level, &mut from_client);
            for (level, data) in more {
                server
                    .read(level, &data)
                    .map_err(|error| (Side::Server, error))?;
            }
        }
    }
}

/// Takes everything `session` has to say.
fn flush(
    session: &mut dyn Session,
    level: &mut Level,
    outcome: &mut Outcome,
) -> Vec<(Level, Vec<u8>)> {
    let mut written = Vec::new();
    loop {
        let mut data = Vec::new();
        let change = session.write(&mut data);
        let silent = data.is_empty() && change.is_none();
        if !data.is_empty() {
            outcome.sent.push((*level, data.clone()));
            written.push((*level, data));
        }
        match change {
            Some(KeyChange::Handshake(keys)) => {
                *level = Level::Handshake;
                outcome.handshake = Some(keys);
            }
            Some(KeyChange::OneRtt { keys, secrets }) => {
                *level = Level::OneRtt;
                outcome.one_rtt = Some((keys, secrets));
            }
            None => {}
        }
        if silent {
            return written;
        }
    }
}
