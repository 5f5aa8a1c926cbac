//! Running programs and finding files.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_path_buf()
}

/// `cargo`, run in the repository's root.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// Runs a command, showing it; fails if it fails.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    println!("+ {}", shown(command));
    let status = command
        .status()
        .with_context(|| format!("cannot run {}", shown(command)))?;
    if !status.success() {
        bail!("{} ended with {status}", shown(command));
    }
    Ok(())
}

fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program
        .file_name()
        .unwrap_or(program.as_os_str())
        .to_string_lossy()
        .into_owned();
    command.get_args().fold(name, |line, argument| {
        format!("{line} {}", argument.to_string_lossy())
    })
}

/// Where cargo puts programs: this one is there too.
pub(crate) fn programs() -> Result<PathBuf> {
    let own = std::env::current_exe()?;
    let folder = own.parent().context("this program has no folder")?;
    Ok(folder.to_path_buf())
}

/// Whether a program is on the PATH.
pub(crate) fn has(program: &str) -> bool {
    let Some(path) = std::env::var_os("PATH") else {
        return false;
    };
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// All Rust files below `folder`, sorted.
pub(crate) fn rust_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut waiting = vec![folder.to_path_buf()];
    while let Some(folder) = waiting.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                if path.file_name().is_none_or(|name| name != "target") {
                    waiting.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// `path` as seen from the repository's root.
pub(crate) fn relative(path: &Path) -> String {
    path.strip_prefix(root())
        .unwrap_or(path)
        .display()
        .to_string()
}
