//! What the scripts of the fuzz targets reach: every frame is dispatched, every error code comes.

use std::{collections::BTreeSet, fs, path::PathBuf};

use tautline_testkit::fuzz::{self, Coverage, Reached};
use tautline_transport::{error::Code, wire::all_rows};

/// Codes that no connection of ours closes with for a broken rule, each with why.
const NEVER_CLOSED_WITH: &[(Code, &str)] = &[
    (
        Code::NO_ERROR,
        "applications close with their own codes, in a frame of their own",
    ),
    (
        Code::CONNECTION_REFUSED,
        "said by an endpoint without a connection; heard by clients",
    ),
    (
        Code::INVALID_TOKEN,
        "said by an endpoint without a connection; heard by clients",
    ),
    (
        Code::APPLICATION_ERROR,
        "an application's close during the handshake; heard by peers",
    ),
    (
        Code::NO_VIABLE_PATH,
        "without a path there is nowhere to say it; the connection just ends",
    ),
    (
        Code::APPLICATION_ABANDON_PATH,
        "a reason to abandon one path, once several are negotiated",
    ),
    (Code::PATH_RESOURCE_LIMIT_REACHED, "as above"),
    (Code::PATH_UNSTABLE_OR_POOR, "as above"),
    (Code::NO_CID_AVAILABLE_FOR_PATH, "as above"),
];

/// Of those, the ones that a peer hears.
const HEARD: &[Code] = &[
    Code::CONNECTION_REFUSED,
    Code::INVALID_TOKEN,
    Code::APPLICATION_ERROR,
];

/// The ends of a connection, by name of [`tautline_transport::error::ConnectionError`]'s variants.
const ENDS: &[&str] = &[
    "HandshakeTimeout",
    "IdleTimeout",
    "LocallyClosed",
    "NoViablePath",
    "PeerApplication",
    "PeerTransport",
    "StatelessReset",
    "Transport",
    "VersionMismatch",
];

/// What seeds and corpus of the stateful targets reach.
fn reached() -> Reached {
    let coverage = Coverage::default();
    let run = |target: &str, data: &[u8]| match target {
        "pair" => fuzz::run_pair(data, Some(&coverage)),
        _ => fuzz::run_datagram_in(data, Some(&coverage)),
    };
    for target in ["pair", "datagram_in"] {
        for (name, seed) in fuzz::seeds(target) {
            eprintln!("{target} {name}");
            run(target, &seed);
        }
        let corpus = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
        for entry in fs::read_dir(corpus.join(target)).unwrap() {
            let path = entry.unwrap().path();
            eprintln!("{}", path.display());
            run(target, &fs::read(path).unwrap());
        }
    }
    coverage.reached()
}

#[test]
fn every_frame_and_every_error_code_is_reached() {
    let reached = reached();
    if std::env::var_os("TAUTLINE_PRINT").is_some() {
        println!("{reached:#?}");
    }
    let missing: Vec<&str> = all_rows()
        .iter()
        .filter(|row| !reached.frames.iter().any(|frame| row.types.contains(frame)))
        .map(|row| row.name)
        .collect();
    assert_eq!(missing, Vec::<&str>::new(), "frames never dispatched");

    let codes: BTreeSet<Code> = (0..=0x4000)
        .map(Code)
        .filter(|code| code.name().is_some())
        .collect();
    let excused: BTreeSet<Code> = NEVER_CLOSED_WITH.iter().map(|(code, _)| *code).collect();
    let expected: BTreeSet<Code> = codes.difference(&excused).copied().collect();
    let named: BTreeSet<Code> = reached.codes.intersection(&codes).copied().collect();
    assert_eq!(named, expected, "codes that connections close with");
    assert!(
        reached.codes.iter().any(|code| code.tls_alert().is_some()),
        "no TLS alert"
    );
    for code in HEARD {
        assert!(reached.heard.contains(code), "nobody hears {code}");
    }
    let ends: Vec<&str> = reached.ends.iter().copied().collect();
    assert_eq!(ends, ENDS, "how connections end");
}
