//! `tautline lab field`.

use std::{
    path::PathBuf,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use tautline::tls::Fingerprint;
use tautline_field::near::{self, Address, Settings};
use tautline_lab::{
    campaign::Ending,
    plan::{FieldOptions, ReadOptions},
};

use super::{
    Laboratory, default_folder,
    far::{parse_pause, parse_token},
    find,
    under_way::{progress_bar, show_progress, stop_when_asked},
};
use crate::{
    failure::{Failure, Outcome},
    output::print,
};

/// What to run, and with whom.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A plan file, or the name of a bundled plan (`list` names them)
    #[arg(value_name = "PLAN")]
    plan: String,

    /// The machine that runs `tautline lab far`
    #[arg(long, value_name = "HOST:PORT")]
    far: String,

    /// The token that `far` printed, or was given
    #[arg(long, value_name = "WORD", value_parser = parse_token)]
    token: String,

    /// Accept the far end only with the certificate of this SHA-256 fingerprint, as `far` prints it
    #[arg(long, value_name = "SHA256")]
    pin: Option<Fingerprint>,

    /// Where results go [default: lab-results/NAME-field]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Repetitions, instead of the plan's
    #[arg(long, value_name = "N")]
    runs: Option<u32>,

    /// Which draw of the order of solutions, of a random design, and of all seeds
    #[arg(long, value_name = "N", default_value_t = 0)]
    draw: u32,

    /// Go on with what the folder holds; a run that has a row, failed ones included, is not made again
    #[arg(long)]
    resume: bool,

    /// The plan's small version, to see that it works
    #[arg(long)]
    smoke: bool,

    /// Only these solutions of the plan, by name
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    solutions: Vec<String>,

    /// How long to wait between two runs, for instance "5 s"
    #[arg(long, value_name = "DURATION", default_value = "1 s", value_parser = parse_pause)]
    pause: Duration,
}

/// What `HOST:PORT` says; an IPv6 address stands in brackets.
fn host_and_port(far: &str) -> Outcome<(String, u16)> {
    let split = far.rsplit_once(':');
    let parsed = split.and_then(|(host, port)| Some((host, port.parse().ok()?)));
    let bare = |(host, port): (&str, u16)| {
        let inner = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        (inner.unwrap_or(host).to_owned(), port)
    };
    let parsed = parsed.map(bare).filter(|(host, _)| !host.is_empty());
    parsed.ok_or_else(|| {
        Failure::new(format!(
            "{far:?} is not HOST:PORT, for instance server.example:4435"
        ))
    })
}

pub(super) fn run(args: Args, laboratory: &Laboratory) -> Outcome {
    let (host, port) = host_and_port(&args.far)?;
    let options = ReadOptions {
        smoke: args.smoke,
        draw: u64::from(args.draw),
        seeds: args.runs.map(u64::from),
        field: Some(FieldOptions {
            solutions: args.solutions,
        }),
    };
    let plan = find(&args.plan, &options, laboratory)?;
    let folder = args.out.unwrap_or_else(|| default_folder(&plan));
    let settings = Settings {
        folder: folder.clone(),
        resume: args.resume,
        pause: args.pause,
    };
    let address = Address {
        host,
        port,
        token: args.token,
        pin: args.pin,
    };
    let stop = Arc::new(AtomicBool::new(false));
    stop_when_asked(Arc::clone(&stop))?;
    let bar = progress_bar(&plan);
    crate::block_on(async {
        let campaign = near::campaign(&plan, &address, &settings, &stop, |progress| {
            show_progress(&bar, progress)
        });
        let ending = campaign.await;
        bar.finish_and_clear();
        let resumable = folder.join("manifest.json").exists() && !settings.resume;
        match ending {
            Ok(Ending::Complete(progress)) => print(&format!(
                "{}: {} rows of field data in {} ({} of this run not ok)\n`{} report {}` makes the page\n",
                plan.name,
                progress.total,
                folder.display(),
                progress.troubled,
                laboratory.program,
                folder.display()
            )),
            Ok(Ending::Stopped(progress)) => Err(Failure::interrupted(format!(
                "stopped after {} of {} runs; the same command with --resume goes on",
                progress.done, progress.total
            ))),
            Err(
                error @ near::FieldError::Lost { .. }
                | error @ near::FieldError::Unreachable { .. },
            ) if resumable => {
                Err(Failure::new(error.to_string()).then("the same command with --resume goes on"))
            }
            Err(error) => Err(Failure::new(error.to_string())),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn far_ends_are_named_as_people_name_them() {
        let read = |text| host_and_port(text).ok();
        let named = |host: &str| Some((host.to_owned(), 4435));
        assert_eq!(read("server.example:4435"), named("server.example"));
        assert_eq!(read("192.0.2.7:4435"), named("192.0.2.7"));
        assert_eq!(read("[2001:db8::7]:4435"), named("2001:db8::7"));
        for wrong in ["server.example", ":4435", "server:port", "server:99999"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
