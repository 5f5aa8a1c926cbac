//! The server: eight bytes ask for that many bytes, one byte asks for a small answer.

use std::io::{BufRead, Write};

use anyhow::Result;
use bytes::Bytes;
use tokio::sync::mpsc;

use crate::{Connection, RecvHalf, SendHalf, Stack, Usage, heap, identity::Identity};

/// Bytes handed to a stream at once.
const BLOCK_BYTES: usize = 1 << 20;
static BLOCK: [u8; BLOCK_BYTES] = [7; BLOCK_BYTES];
/// Bytes of a small answer.
const ANSWER_BYTES: usize = 32;

/// Lines of standard input; ends with it.
pub fn control() -> mpsc::UnboundedReceiver<String> {
    let (sender, receiver) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Prints one line at once.
pub(crate) fn say(line: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

pub(crate) async fn run<S: Stack>(identity: &Identity) -> Result<()> {
    let (server, address) = S::server(identity)?;
    tokio::spawn(S::serve(server));
    let start = Usage::now();
    say(&format!("{{\"address\":\"{address}\"}}"))?;
    let mut orders = control();
    while let Some(order) = orders.recv().await {
        if order == "heap" {
            say(&format!("{{\"live\":{}}}", heap::live_bytes()))?;
        }
    }
    say(&format!("{{{}}}", Usage::now().since(start)))
}

/// Serves one connection.
pub async fn answer<C: Connection>(mut connection: C) {
    while let Some((send, recv)) = connection.accept().await {
        tokio::spawn(answer_stream(send, recv));
    }
}

async fn answer_stream<T: SendHalf, R: RecvHalf>(mut send: T, mut recv: R) -> Result<()> {
    let mut request = [0; 8];
    let mut len = 0;
    let mut keep = |bytes: &[u8]| {
        for &byte in bytes {
            if let Some(place) = request.get_mut(len) {
                *place = byte;
            }
            len += 1;
        }
    };
    while recv.recv(&mut keep).await?.is_some() {}
    let mut left = if len == 8 {
        u64::from_be_bytes(request)
    } else {
        ANSWER_BYTES as u64
    };
    while left > 0 {
        let now = left.min(BLOCK_BYTES as u64);
        // One for all: a block of its own would count as a connection's memory.
        send.send(Bytes::from_static(&BLOCK[..now as usize]))
            .await?;
        left -= now;
    }
    send.finish()
}
