//! The downloading end.

use std::{path::Path, sync::Arc, time::Duration};

use indicatif::ProgressBar;
use rustls::crypto::CryptoProvider;
use tautline::{ClientConfig, Connection, Endpoint, Version, ZeroRttAccepted, tls::ClientTls};
use tokio::{
    sync::Semaphore,
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{Case, ClientArgs, variable};
use crate::{
    failure::{Failure, Outcome},
    get::{Job, Origin, Out, Protocol, Target},
    options::client_endpoint,
};

/// Files under way at once: each needs a file descriptor.
const PARALLEL: usize = 200;
/// A ticket comes right after the handshake; waiting longer than this is of no use.
const TICKET_WAIT: Duration = Duration::from_millis(500);
/// Until the keys may be updated.
const KEY_UPDATE_WAIT: Duration = Duration::from_secs(20);
const GOODBYE: Duration = Duration::from_secs(3);

pub(super) async fn run(args: ClientArgs) -> Outcome {
    let case = args.common.case()?;
    let jobs = jobs(&args)?;
    let first = jobs
        .first()
        .ok_or_else(|| Failure::new("nothing to download: set $REQUESTS or name URLs"))?;
    let protocol = if case == Case::Http3 {
        Protocol::Http3
    } else {
        Protocol::Http09
    };
    let client = Client {
        endpoint: endpoint(case)?,
        config: config(case, protocol, &args)?,
        host: first.target.host.clone(),
        port: first.target.port,
        protocol,
    };
    client
        .endpoint
        .set_default_client_config(client.config.clone());
    match case {
        Case::MultiConnect => {
            for job in &jobs {
                client
                    .download_all(client.connect().await?, std::slice::from_ref(job))
                    .await?;
            }
        }
        Case::Resumption | Case::ZeroRtt => {
            let (first, rest) = jobs.split_at(1);
            let connection = client.connect().await?;
            connection.handshake_confirmed().await?;
            sleep_until_ticket(&connection).await;
            client.download_all(connection, first).await?;
            if case == Case::ZeroRtt {
                let (connection, accepted) = client.connect_early().await?;
                client.download_all(connection, rest).await?;
                if !accepted.await {
                    return Err(Failure::new("the server did not take early data"));
                }
            } else {
                let connection = client.connect().await?;
                if !connection.is_resumed() {
                    return Err(Failure::new("the server did not resume the session"));
                }
                client.download_all(connection, rest).await?;
            }
        }
        Case::KeyUpdate => {
            let connection = client.connect().await?;
            update_keys(&connection).await?;
            client.download_all(connection, &jobs).await?;
        }
        Case::V2 => {
            let connection = client.connect().await?;
            if connection.version() != Version::V2 {
                return Err(Failure::new("the server did not move to QUIC v2"));
            }
            client.download_all(connection, &jobs).await?;
        }
        _ => client.download_all(client.connect().await?, &jobs).await?,
    }
    let _ = timeout(GOODBYE, client.endpoint.wait_idle()).await;
    Ok(())
}

struct Client {
    endpoint: Endpoint,
    config: ClientConfig,
    host: String,
    port: u16,
    protocol: Protocol,
}

impl Client {
    async fn connect(&self) -> Outcome<Connection> {
        Ok(self.endpoint.connect_host(&self.host, self.port).await?)
    }

    /// Uses the ticket of an earlier connection to send at once.
    async fn connect_early(&self) -> Outcome<(Connection, ZeroRttAccepted)> {
        let host = self.host.trim_start_matches('[').trim_end_matches(']');
        let addresses = tokio::net::lookup_host((host, self.port))
            .await
            .map_err(|error| Failure::new(format!("cannot resolve {host}: {error}")))?;
        let mut last = Failure::new(format!("{host} has no address that this socket can reach"));
        for address in addresses {
            match self.endpoint.connect(address, host) {
                Ok(connecting) => match connecting.into_0rtt() {
                    Ok(early) => return Ok(early),
                    Err(_) => last = Failure::new("the server gave no ticket for early data"),
                },
                Err(error) => last = error.into(),
            }
        }
        Err(last)
    }

    async fn download_all(&self, connection: Connection, jobs: &[Job]) -> Outcome {
        let origin = Origin::new(connection, self.protocol).await?;
        let turns = Arc::new(Semaphore::new(PARALLEL));
        let mut work = JoinSet::new();
        for job in jobs.iter().cloned() {
            let (origin, turns) = (origin.clone(), Arc::clone(&turns));
            work.spawn(async move {
                // The semaphore is never closed.
                let _turn = turns.acquire().await;
                let fetched = origin.fetch(&job, &ProgressBar::hidden()).await;
                fetched.map_err(|broken| Failure::from(broken).at(&job.target))
            });
        }
        while let Some(done) = work.join_next().await {
            done.map_err(|error| Failure::new(error.to_string()))??;
        }
        origin.close();
        Ok(())
    }
}

fn jobs(args: &ClientArgs) -> Outcome<Vec<Job>> {
    let mut requests = args.requests.clone();
    if requests.is_empty() {
        let variable = variable("REQUESTS").unwrap_or_default();
        requests.extend(variable.split_whitespace().map(str::to_owned));
    }
    let job = |url: &String| {
        let target: Target = url.parse().map_err(Failure::new)?;
        let out = Out::File(Path::new(&args.downloads).join(target.file_name()));
        Ok(Job {
            target,
            out,
            expected: None,
        })
    };
    requests.iter().map(job).collect()
}

fn endpoint(case: Case) -> Outcome<Endpoint> {
    if case == Case::V2 {
        let config = case.endpoint_config();
        let any = |text: &str| text.parse().map_err(|_| Failure::new("no address"));
        let bind = |addr| Endpoint::builder().config(config.clone()).bind(addr);
        return Ok(bind(any("[::]:0")?).or_else(|_| bind(std::net::SocketAddr::from(([0; 4], 0))))?);
    }
    client_endpoint()
}

fn config(case: Case, protocol: Protocol, args: &ClientArgs) -> Outcome<ClientConfig> {
    // The runner's certificates are made for each run.
    let mut tls = ClientTls::danger_accept_any_certificate()
        .key_log_from_env()
        .alpn([protocol.alpn()]);
    if case == Case::ChaCha20 {
        tls = tls.crypto_provider(Arc::new(CryptoProvider {
            cipher_suites: vec![
                rustls::crypto::aws_lc_rs::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
            ],
            ..rustls::crypto::aws_lc_rs::default_provider()
        }));
    }
    let mut config = tls.build()?;
    config.transport = Arc::new(args.common.transport(case)?);
    Ok(config)
}

/// Tickets follow the handshake's end within the same flight or the next.
async fn sleep_until_ticket(connection: &Connection) {
    sleep((4 * connection.rtt()).min(TICKET_WAIT)).await;
}

/// As early as possible, so that the file travels under the new keys.
async fn update_keys(connection: &Connection) -> Outcome {
    const TRY_EVERY: Duration = Duration::from_millis(5);
    connection.handshake_confirmed().await?;
    let updated = timeout(KEY_UPDATE_WAIT, async {
        while connection.force_key_update().is_err() {
            sleep(TRY_EVERY).await;
        }
    });
    updated
        .await
        .map_err(|_| Failure::new("the keys could not be updated"))
}
