//! Programs that are started, waited for and ended, each by its own process ID.

use std::{
    fs::File,
    net::UdpSocket,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail};

const POLL: Duration = Duration::from_millis(10);
/// Time for a program to end after its standard input has.
const END_WAIT: Duration = Duration::from_secs(4);
const START_WAIT: Duration = Duration::from_secs(20);

/// A program that runs, with its output in files.
pub(crate) struct Program {
    child: Child,
    input: Option<ChildStdin>,
    log: PathBuf,
}

impl Program {
    /// Starts it in a process group of its own; output goes to `<log>.out` and `<log>.err`.
    pub(crate) fn start(command: &mut Command, log: &Path) -> Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(File::create(log.with_extension("out"))?)
            .stderr(File::create(log.with_extension("err"))?)
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        let input = child.stdin.take();
        Ok(Self {
            child,
            input,
            log: log.to_path_buf(),
        })
    }

    /// Waits until it listens on this UDP port.
    pub(crate) fn wait_for_port(&mut self, port: u16) -> Result<()> {
        for _ in 0..polls(START_WAIT) {
            if let Some(status) = self.child.try_wait()? {
                bail!(
                    "ended with {status} before it listened: {}",
                    self.last_words()
                );
            }
            if udp_port_taken(port) {
                return Ok(());
            }
            std::thread::sleep(POLL);
        }
        bail!("does not listen")
    }

    /// Waits for its end; ends it when that takes too long.
    pub(crate) fn wait(&mut self, limit: Duration) -> Result<Option<ExitStatus>> {
        for _ in 0..polls(limit) {
            if let Some(status) = self.child.try_wait()? {
                return Ok(Some(status));
            }
            std::thread::sleep(POLL);
        }
        self.kill();
        Ok(None)
    }

    /// Ends its standard input, which asks it to finish, and waits; then kills.
    pub(crate) fn finish(&mut self) {
        drop(self.input.take());
        let _ = self.wait(END_WAIT);
    }

    fn kill(&mut self) {
        // The group that this program leads: what it started itself ends with it.
        let group = format!("-{}", self.child.id());
        let _ = Command::new("kill")
            .args(["-KILL", "--", &group])
            .stderr(Stdio::null())
            .status();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub(crate) fn output(&self) -> String {
        read(&self.log.with_extension("out"))
    }

    pub(crate) fn errors(&self) -> String {
        read(&self.log.with_extension("err"))
    }

    /// The last line of its error output.
    pub(crate) fn last_words(&self) -> String {
        let errors = self.errors();
        let line = errors.lines().rev().find(|line| !line.trim().is_empty());
        line.unwrap_or("no error output")
            .trim()
            .chars()
            .take(300)
            .collect()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.kill();
        }
    }
}

fn read(file: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(file).unwrap_or_default()).into_owned()
}

fn polls(limit: Duration) -> u128 {
    limit.as_millis() / POLL.as_millis()
}

/// A port of 127.0.0.1 that is free now.
pub(crate) fn free_port() -> Result<u16> {
    Ok(UdpSocket::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn udp_port_taken(port: u16) -> bool {
    let wanted = format!(":{port:04X}");
    ["/proc/net/udp", "/proc/net/udp6"].iter().any(|file| {
        let table = read(Path::new(file));
        table.lines().skip(1).any(|line| {
            line.split_whitespace()
                .nth(1)
                .is_some_and(|local| local.ends_with(&wanted))
        })
    })
}
