//! A client's first Initial: what it must satisfy, and what its token proves.

use bytes::BytesMut;

use super::{
    DatagramMeta, Endpoint, Incoming, TokenError, TokenFault, TokenUse, ValidToken, demux::Verdict,
    routes::Route, stateless, used_tokens::TokenName,
};
use crate::{
    config::ServerConfig,
    error::Code,
    observe::{Abuse, DropReason, Event, PacketKind},
    time::Instant,
    tls::Keys,
    units::Side,
    wire::{ConnectionId, Version, has_fixed_bit},
};

/// Smallest datagram that carries a client's Initial. RFC 9000 s14.1.
pub(super) const MIN_INITIAL_DATAGRAM: usize = 1200;
/// Shortest destination ID of a client's first Initial. RFC 9000 s7.2.
const MIN_INITIAL_DCID_LEN: usize = 8;

/// A client's first Initial that passed every check but the application's.
#[derive(Clone, Copy)]
pub(super) struct Admission {
    initial: Initial,
    address: AddressProof,
}

/// The header of a client's first Initial.
#[derive(Clone, Copy)]
pub(super) struct Initial {
    pub(super) version: Version,
    pub(super) dcid: ConnectionId,
    pub(super) scid: ConnectionId,
    pub(super) pn_offset: usize,
    pub(super) packet_len: usize,
}

/// What a client's token proves.
#[derive(Clone, Copy)]
pub(super) struct AddressProof {
    original_dcid: ConnectionId,
    retry_scid: Option<ConnectionId>,
    retry_token: Option<TokenName>,
    validated: bool,
}

impl Endpoint {
    /// A client's first Initial. RFC 9000 s5.2.2, s8.1.
    pub(super) fn on_new_initial(
        &mut self,
        now: Instant,
        meta: &DatagramMeta,
        initial: Initial,
        token: &[u8],
        data: &[u8],
        out: &mut Vec<u8>,
    ) -> Verdict {
        let Some(server) = self.server.clone() else {
            return Verdict::Dropped(DropReason::NotListening);
        };
        let Initial {
            version,
            dcid,
            scid,
            pn_offset,
            packet_len,
        } = initial;
        if !self.config.versions.contains(&version) {
            let (dcid, scid) = (dcid.as_slice(), scid.as_slice());
            return self.on_unknown_version(now, meta, version.0, dcid, scid, data.len(), out);
        }
        if data.len() < MIN_INITIAL_DATAGRAM {
            return self.abuse(now, Abuse::ShortInitial, DropReason::TooSmall);
        }
        if dcid.len() < MIN_INITIAL_DCID_LEN {
            return self.abuse(now, Abuse::ShortConnectionId, DropReason::BadConnectionId);
        }
        // A client without a token of ours cannot have seen that the QUIC bit may be greased.
        // RFC 9287 s3.1.
        if token.is_empty() && !data.first().is_some_and(|first| has_fixed_bit(*first)) {
            return self.abuse(now, Abuse::MalformedHeader, DropReason::Malformed);
        }
        let keys = server.tls.initial_keys(version, &dcid, Side::Server);
        let scratch = &mut self.scratch;
        if !stateless::initial_is_authentic(&keys, data, pn_offset, packet_len, scratch) {
            return self.abuse(
                now,
                Abuse::UndecryptablePacket,
                DropReason::DecryptionFailure,
            );
        }
        let token_use = TokenUse {
            remote: meta.four_tuple.remote,
            dcid,
            version,
        };
        let address = match self.check_token(now, token, &token_use, &server) {
            Ok(proof) => proof,
            Err(_) => {
                let code = Code::INVALID_TOKEN;
                return self.close_initial(now, meta, &initial, &keys, code, "Retry token", out);
            }
        };
        self.discard_stale(now);
        if self.table.proven() + self.pending.proven() >= server.max_connections {
            self.observer.emit(now, || Event::Abuse {
                kind: Abuse::TooManyConnections,
            });
            let code = Code::CONNECTION_REFUSED;
            return self.close_initial(now, meta, &initial, &keys, code, "server is full", out);
        }
        let crowded = self.table.incoming() + self.pending.len() >= server.max_incoming;
        // Those whose address may be forged must not turn others away: they only make newcomers
        // prove theirs.
        let full = self.table.len() + self.pending.len() >= server.max_connections;
        if crowded || full {
            self.observer.emit(now, || Event::Abuse {
                kind: Abuse::HandshakeFlood,
            });
            if !address.validated {
                let len = self.write_retry(now, meta, version, &scid, &dcid, out);
                return self.respond(now, meta, PacketKind::Retry, len);
            }
            // Even where every client must do a Retry, one that did has a place to wait.
            if crowded && self.pending.len() >= server.max_incoming.max(1) {
                return Verdict::Dropped(DropReason::Overload);
            }
        }
        Verdict::Admit(Admission { initial, address })
    }

    /// What the token of a first Initial proves. Only a bad Retry token is an error; any other
    /// bad token counts as none. RFC 9000 s8.1.3.
    fn check_token(
        &mut self,
        now: Instant,
        token: &[u8],
        token_use: &TokenUse,
        server: &ServerConfig,
    ) -> Result<AddressProof, TokenError> {
        let unproven = AddressProof {
            original_dcid: token_use.dcid,
            retry_scid: None,
            retry_token: None,
            validated: false,
        };
        if token.is_empty() {
            return Ok(unproven);
        }
        let opened = self
            .sealer
            .open(now, token, token_use, server)
            .and_then(|token| {
                let (was_retry, replayed) = match token {
                    ValidToken::Retry { id, issued, .. } => {
                        (true, self.answered.contains(&(issued, id)))
                    }
                    ValidToken::Validation { id, issued } => {
                        (false, !self.used_tokens.first_use(id, issued))
                    }
                };
                let fault = TokenFault::Replayed;
                if replayed {
                    Err(TokenError { was_retry, fault })
                } else {
                    Ok(token)
                }
            });
        match opened {
            Ok(ValidToken::Retry {
                original_dcid,
                retry_scid,
                id,
                issued,
            }) => Ok(AddressProof {
                original_dcid,
                retry_scid: Some(retry_scid),
                retry_token: Some((issued, id)),
                validated: true,
            }),
            Ok(ValidToken::Validation { .. }) => Ok(AddressProof {
                validated: true,
                ..unproven
            }),
            Err(error) => {
                let kind = match error.fault {
                    TokenFault::Expired => Abuse::TokenExpired,
                    TokenFault::Replayed => Abuse::TokenReplayed,
                    _ => Abuse::TokenForged,
                };
                self.observer.emit(now, || Event::Abuse { kind });
                if error.was_retry {
                    Err(error)
                } else {
                    Ok(unproven)
                }
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "one packet's worth of fields")]
    fn close_initial(
        &mut self,
        now: Instant,
        meta: &DatagramMeta,
        initial: &Initial,
        keys: &Keys,
        code: Code,
        reason: &'static str,
        out: &mut Vec<u8>,
    ) -> Verdict {
        if !self.limiter.take(now) {
            return self.abuse(now, Abuse::StatelessFlood, DropReason::Overload);
        }
        let ours = self.cids.for_retry(&mut self.rng);
        let Initial { version, scid, .. } = initial;
        match stateless::initial_close(out, keys, *version, scid, &ours, code, reason) {
            Some(len) => self.respond(now, meta, PacketKind::Initial, len),
            None => Verdict::Dropped(DropReason::General),
        }
    }

    /// Appends a Retry packet to `out` and returns its length.
    pub(super) fn write_retry(
        &mut self,
        now: Instant,
        meta: &DatagramMeta,
        version: Version,
        client_scid: &ConnectionId,
        original_dcid: &ConnectionId,
        out: &mut Vec<u8>,
    ) -> usize {
        let rng = &mut self.rng;
        let retry_scid = self.cids.for_retry(rng);
        let token_use = TokenUse {
            remote: meta.four_tuple.remote,
            dcid: retry_scid,
            version,
        };
        let token = self.sealer.seal_retry(now, &token_use, original_dcid, rng);
        stateless::retry(
            out,
            version,
            client_scid,
            &retry_scid,
            original_dcid,
            &token,
            rng,
        )
    }

    pub(super) fn admit(
        &mut self,
        now: Instant,
        meta: DatagramMeta,
        data: &[u8],
        admission: Admission,
    ) -> Incoming {
        let Admission { initial, address } = admission;
        let Initial {
            version,
            dcid,
            scid,
            ..
        } = initial;
        let remote = meta.four_tuple.remote;
        let (four_tuple, validated) = (meta.four_tuple, address.validated);
        let (id, alive) = self
            .pending
            .insert(now, dcid, remote, validated, data.len());
        self.routes.insert_initial(dcid, Route::Incoming(id));
        self.observer.emit(now, || Event::IncomingConnection {
            four_tuple,
            dcid,
            validated,
        });
        Incoming {
            id,
            alive,
            meta,
            // A copy, because the datagram may pin a large receive buffer while undecided.
            data: BytesMut::from(data),
            version,
            dcid,
            scid,
            original_dcid: address.original_dcid,
            retry_scid: address.retry_scid,
            retry_token: address.retry_token,
            validated,
        }
    }

    /// Forgets a few attempts that nobody will decide about.
    fn discard_stale(&mut self, now: Instant) {
        for _ in 0..4 {
            let Some((id, stale)) = self.pending.pop_stale(now) else {
                return;
            };
            self.routes.remove_initial(&stale.dcid, Route::Incoming(id));
        }
    }
}
