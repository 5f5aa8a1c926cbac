//! What the Rust interop programs share, so that each of them is only an adapter to its stack.
//!
//! Every program, in whatever language, takes the same arguments and prints the same facts:
//!
//! ```text
//! PROGRAM server --listen ADDR --cert PEM --key PEM --www DIR --case CASE --protocol hq|h3
//! PROGRAM client --connect ADDR --ca PEM --out DIR --paths FILE --case CASE --protocol hq|h3
//! ```
//!
//! A client fetches every path listed in FILE (one a line) into DIR and exits with 0. A server
//! runs until its standard input ends. At its end a program prints what it saw as lines
//! `FACT name value`. A stack that cannot do what the case asks for prints
//! `UNSUPPORTED reason` and exits with 127.

mod arguments;
mod client;
mod facts;
mod files;
mod http09;
mod http3;
mod http3_adapter;
mod server;
mod stack;
pub mod tls;

pub use arguments::{Arguments, Case, Protocol, Role};
pub use client::run_client;
pub use facts::{fact, note};
pub use http3_adapter::Http3;
pub use server::{Accepted, run_server};
pub use stack::{Client, Connected, Connection, RawStreams, Server, Unsupported, unsupported};

use std::process::ExitCode;

/// Runs a program on one thread and turns its outcome into an exit code.
pub fn main<F>(run: impl FnOnce(Arguments) -> F) -> ExitCode
where
    F: Future<Output = anyhow::Result<()>>,
{
    let arguments = match Arguments::parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("{error:#}");
            return ExitCode::from(2);
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let outcome = match runtime {
        Ok(runtime) => {
            let tasks = tokio::task::LocalSet::new();
            let outcome = tasks.block_on(&runtime, run(arguments));
            runtime.shutdown_background();
            outcome
        }
        Err(error) => Err(error.into()),
    };
    facts::print();
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => match error.downcast_ref::<Unsupported>() {
            Some(Unsupported(reason)) => {
                println!("UNSUPPORTED {reason}");
                ExitCode::from(127)
            }
            None => {
                eprintln!("error: {error:#}");
                ExitCode::FAILURE
            }
        },
    }
}
