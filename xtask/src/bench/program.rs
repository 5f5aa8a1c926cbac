//! Building and driving the bench programs.

use std::{
    io::{BufRead, BufReader, Read, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::Options;
use crate::tools::{self, cargo, root};

/// A stack and its program.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) stack: &'static str,
    pub(super) path: PathBuf,
    threads: Option<usize>,
}

/// The programs of this run; ours is the first.
#[derive(Debug)]
pub(super) struct Programs {
    pub(super) all: Vec<Program>,
    pub(super) folder: PathBuf,
    pub(super) identity: PathBuf,
}

/// Ours.
pub(super) const OURS: &str = "tautline";
/// Stacks and the crates of their programs.
const RUST: &[(&str, &str)] = &[
    (OURS, "bench-ours"),
    ("quinn", "bench-quinn"),
    ("s2n-quic", "bench-s2n"),
    ("noq", "bench-noq"),
];
const GO: (&str, &str) = ("quic-go", "bench-quic-go");
/// The build profile of all of them; see `interop/Cargo.toml`.
const PROFILE: &str = "fast";

impl Programs {
    pub(super) fn build(options: &Options, peers: bool) -> Result<Self> {
        let chosen = |stack: &str| {
            stack == OURS
                || peers
                    && (options.stacks.is_empty() || options.stacks.iter().any(|it| it == stack))
        };
        let rust: Vec<_> = RUST.iter().filter(|(stack, _)| chosen(stack)).collect();
        let packages: Vec<_> = rust.iter().map(|(_, package)| *package).collect();
        let folder = build_rust(&packages)?;
        let threads = options.threads;
        let mut all: Vec<_> = rust
            .iter()
            .map(|&&(stack, name)| Program {
                stack,
                path: folder.join(name),
                threads,
            })
            .collect();
        if chosen(GO.0) {
            all.extend(build_go(&root().join("interop/bench/go"), &folder)?);
        }
        let identity = target("interop/target").join("bench-identity");
        let programs = Self {
            all,
            folder,
            identity,
        };
        let made = programs
            .ours()
            .command(&programs.identity)
            .arg("identity")
            .status()?;
        if !made.success() {
            bail!("could not make certificates");
        }
        Ok(programs)
    }

    pub(super) fn ours(&self) -> &Program {
        &self.all[0]
    }

    /// Another program of our crate.
    pub(super) fn of_ours(&self, name: &str) -> Program {
        Program {
            stack: OURS,
            path: self.folder.join(name),
            threads: None,
        }
    }
}

/// Where cargo builds the programs of a workspace, whose own folder that is where nothing else is set.
pub(super) fn target(own: &str) -> PathBuf {
    let set = std::env::var_os("CARGO_TARGET_DIR");
    root().join(set.unwrap_or_else(|| own.into()))
}

/// Builds packages of the bench and returns the folder of their programs.
pub(super) fn build_rust(packages: &[&str]) -> Result<PathBuf> {
    let mut build = cargo();
    build
        .current_dir(root().join("interop"))
        .args(["build", "--locked", "--profile", PROFILE]);
    build.args(packages.iter().flat_map(|package| ["--package", package]));
    tools::run(&mut build)?;
    Ok(target("interop/target").join(PROFILE))
}

fn build_go(source: &Path, folder: &Path) -> Result<Option<Program>> {
    if !tools::has("go") {
        println!("no `go` on the PATH: quic-go is left out");
        return Ok(None);
    }
    let path = folder.join(GO.1);
    tools::run(
        Command::new("go")
            .current_dir(source)
            .arg("build")
            .arg("-o")
            .arg(&path)
            .arg("."),
    )?;
    Ok(Some(Program {
        stack: GO.0,
        path,
        threads: None,
    }))
}

impl Program {
    pub(super) fn command(&self, identity: &Path) -> Command {
        let mut command = Command::new(&self.path);
        command.arg("--identity").arg(identity);
        if let Some(threads) = self.threads {
            command.arg("--threads").arg(threads.to_string());
        }
        command
    }

    /// A server and, after it, one client with `load`; what both say at their end.
    pub(super) fn measure(&self, identity: &Path, load: &[String]) -> Result<Both> {
        let mut server_command = self.command(identity);
        let mut client_command = self.command(identity);
        self.measure_with(&mut server_command, &mut client_command, load)
    }

    /// As [`Self::measure`], with changed commands.
    pub(super) fn measure_with(
        &self,
        server: &mut Command,
        client: &mut Command,
        load: &[String],
    ) -> Result<Both> {
        let mut server = Running::start(server.arg("server"))?;
        let address = server.address()?;
        let client = Running::start(client.arg("client").arg(address).args(load))?.finish()?;
        Ok(Both {
            client,
            server: server.finish()?,
        })
    }
}

/// The last words of client and server.
#[derive(Debug)]
pub(super) struct Both {
    pub(super) client: Value,
    pub(super) server: Value,
}

impl Both {
    /// A figure of the client.
    pub(super) fn figure(&self, name: &str) -> f64 {
        number(&self.client, name)
    }

    /// CPU seconds of both.
    pub(super) fn cpu(&self) -> f64 {
        [&self.client, &self.server]
            .map(|end| number(end, "user") + number(end, "system"))
            .iter()
            .sum()
    }
}

/// A number in a JSON object; not a number if it is not there.
pub(super) fn number(object: &Value, name: &str) -> f64 {
    object.get(name).and_then(Value::as_f64).unwrap_or(f64::NAN)
}

/// A program that speaks lines of JSON. Killed when dropped.
#[derive(Debug)]
pub(super) struct Running {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Running {
    pub(super) fn start(command: &mut Command) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot run {}", command.get_program().to_string_lossy()))?;
        let input = child.stdin.take();
        let output = child.stdout.take().context("no output")?;
        Ok(Self {
            child,
            input,
            output: BufReader::new(output),
        })
    }

    /// Where a server listens: its first line.
    pub(super) fn address(&mut self) -> Result<String> {
        let hello = self.line()?;
        Ok(hello
            .get("address")
            .and_then(Value::as_str)
            .context("no address")?
            .to_owned())
    }

    /// The next line.
    pub(super) fn line(&mut self) -> Result<Value> {
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            let mut errors = String::new();
            if let Some(mut stderr) = self.child.stderr.take() {
                stderr.read_to_string(&mut errors)?;
            }
            let status = self.child.wait()?;
            bail!("{} ({status})", errors.trim().trim_start_matches("error: "));
        }
        serde_json::from_str(&line).with_context(|| format!("not JSON: {line}"))
    }

    /// Gives an order.
    pub(super) fn order(&mut self, order: &str) -> Result<()> {
        let input = self.input.as_mut().context("no input")?;
        Ok(writeln!(input, "{order}")?)
    }

    /// Ends its input and takes its last line.
    pub(super) fn finish(mut self) -> Result<Value> {
        self.input = None;
        let line = self.line()?;
        let status = self.child.wait()?;
        if !status.success() {
            bail!("the program ended with {status}");
        }
        Ok(line)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Nothing is left to tell it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
