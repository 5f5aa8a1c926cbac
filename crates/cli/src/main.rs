//! The `tautline` program: its own library's `main`.

use std::process::ExitCode;

fn main() -> ExitCode {
    tautline_cli::main()
}
