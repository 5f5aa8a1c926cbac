//! What the programs of a cell are told.

use std::{path::Path, process::Command};

use super::VersionTwo;
use crate::interop::{case::Case, install::Workshop};

/// The circumstances of a cell.
pub(crate) struct Setup<'a> {
    pub(crate) case: Case,
    pub(crate) workshop: &'a Workshop,
    /// The cell's folder: `out/`, `qlog/`, `paths`, logs.
    pub(crate) home: &'a Path,
    pub(crate) www: &'a Path,
    /// What is fetched.
    pub(crate) paths: &'a [String],
    /// Where the server listens.
    pub(crate) server_port: u16,
    /// Where clients connect to: the proxy.
    pub(crate) connect_port: u16,
    pub(crate) version_two: VersionTwo,
    pub(crate) http3: bool,
    pub(crate) rebindings: u32,
    /// Our end starts the key updates.
    pub(crate) we_update_keys: bool,
}

impl Setup<'_> {
    /// Arguments that every program of ours in `interop/` takes as a server.
    pub(crate) fn server_arguments(&self, mut program: Command) -> Command {
        program
            .args([
                "server",
                "--listen",
                &format!("127.0.0.1:{}", self.server_port),
            ])
            .arg("--cert")
            .arg(self.workshop.certificate())
            .arg("--key")
            .arg(self.workshop.key())
            .arg("--www")
            .arg(self.www);
        self.common(program)
    }

    /// Arguments that every program of ours in `interop/` takes as a client.
    pub(crate) fn client_arguments(&self, mut program: Command) -> Command {
        program
            .args([
                "client",
                "--connect",
                &format!("127.0.0.1:{}", self.connect_port),
            ])
            .arg("--ca")
            .arg(self.workshop.certificate())
            .arg("--out")
            .arg(self.home.join("out"))
            .arg("--paths")
            .arg(self.home.join("paths"));
        self.common(program)
    }

    fn common(&self, mut program: Command) -> Command {
        program
            .args(["--case", self.case.argument(self.version_two)])
            .args(["--protocol", if self.http3 { "h3" } else { "hq" }])
            .env("SSLKEYLOGFILE", self.home.join("keys.log"));
        program
    }

    pub(crate) fn our_client(&self) -> Command {
        self.ours(self.client_arguments(Command::new(self.workshop.program("interop-ours"))))
    }

    pub(crate) fn our_server(&self) -> Command {
        self.ours(self.server_arguments(Command::new(self.workshop.program("interop-ours"))))
    }

    fn ours(&self, mut command: Command) -> Command {
        command.arg("--qlog").arg(self.home.join("qlog"));
        if self.we_update_keys {
            command.arg("--update-keys");
        }
        command
    }

    pub(crate) fn proxy(&self) -> Command {
        let mut command = Command::new(self.workshop.program("interop-proxy"));
        command
            .args(["--listen", &format!("127.0.0.1:{}", self.connect_port)])
            .args(["--upstream", &format!("127.0.0.1:{}", self.server_port)])
            .args(["--rebinds", &self.rebindings.to_string()])
            .args(self.case.proxy());
        command
    }
}
