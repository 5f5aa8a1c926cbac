//! A peer of the far end: whether it has the token, and what it then asks for.

use std::{sync::Arc, time::Duration};

use tautline::{Connection, Incoming, RecvStream, SendStream};
use tautline_lab::{campaign::MadeBy, stack::Stacks};
use tokio::{sync::OwnedSemaphorePermit, time::timeout};

use super::{House, PeerSeat, run::Run};
use crate::{
    talk::{self, Answer, Ask, Hello, TalkError},
    trust::{self, Prover},
};

/// A stranger has so long to say who it is.
const INTRODUCTION: Duration = Duration::from_secs(10);
/// Whoever is refused has so long to hear why.
const GOODBYE: Duration = Duration::from_secs(3);

struct Peer<'a> {
    house: Arc<House>,
    connection: Connection,
    send: SendStream,
    recv: RecvStream,
    told: &'a (dyn Fn(&str) + Sync),
}

/// Serves whoever knocks; `place` is a stranger's.
pub(super) async fn serve(
    house: Arc<House>,
    incoming: Incoming,
    place: OwnedSemaphorePermit,
    told: &(dyn Fn(&str) + Sync),
) {
    let introduction = async {
        let connection = incoming.await.ok()?;
        let (send, mut recv) = connection.accept_bi().await.ok()?;
        let ask = talk::read::<Ask>(&mut recv, talk::STRANGER_BYTES)
            .await
            .ok()?;
        Some((connection, send, recv, ask))
    };
    // Whoever says nothing, or nothing that is said here, is no peer of ours.
    let Ok(Some((connection, send, recv, ask))) = timeout(INTRODUCTION, introduction).await else {
        return;
    };
    let mut peer = Peer {
        house,
        connection,
        send,
        recv,
        told,
    };
    match ask {
        Ask::Knock { key } => {
            let from = peer.connection.remote_address();
            let answer = match peer.house.knocked(&key, from) {
                true => Answer::Done,
                false => refused("no run is waiting for this knock"),
            };
            let _ = peer.say(&answer).await;
            let _ = timeout(GOODBYE, peer.connection.closed()).await;
        }
        Ask::Hello(hello) => match peer.welcome(&hello).await {
            Ok(seat) => {
                drop(place);
                peer.attend(seat).await;
            }
            Err(reason) => {
                let _ = peer.say(&refused(reason)).await;
                let _ = timeout(GOODBYE, peer.connection.closed()).await;
            }
        },
        _ => {
            let _ = peer.say(&refused("say hello first")).await;
            let _ = timeout(GOODBYE, peer.connection.closed()).await;
        }
    }
}

pub(super) fn refused(reason: impl Into<String>) -> Answer {
    Answer::Refused {
        reason: reason.into(),
    }
}

/// This laboratory, as both ends must be the same.
pub(crate) fn laboratory() -> String {
    MadeBy::this(&Stacks::default()).to_string()
}

impl Peer<'_> {
    async fn say(&mut self, answer: &Answer) -> Result<(), TalkError> {
        let message = talk::encode(answer, talk::ANSWER_BYTES)?;
        talk::write(&mut self.send, message).await
    }

    /// Whether the peer is one of ours; else why not, and what to do.
    async fn welcome(&mut self, hello: &Hello) -> Result<PeerSeat, String> {
        let (house, connection) = (&self.house, &self.connection);
        let laboratory = laboratory();
        if hello.version != talk::VERSION {
            return Err(format!(
                "this far end speaks version {} of field runs and you version {}: use the same tautline on \
                 both machines",
                talk::VERSION,
                hello.version
            ));
        }
        if !trust::holds(connection, &house.token, Prover::Near, &hello.proof) {
            return Err(
                "the token is another one: give --token as the far end printed it".to_owned(),
            );
        }
        if hello.laboratory != laboratory {
            return Err(format!(
                "this far end is {laboratory} and you are {}, whose figures may be others: use the same \
                 tautline on both machines",
                hello.laboratory
            ));
        }
        let seat = house.seat().ok_or_else(|| {
            let peers = house.limits.peers;
            format!(
                "this far end serves {peers} peers already: wait, or start it with more --peers"
            )
        })?;
        let proof = trust::proof(connection, &house.token, Prover::Far);
        let proof = proof.ok_or("TLS gives no secret to prove the token with")?;
        let answer = Answer::Hello(Hello {
            version: talk::VERSION,
            laboratory,
            proof,
        });
        self.say(&answer).await.map_err(|error| error.to_string())?;
        Ok(seat)
    }

    async fn attend(mut self, _seat: PeerSeat) {
        let from = self.connection.remote_address();
        (self.told)(&format!("{from} has come"));
        let mut run = None;
        let why = loop {
            let ask = match talk::read::<Ask>(&mut self.recv, talk::ASK_BYTES).await {
                Ok(ask) => ask,
                Err(TalkError::Over(_)) => break "has gone".to_owned(),
                Err(error) => {
                    let _ = self.say(&refused(error.to_string())).await;
                    break format!("is turned away: {error}");
                }
            };
            let answer = self.answer(ask, &mut run).await;
            if self.say(&answer).await.is_err() {
                break "has gone".to_owned();
            }
        };
        (self.told)(&format!("{from} {why}"));
    }

    /// One run at a time: what belongs to none, or to another, is refused.
    async fn answer(&self, ask: Ask, run: &mut Option<Run>) -> Answer {
        match (ask, run.take()) {
            (Ask::Clock, kept) => {
                *run = kept;
                let nanos = crate::clock::now().saturating_duration_since(self.house.since);
                Answer::Clock {
                    nanos: u64::try_from(nanos.as_nanos()).unwrap_or(u64::MAX),
                }
            }
            // A run that was not finished is given up.
            (Ask::Prepare(ask), _) => match Run::prepare(&self.house, *ask) {
                Ok((prepared, keys)) => {
                    let from = self.connection.remote_address();
                    (self.told)(&format!("{from}: a run of {} connections", keys.len()));
                    *run = Some(prepared);
                    Answer::Prepared { keys }
                }
                Err(reason) => refused(reason),
            },
            (Ask::Begin { zero_nanos }, Some(mut prepared)) => match prepared.begin(zero_nanos) {
                Ok(()) => {
                    *run = Some(prepared);
                    Answer::Done
                }
                Err(reason) => refused(reason),
            },
            (Ask::Finish, Some(prepared)) => {
                let seen = Answer::Seen {
                    flows: prepared.finish().await,
                };
                match talk::encode(&seen, talk::ANSWER_BYTES) {
                    Ok(_) => seen,
                    Err(error) => refused(format!("what was seen is too much to tell: {error}")),
                }
            }
            (Ask::Begin { .. } | Ask::Finish, None) => refused("no run was prepared"),
            (Ask::Hello(_) | Ask::Knock { .. }, kept) => {
                *run = kept;
                refused("that was said already")
            }
        }
    }
}
