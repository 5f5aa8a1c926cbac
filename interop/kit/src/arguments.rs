//! The arguments that every program takes.

use std::{net::SocketAddr, path::PathBuf};

use anyhow::{Context, Result, bail};

/// Which end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Client,
    Server,
}

/// What streams carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/0.9 over ALPN `hq-interop`, as the QUIC interop runner does it.
    Http09,
    Http3,
}

impl Protocol {
    pub fn alpn(self) -> &'static [u8] {
        match self {
            Self::Http09 => b"hq-interop",
            Self::Http3 => b"h3",
        }
    }
}

/// What is to be shown. The proxy in between does its part of `Rebind`, `Loss` and others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// Nothing special at the ends.
    Transfer,
    /// The server asks for a proof of address.
    Retry,
    /// A second connection resumes the first.
    Resumption,
    /// A second connection sends its requests as early data.
    ZeroRtt,
    /// Whoever is told to `--update-keys` does so twice.
    KeyUpdate,
    /// Both ends prefer QUIC v2; the client starts with v1.
    Version2,
    /// Both ends prefer QUIC v2, and the client starts with it.
    Version2First,
    /// The client offers (or the server takes) no cipher but ChaCha20-Poly1305.
    ChaCha20,
    /// The client moves to another socket in mid-transfer.
    Migration,
}

impl Case {
    fn parse(name: &str) -> Result<Self> {
        Ok(match name {
            "transfer" => Self::Transfer,
            "retry" => Self::Retry,
            "resumption" => Self::Resumption,
            "zerortt" => Self::ZeroRtt,
            "keyupdate" => Self::KeyUpdate,
            "v2" => Self::Version2,
            "v2first" => Self::Version2First,
            "chacha20" => Self::ChaCha20,
            "migration" => Self::Migration,
            _ => bail!("unknown case {name}"),
        })
    }

    pub fn wants_version_2(self) -> bool {
        matches!(self, Self::Version2 | Self::Version2First)
    }
}

/// See the crate documentation.
#[derive(Clone, Debug)]
pub struct Arguments {
    pub role: Role,
    /// Where to listen, or whom to connect to.
    pub address: SocketAddr,
    pub case: Case,
    pub protocol: Protocol,
    /// The server's certificate; clients trust it and nothing else.
    pub certificate: PathBuf,
    /// Servers.
    pub key: PathBuf,
    /// Servers: what they serve.
    pub www: PathBuf,
    /// Clients: where files go.
    pub out: PathBuf,
    /// Clients: what to fetch.
    pub paths: Vec<String>,
    /// This end starts the key updates of [`Case::KeyUpdate`].
    pub update_keys: bool,
    /// Where qlog files go, if wanted.
    pub qlog: Option<PathBuf>,
}

impl Arguments {
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Self> {
        let role = match words.next().as_deref() {
            Some("client") => Role::Client,
            Some("server") => Role::Server,
            _ => bail!("the first argument must be `client` or `server`"),
        };
        let mut arguments = Self {
            role,
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            case: Case::Transfer,
            protocol: Protocol::Http09,
            certificate: PathBuf::new(),
            key: PathBuf::new(),
            www: PathBuf::new(),
            out: PathBuf::new(),
            paths: Vec::new(),
            update_keys: false,
            qlog: None,
        };
        while let Some(name) = words.next() {
            if name == "--update-keys" {
                arguments.update_keys = true;
                continue;
            }
            let value = words
                .next()
                .with_context(|| format!("{name} needs a value"))?;
            match name.as_str() {
                "--listen" | "--connect" => arguments.address = value.parse()?,
                "--case" => arguments.case = Case::parse(&value)?,
                "--protocol" => {
                    arguments.protocol = match value.as_str() {
                        "hq" => Protocol::Http09,
                        "h3" => Protocol::Http3,
                        _ => bail!("unknown protocol {value}"),
                    }
                }
                "--cert" | "--ca" => arguments.certificate = value.into(),
                "--key" => arguments.key = value.into(),
                "--www" => arguments.www = value.into(),
                "--out" => arguments.out = value.into(),
                "--qlog" => arguments.qlog = Some(value.into()),
                "--paths" => {
                    let text = std::fs::read_to_string(&value).with_context(|| value.clone())?;
                    arguments.paths = text.lines().map(str::to_owned).collect();
                }
                _ => bail!("unknown argument {name}"),
            }
        }
        Ok(arguments)
    }
}
