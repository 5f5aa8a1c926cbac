//! Facts out of the stack's own events, and qlog files.

use std::{fs::File, path::PathBuf, sync::Arc};

use interop_kit::fact;
use tautline::transport::{
    observe::{
        ConnectionInfo, Event, QlogFactory, SharedSinkFactory, Sink, SinkFactory, TeeFactory,
    },
    wire::Frame,
};

pub(crate) fn factory(qlog: Option<PathBuf>) -> SharedSinkFactory {
    let watch: SharedSinkFactory = Arc::new(Watch);
    let Some(folder) = qlog else { return watch };
    let qlog = QlogFactory::new(move |info| {
        let file = File::create(folder.join(QlogFactory::file_name(info))).ok()?;
        Some(Box::new(file))
    });
    Arc::new(TeeFactory::new(vec![watch, Arc::new(qlog)]))
}

#[derive(Debug)]
struct Watch;

impl SinkFactory for Watch {
    fn build(&self, _info: &ConnectionInfo) -> Option<Box<dyn Sink>> {
        Some(Box::new(|_now, event: &Event<'_>| watch(event)))
    }
}

fn watch(event: &Event<'_>) {
    match event {
        Event::KeysUpdated { phase, by_peer } if *phase > 0 => {
            fact(
                if *by_peer {
                    "updates_by_peer"
                } else {
                    "updates_by_us"
                },
                1,
            );
        }
        Event::PathValidated { .. } => fact("paths_validated", 1),
        Event::PathMigrated { .. } => fact("paths_migrated", 1),
        Event::ConnectionIdUpdated { .. } => fact("connection_ids_changed", 1),
        Event::FrameReceived(Frame::PathChallenge(_)) => fact("challenges_received", 1),
        Event::FrameReceived(Frame::PathResponse(_)) => fact("responses_received", 1),
        Event::FrameReceived(Frame::NewToken { .. }) => fact("tokens_received", 1),
        Event::PacketLost { .. } => fact("packets_lost", 1),
        Event::ZeroRttRejected => fact("early_rejected", 1),
        Event::ConnectionClosed { error, .. } => interop_kit::note("closed", &error.to_string()),
        Event::ConnectionClosing { error } => interop_kit::note("closing", &error.to_string()),
        _ => {}
    }
}
