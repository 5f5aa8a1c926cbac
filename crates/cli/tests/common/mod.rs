//! The program as processes on loopback.

#![allow(dead_code, reason = "each test file uses its part")]
#![allow(unreachable_pub, reason = "shared by test crates")]

use std::{
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread::JoinHandle,
};

/// The program under test.
pub fn tautline() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tautline"));
    command
        .env_remove("SSLKEYLOGFILE")
        .env_remove("QLOGDIR")
        .env_remove("TESTCASE");
    command.env_remove("ROLE").env_remove("REQUESTS");
    command
}

/// A server process; killed when dropped.
pub struct Server {
    pub child: Child,
    pub port: u16,
    pub fingerprint: String,
    output: Option<JoinHandle<String>>,
}

impl Server {
    /// Starts `tautline` with these arguments and waits until it says where it listens.
    pub fn start(args: &[&str]) -> Self {
        Self::start_with(args, Stdio::null())
    }

    /// The same; its standard error goes there.
    pub fn start_with(args: &[&str], stderr: Stdio) -> Self {
        let mut child = tautline()
            .args(args)
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .expect("the program starts");
        let mut lines = BufReader::new(child.stdout.take().expect("piped"));
        let (mut port, mut fingerprint) = (0, String::new());
        let certificates = !args.starts_with(&["interop"]);
        while port == 0 || (certificates && fingerprint.is_empty()) {
            let mut line = String::new();
            assert!(
                lines.read_line(&mut line).expect("readable") > 0,
                "the server ended early"
            );
            if let Some(addr) = line.trim().strip_prefix("listening on ") {
                let addr: std::net::SocketAddr = addr.parse().expect("an address");
                port = addr.port();
            }
            if let Some(text) = line.trim().strip_prefix("certificate SHA-256 ") {
                fingerprint = text.to_owned();
            }
        }
        let output = std::thread::spawn(move || {
            let mut rest = String::new();
            let _ = lines.read_to_string(&mut rest);
            rest
        });
        Self {
            child,
            port,
            fingerprint,
            output: Some(output),
        }
    }

    /// `tautline serve DIR` on a free port of loopback.
    pub fn serve(dir: &Path, more: &[&str]) -> Self {
        let dir = dir.to_str().expect("UTF-8");
        let mut args = vec!["serve", dir, "--listen", "127.0.0.1:0"];
        args.extend(more);
        Self::start(&args)
    }

    /// The same, to be ended with [`Self::last_words`].
    pub fn serve_verbosely(dir: &Path, more: &[&str]) -> Self {
        let dir = dir.to_str().expect("UTF-8");
        let mut args = vec!["serve", dir, "--listen", "127.0.0.1:0", "--verbose"];
        args.extend(more);
        Self::start_with(&args, Stdio::piped())
    }

    /// Stops it, and returns what it said on standard error.
    #[cfg(unix)]
    pub fn last_words(mut self) -> String {
        self.terminate();
        let mut stderr = self.child.stderr.take().expect("piped");
        let mut said = String::new();
        stderr.read_to_string(&mut said).expect("UTF-8");
        said
    }

    pub fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.port)
    }

    /// `tautline get` that trusts this server, into `dir`.
    pub fn get(&self, dir: &Path) -> Command {
        let mut command = tautline();
        command
            .args(["get", "--quiet", "--pin", &self.fingerprint, "--dir"])
            .arg(dir);
        command
    }

    /// Asks the server to stop, as a service manager would.
    #[cfg(unix)]
    pub fn terminate(&self) {
        let killed = Command::new("kill")
            .arg(self.child.id().to_string())
            .status();
        assert!(killed.expect("kill runs").success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(output) = self.output.take() {
            let _ = output.join();
        }
    }
}

/// Bytes that repeat nowhere, the same in every run.
pub fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        // xorshift64
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// Runs to the end; panics with what it said if it failed.
pub fn succeed(command: &mut Command) -> Output {
    let output = command.output().expect("the program runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{command:?} failed ({}): {said}",
        output.status
    );
    output
}

/// Runs to the end, which must be a failure of one line; returns the line.
pub fn fail(command: &mut Command) -> String {
    let output = command.output().expect("the program runs");
    assert_eq!(output.status.code(), Some(1), "{command:?}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!said.contains("panicked"), "{said}");
    assert_eq!(said.trim().lines().count(), 1, "{said}");
    said
}

/// Writes a file into `dir` and returns its path.
pub fn put(dir: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = dir.join(name);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    std::fs::write(&path, bytes).expect("written");
    path
}

/// The bytes of a file.
pub fn read(dir: &Path, name: &str) -> Vec<u8> {
    std::fs::read(dir.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}
