//! What a client does in each case.

use std::{
    cell::{Cell, RefCell},
    time::{Duration, SystemTime},
};

use anyhow::{Context, Result, bail};
use futures_util::{StreamExt, TryStreamExt, stream};

use crate::{
    Arguments, Case, Protocol,
    facts::fact,
    files, http3, http09,
    stack::{Client, Connection, RawStreams},
};

const STREAMS_AT_ONCE: usize = 200;
/// Time for tickets to arrive before the first of two connections is closed.
const TICKET_WAIT: Duration = Duration::from_millis(150);
/// So far into a second there is time for two short connections in it.
const LATEST_START_MS: u32 = 300;
const MIGRATE_AFTER_BYTES: u64 = 1 << 20;
/// Between attempts to start a key update.
const KEY_UPDATE_PAUSE: Duration = Duration::from_millis(2);
const KEY_UPDATES: u32 = 2;

/// Counts what arrives, and does something at a certain point.
pub(crate) struct Progress<'a> {
    bytes: Cell<u64>,
    at: u64,
    action: RefCell<Option<Box<dyn FnOnce() + 'a>>>,
}

impl<'a> Progress<'a> {
    fn new(at: u64, action: Option<Box<dyn FnOnce() + 'a>>) -> Self {
        Self {
            bytes: Cell::new(0),
            at,
            action: RefCell::new(action),
        }
    }

    pub(crate) fn received(&self, bytes: u64) {
        self.bytes.set(self.bytes.get() + bytes);
        if self.bytes.get() >= self.at
            && let Some(action) = self.action.take()
        {
            action();
        }
    }
}

/// Runs the case and fetches every path.
pub async fn run_client<C: Client>(client: C, arguments: &Arguments) -> Result<()> {
    let outcome = fetch_all(&client, arguments).await;
    client.finish().await;
    outcome
}

async fn fetch_all<C: Client>(client: &C, arguments: &Arguments) -> Result<()> {
    let paths = arguments.paths.as_slice();
    let again = matches!(arguments.case, Case::Resumption | Case::ZeroRtt);
    if !again {
        return visit(client, arguments, paths, false).await;
    }
    if arguments.case == Case::ZeroRtt {
        early_in_a_second().await;
    }
    let (first, rest) = paths.split_at_checked(1).context("nothing to fetch")?;
    visit(client, arguments, first, false).await?;
    visit(client, arguments, rest, arguments.case == Case::ZeroRtt).await
}

/// Waits for the start of a second of the wall clock, so that both connections fall into it.
///
/// rustls reckons the age of tickets in whole seconds, so that one taken just before a full second
/// seems a second old just after. Servers that compare (GnuTLS does) then refuse early data.
#[expect(
    clippy::disallowed_methods,
    reason = "tickets are dated by the wall clock"
)]
async fn early_in_a_second() {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let into_second = since_epoch.map_or(0, |time| time.subsec_millis());
    if into_second > LATEST_START_MS {
        let wait = 1000_u32.saturating_sub(into_second) + 5;
        tokio::time::sleep(Duration::from_millis(wait.into())).await;
    }
}

/// One connection.
async fn visit<C: Client>(
    client: &C,
    arguments: &Arguments,
    paths: &[String],
    early: bool,
) -> Result<()> {
    let connected = client.connect(early).await?;
    fact("early_requests", u64::from(connected.early.is_some()));
    let connection = connected.connection;
    let moved = RefCell::new(Ok(()));
    let migrate: Option<Box<dyn FnOnce()>> = match arguments.case {
        Case::Migration => Some(Box::new(|| {
            *moved.borrow_mut() = client.migrate();
            fact("migrations", 1);
        })),
        _ => None,
    };
    let progress = Progress::new(MIGRATE_AFTER_BYTES, migrate);
    let fetch = async {
        match arguments.protocol {
            Protocol::Http09 => {
                fetch_http09(&connection, arguments, paths, &progress).await?;
                Ok(None)
            }
            Protocol::Http3 => {
                let http = connection.http3();
                http3::fetch(http, paths, &arguments.out, &progress)
                    .await
                    .map(Some)
            }
        }
    };
    // Ending HTTP/3 ends its control stream, which no peer likes: the connection must end first.
    let _open_http = if arguments.case == Case::KeyUpdate && arguments.update_keys {
        tokio::select! {
            done = fetch => done?,
            updated = update_keys(&connection) => updated?,
        }
    } else {
        fetch.await?
    };
    moved.replace(Ok(()))?;
    let last = paths.len() == arguments.paths.len() || early;
    if !last {
        tokio::time::sleep(TICKET_WAIT).await;
    }
    if let Some(accepted) = connected.early {
        fact("early_accepted", u64::from(accepted.await));
    }
    connection.report();
    connection.close(0, b"");
    Ok(())
}

/// Updates keys twice: that the second is possible shows that the peer followed the first.
/// Never ends well by itself: the transfer decides.
pub(crate) async fn update_keys<T>(connection: &impl Connection) -> Result<T> {
    let mut updates = 0;
    while updates < KEY_UPDATES {
        tokio::time::sleep(KEY_UPDATE_PAUSE).await;
        updates += u32::from(connection.update_keys()?);
    }
    std::future::pending().await
}

async fn fetch_http09<C: RawStreams>(
    connection: &C,
    arguments: &Arguments,
    paths: &[String],
    progress: &Progress<'_>,
) -> Result<()> {
    stream::iter(paths)
        .map(|path| async move {
            let (mut send, mut recv) = connection.open_bi().await?;
            http09::request(&mut send, path).await.context("request")?;
            let body = http09::response(&mut recv, progress)
                .await
                .context("response")?;
            if body.is_empty() {
                bail!("{path}: empty answer");
            }
            files::save(&arguments.out, path, &body)
        })
        .buffer_unordered(STREAMS_AT_ONCE)
        .try_collect()
        .await
}
