//! The cases: what is asked of each end, over which network, and how the client's run ends.

use std::time::Duration;

use tautline_sim::interop::{Scenario, scenario};

const KB: usize = 1 << 10;
const MB: usize = 1 << 20;
/// Length of the names in the runner's zerortt test.
const LONG_NAME: usize = 250;

/// Which of the server's addresses take part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    /// The runner's name.
    pub(crate) name: &'static str,
    /// Its letters in the runner's tables.
    pub(crate) letters: &'static str,
    /// $TESTCASE of both ends, where it is not the name.
    client_as: Option<&'static str>,
    server_as: Option<&'static str>,
    /// Which address the client starts with.
    pub(crate) family: Family,
    /// The family of the server's preferred address.
    pub(crate) preferred: Option<Family>,
    /// How often it is run.
    pub(crate) runs: usize,
    /// What the row is about, for the document.
    pub(crate) meaning: &'static str,
}

const PLAIN: Case = Case {
    name: "",
    letters: "",
    client_as: None,
    server_as: None,
    family: Family::V4,
    preferred: None,
    runs: 1,
    meaning: "",
};

/// A case in which both ends are told to transfer.
const fn transfer(name: &'static str, letters: &'static str, meaning: &'static str) -> Case {
    Case {
        client_as: Some("transfer"),
        server_as: Some("transfer"),
        ..plain(name, letters, meaning)
    }
}

const fn plain(name: &'static str, letters: &'static str, meaning: &'static str) -> Case {
    Case {
        name,
        letters,
        meaning,
        ..PLAIN
    }
}

const fn both(
    name: &'static str,
    letters: &'static str,
    told: &'static str,
    meaning: &'static str,
) -> Case {
    Case {
        client_as: Some(told),
        server_as: Some(told),
        ..plain(name, letters, meaning)
    }
}

const fn migration(family: Family, preferred: Family, meaning: &'static str) -> Case {
    Case {
        client_as: Some("transfer"),
        family,
        preferred: Some(preferred),
        ..plain("connectionmigration", "CM", meaning)
    }
}

/// The rows, in the runner's order.
pub(crate) const ALL: &[Case] = &[
    plain("handshake", "H", "1 KB; one handshake, no Retry"),
    plain("transfer", "DC", "2, 3 and 5 MB on one connection"),
    both(
        "longrtt",
        "LR",
        "handshake",
        "1.5 s RTT; at least two ClientHellos, one handshake",
    ),
    plain(
        "chacha20",
        "C20",
        "3 MB; the ClientHello offers 0x1303 alone",
    ),
    transfer(
        "multiplexing",
        "M",
        "1,999 files of 32 B on one connection; initial_max_streams_bidi at most 1,000",
    ),
    plain(
        "retry",
        "S",
        "a Retry, its token in the next Initial, packet numbers go on",
    ),
    plain(
        "resumption",
        "R",
        "two handshakes, the second without a Certificate",
    ),
    plain(
        "zerortt",
        "Z",
        "40 requests with names of 250 characters; 0-RTT packets, at most 5,000 B of 1-RTT by the client",
    ),
    plain("http3", "3", "5, 10 and 500 KB over HTTP/3"),
    transfer(
        "blackhole",
        "B",
        "10 MB while the link dies for 2 s after every 5 s",
    ),
    Case {
        server_as: Some("transfer"),
        ..plain("keyupdate", "U", "3 MB; both ends send in key phase 1")
    },
    plain(
        "ecn",
        "E",
        "ECT(0) on every datagram both ways, no CE, ACKs with ECN counts both ways",
    ),
    transfer(
        "amplificationlimit",
        "A",
        "a flight of nine certificates, the client's datagrams 2 to 7 lost; the server sends at most three times what reached it",
    ),
    both(
        "handshakeloss",
        "L1",
        "multiconnect",
        "50 connections at 30 % loss each way",
    ),
    transfer("transferloss", "L2", "2 MB at 2 % loss each way"),
    both(
        "handshakecorruption",
        "C1",
        "multiconnect",
        "50 connections with 30 % of datagrams changed",
    ),
    transfer(
        "transfercorruption",
        "C2",
        "2 MB with 2 % of datagrams changed",
    ),
    Case {
        family: Family::V6,
        ..transfer("ipv6", "6", "IPv6; the server sends nothing over IPv4")
    },
    plain(
        "v2",
        "V2",
        "Initial of v1 by the client, of v2 by the server, all Handshake packets v2",
    ),
    transfer(
        "rebind-port",
        "BP",
        "10 MB; the client's port changes at 1 s, then every 5 s; each new path starts with a PATH_CHALLENGE that is answered",
    ),
    transfer("rebind-addr", "BA", "the same with the client's address"),
    migration(
        Family::V4,
        Family::V4,
        "2 MB; from IPv4 to another port of IPv4: new connection ID, PATH_CHALLENGE, answered",
    ),
    migration(Family::V6, Family::V6, "from IPv6 to another port of IPv6"),
    migration(Family::V4, Family::V6, "from IPv4 to IPv6"),
    migration(Family::V6, Family::V4, "from IPv6 to IPv4"),
    Case {
        runs: 5,
        ..transfer("goodput", "G", "measured: 10 MB, five times")
    },
    transfer(
        "crosstraffic",
        "C",
        "measured: 25 MB beside a second flow through the same queue",
    ),
];

impl Case {
    /// The name, told apart from its variants.
    pub(crate) fn title(&self) -> String {
        let name = |family| match family {
            Family::V4 => "IPv4",
            Family::V6 => "IPv6",
        };
        match self.preferred {
            Some(preferred) => {
                format!("{} {} to {}", self.name, name(self.family), name(preferred))
            }
            None => self.name.to_owned(),
        }
    }

    /// $TESTCASE of the client.
    pub(crate) fn client_testcase(&self) -> &'static str {
        self.client_as.unwrap_or(self.name)
    }

    /// $TESTCASE of the server.
    pub(crate) fn server_testcase(&self) -> &'static str {
        self.server_as.unwrap_or(self.name)
    }

    /// The network, as the tests in the simulator have it.
    pub(crate) fn scenario(&self) -> Option<Scenario> {
        scenario(self.name)
    }

    /// Whether a second flow runs beside.
    pub(crate) fn has_crosstraffic(&self) -> bool {
        self.name == "crosstraffic"
    }

    /// Whether it is measured rather than judged.
    pub(crate) fn is_measurement(&self) -> bool {
        matches!(self.name, "goodput" | "crosstraffic")
    }

    /// Whether the server's certificate chain is long.
    pub(crate) fn has_long_chain(&self) -> bool {
        self.name == "amplificationlimit"
    }

    /// How long the runner waits for the client.
    pub(crate) fn limit(&self) -> Duration {
        Duration::from_secs(match self.name {
            "handshakeloss" | "handshakecorruption" => 300,
            "crosstraffic" => 180,
            _ => 60,
        })
    }

    /// Handshakes there must be.
    pub(crate) fn handshakes(&self) -> usize {
        match self.name {
            "resumption" | "zerortt" => 2,
            "handshakeloss" | "handshakecorruption" => 50,
            _ => 1,
        }
    }

    /// Lengths of the files that are fetched.
    fn lengths(&self) -> Vec<usize> {
        match self.name {
            "transfer" => vec![2 * MB, 3 * MB, 5 * MB],
            "chacha20" | "keyupdate" => vec![3 * MB],
            "multiplexing" => vec![32; 1999],
            "resumption" | "ipv6" => vec![5 * KB, 10 * KB],
            "zerortt" => vec![32; 40],
            "http3" => vec![5 * KB, 10 * KB, 500 * KB],
            "blackhole" | "rebind-port" | "rebind-addr" | "goodput" => vec![10 * MB],
            "amplificationlimit" => vec![5 * KB],
            "handshakeloss" | "handshakecorruption" => vec![KB; 50],
            "transferloss" | "transfercorruption" | "connectionmigration" => vec![2 * MB],
            "crosstraffic" => vec![25 * MB],
            _ => vec![KB],
        }
    }

    /// The files that are fetched: name and length.
    pub(crate) fn files(&self) -> Vec<(String, usize)> {
        let name = |index: usize| {
            let mut name = format!("{}-{index}", self.name);
            if self.name == "zerortt" {
                name.extend(std::iter::repeat_n('x', LONG_NAME - name.len()));
            }
            name
        };
        let lengths = self.lengths().into_iter().enumerate();
        lengths.map(|(index, len)| (name(index), len)).collect()
    }

    /// Bytes fetched in a run.
    pub(crate) fn bytes(&self) -> usize {
        self.lengths().iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_case_has_its_network_and_there_are_22_and_two_measurements() {
        assert!(ALL.iter().all(|case| case.scenario().is_some()));
        let judged = ALL.iter().filter(|case| !case.is_measurement());
        assert_eq!(
            judged.map(|case| case.name).collect::<BTreeSet<_>>().len(),
            22
        );
        let measured = ALL.iter().filter(|case| case.is_measurement());
        assert_eq!(measured.count(), 2);
        let titles: BTreeSet<_> = ALL.iter().map(Case::title).collect();
        assert_eq!(titles.len(), ALL.len());
    }

    #[test]
    fn names_are_as_long_as_the_runner_has_them() {
        let zerortt = ALL.iter().find(|case| case.name == "zerortt").unwrap();
        assert!(zerortt.files().iter().all(|(name, _)| name.len() == 250));
    }
}
