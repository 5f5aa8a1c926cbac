//! One cell of the table: a server, a client, the proxy between them, and the verdict.

use std::{fmt, path::Path, process::Command, time::Duration};

use anyhow::{Result, bail};

use super::{
    case::Case,
    evidence::Evidence,
    files::{self, Folder},
    install::Workshop,
    peer::{Peer, Setup},
    process::{Program, free_port},
};

/// The longest time for one run of a client.
const CLIENT_LIMIT: Duration = Duration::from_secs(60);

/// Which end is ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    Client,
    Server,
}

impl Side {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }
}

/// What became of a cell.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// The bytes are right and the feature was seen.
    Tick,
    /// The peer lacks it; in its own words, or where it lacks it.
    Blank(String),
    /// The peer could not be installed here.
    Absent(String),
    /// It did not work.
    Failed(String),
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tick => f.write_str("ok"),
            Self::Blank(reason) => write!(f, "-- {reason}"),
            Self::Absent(reason) => write!(f, "absent: {reason}"),
            Self::Failed(reason) => write!(f, "FAILED: {reason}"),
        }
    }
}

/// One cell.
pub(crate) struct Cell<'a> {
    pub(crate) peer: Peer,
    pub(crate) side: Side,
    pub(crate) case: Case,
    pub(crate) workshop: &'a Workshop,
}

impl Cell<'_> {
    pub(crate) fn run(&self, folder: &Folder) -> Outcome {
        let name = format!(
            "{}-{}-{}",
            self.peer.name,
            self.side.name(),
            self.case.name()
        );
        let outcome = folder.cell(&name).and_then(|home| {
            let outcome = self.play(folder, &home);
            folder.discard(&home);
            outcome
        });
        outcome.unwrap_or_else(|error| Outcome::Failed(format!("{error:#}")))
    }

    fn play(&self, folder: &Folder, home: &Path) -> Result<Outcome> {
        let server_port = free_port()?;
        let proxy_port = free_port()?;
        let paths = files::paths(self.case);
        std::fs::write(home.join("paths"), paths.join("\n") + "\n")?;
        let setup = Setup {
            case: self.case,
            workshop: self.workshop,
            home,
            www: &folder.www(),
            paths: &paths,
            server_port,
            connect_port: proxy_port,
            version_two: self.peer.version_two,
            http3: self.peer.http3_only || self.case == Case::Http3,
            rebindings: self.peer.rebindings,
            we_update_keys: self.side == Side::Client || !self.peer.starts_key_updates,
        };
        let (mut server_command, mut steps) = match self.side {
            Side::Client => (self.peer.server(&setup)?, vec![setup.our_client()]),
            Side::Server => (setup.our_server(), self.peer.client(&setup)?),
        };
        let mut server = Program::start(&mut server_command, &home.join("server"))?;
        server.wait_for_port(server_port)?;
        let mut proxy = Program::start(&mut setup.proxy(), &home.join("proxy"))?;
        proxy.wait_for_port(proxy_port)?;

        let mut seen = Evidence::default();
        let mut trouble = None;
        for _ in 0..self.case.rounds() {
            let outcome = steps
                .iter_mut()
                .try_for_each(|step| self.client_run(step, &setup, &mut seen))
                .and_then(|()| files::compare(self.case, &folder.www(), &home.join("out")));
            if let Err(error) = outcome {
                trouble = Some(format!("{error:#}"));
                break;
            }
        }
        server.finish();
        proxy.finish();
        self.report(&mut seen, Side::Server).add(&server.output());
        seen.proxy.add(&proxy.output());
        Ok(self.verdict(&seen, trouble, &server))
    }

    /// One run of one client program.
    fn client_run(
        &self,
        command: &mut Command,
        setup: &Setup<'_>,
        seen: &mut Evidence,
    ) -> Result<()> {
        let mut client = Program::start(command, &setup.home.join("client"))?;
        let status = client.wait(CLIENT_LIMIT)?;
        self.report(seen, Side::Client).add(&client.output());
        match status {
            None => bail!("client: did not end in time: {}", client.last_words()),
            Some(status) if !status.success() => {
                bail!("client: {status}: {}", client.last_words())
            }
            Some(_) => self.peer.after_client(setup, &client),
        }
    }

    fn report<'e>(&self, seen: &'e mut Evidence, end: Side) -> &'e mut super::evidence::Report {
        if end == self.side {
            &mut seen.ours
        } else {
            &mut seen.peer
        }
    }

    fn verdict(&self, seen: &Evidence, trouble: Option<String>, server: &Program) -> Outcome {
        if let Some(reason) = &seen.peer.unsupported {
            return Outcome::Blank(format!("{} answers: {reason}", self.peer.name));
        }
        if let Some(reason) = self.refused_version(seen) {
            return Outcome::Blank(reason);
        }
        let verdict = match trouble {
            Some(trouble) => Err(trouble),
            None => self.case.judge(seen, self.side),
        };
        match verdict {
            Ok(()) => Outcome::Tick,
            Err(reason) => {
                let closed = seen
                    .ours
                    .note("closed")
                    .map(|why| format!("; our end: {why}"));
                let words = format!("; server: {}", server.last_words());
                Outcome::Failed(reason + &closed.unwrap_or_default() + &words)
            }
        }
    }

    /// The peer's Version Negotiation packet does not list version 2.
    fn refused_version(&self, seen: &Evidence) -> Option<String> {
        let offered = seen.proxy.note("offered_versions")?;
        let refused = self.case == Case::Version2
            && self.side == Side::Client
            && !offered.contains("0x6b3343cf");
        refused.then(|| format!("its Version Negotiation packet offers {offered}"))
    }
}
