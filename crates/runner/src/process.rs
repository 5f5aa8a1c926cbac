//! The two programs: started, waited for, ended, each by its own process ID.

use std::{
    fs::File,
    net::{SocketAddr, UdpSocket},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail};

const POLL: Duration = Duration::from_millis(10);
/// For connections that close and traces that are written.
const STOP_WAIT: Duration = Duration::from_secs(10);
const START_WAIT: Duration = Duration::from_secs(20);

/// A program that runs, with its output in files.
pub(crate) struct Program {
    child: Child,
    log: PathBuf,
}

impl Program {
    /// Starts it; output goes to `<log>.out` and `<log>.err`.
    pub(crate) fn start(command: &mut Command, log: &Path) -> Result<Self> {
        let child = command
            .stdin(Stdio::null())
            .stdout(File::create(log.with_extension("out"))?)
            .stderr(File::create(log.with_extension("err"))?)
            .spawn()
            .with_context(|| format!("cannot start {}", command.get_program().display()))?;
        Ok(Self {
            child,
            log: log.to_path_buf(),
        })
    }

    /// Waits until it says that it listens.
    pub(crate) fn wait_until_listening(&mut self) -> Result<()> {
        for _ in 0..START_WAIT.as_millis() / POLL.as_millis() {
            let output = std::fs::read(self.log.with_extension("out")).unwrap_or_default();
            if String::from_utf8_lossy(&output).contains("listening on ") {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("the server ended with {status}: {}", self.last_words());
            }
            thread::sleep(POLL);
        }
        bail!("the server does not listen")
    }

    /// Waits for its end; ends it when that takes longer than `limit`.
    pub(crate) fn wait(&mut self, limit: Duration) -> Result<Option<ExitStatus>> {
        for _ in 0..limit.as_millis() / POLL.as_millis() {
            if let Some(status) = self.child.try_wait()? {
                return Ok(Some(status));
            }
            thread::sleep(POLL);
        }
        self.end();
        Ok(None)
    }

    /// Asks it to stop, as the runner's containers are, and waits; then ends it.
    pub(crate) fn stop(&mut self) {
        let asked = Command::new("kill")
            .arg(self.child.id().to_string())
            .status();
        if asked.is_ok_and(|status| status.success()) {
            let _ = self.wait(STOP_WAIT);
        } else {
            self.end();
        }
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// The last line of its error output.
    pub(crate) fn last_words(&self) -> String {
        let errors = std::fs::read(self.log.with_extension("err")).unwrap_or_default();
        let errors = String::from_utf8_lossy(&errors);
        let line = errors.lines().rev().find(|line| !line.trim().is_empty());
        line.unwrap_or("no error output").trim().to_owned()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.end();
        }
    }
}

/// Ports that are free now on every address of loopback.
pub(crate) fn free_ports(count: usize) -> Result<Vec<u16>> {
    let any = SocketAddr::from(([0, 0, 0, 0], 0));
    // Held together, so that they differ.
    let sockets: std::io::Result<Vec<_>> = (0..count).map(|_| UdpSocket::bind(any)).collect();
    let ports = sockets?
        .into_iter()
        .map(|socket| Ok(socket.local_addr()?.port()));
    ports.collect()
}
