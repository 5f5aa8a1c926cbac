//! Two hosts and several networks between them, in namespaces of the kernel's. Where this user may make
//! none, nothing is tested.
#![cfg(target_os = "linux")]

use std::process::{Command, Output};

/// Two links: the client's `c0` and `c1`, the server's `s0` and `s1`. `server` runs a command on the
/// server's host, `serve` starts a server at these addresses, `named` gives `there` addresses, and
/// `fetch` gets a file from it.
const HOSTS: &str = r#"
set -e
cd "$(mktemp -d)"
unshare -n sleep 600 & host=$!
trap 'kill $host $serving; rm -rf "$PWD"' EXIT
there="nsenter -t $host -n"
server() { $there "$@"; }
# Until it has a network of its own, links would stay here.
while [ "$(readlink /proc/$host/ns/net)" = "$(readlink /proc/self/ns/net)" ]; do sleep 0.01; done
ip link set lo up
server ip link set lo up
for i in 0 1; do
    ip link add c$i type veth peer name s$i netns $host
    ip link set c$i up
    server ip link set s$i up
done
server ip address add 10.99.0.1/32 dev lo
v4() { ip address add 10.9.$1.2/24 dev c$1; server ip address add 10.9.$1.1/24 dev s$1; }
v6() {
    ip address add fd09:$1::2/64 dev c$1 nodad
    server ip address add fd09:$1::1/64 dev s$1 nodad
}
serve() {
    mkdir www out
    truncate -s 100M www/big
    listen=""
    for at in "$@"; do listen="$listen --listen $at:4433"; done
    # Not by a function, whose process would be another one.
    $there "$TAUTLINE" serve www --no-tcp $listen >said & serving=$!
    until grep -qs '^certificate' said; do kill -0 $serving; sleep 0.05; done
}
named() {
    for at in "$@"; do echo "$at there"; done >hosts
    mount --bind hosts /etc/hosts
}
fetch() {
    rm -f out/big
    timeout 100 "$TAUTLINE" get --quiet --insecure --dir out "$@" https://there:4433/big
}
"#;

/// Runs a script on the client's host. `None` if there can be no such hosts here.
fn on_hosts(script: &str) -> Option<Output> {
    let inside = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--net", "--mount", "sh", "-c"]);
        command
            .arg(script)
            .env("TAUTLINE", env!("CARGO_BIN_EXE_tautline"));
        command.output()
    };
    let possible = inside(&format!("{HOSTS} v4 0; v6 1; named 10.9.0.1"));
    if !possible.as_ref().is_ok_and(|it| it.status.success()) {
        println!("skipped: no namespaces, or no links in them, for this user: {possible:?}");
        return None;
    }
    Some(inside(&format!("{HOSTS}{script}")).unwrap())
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// One path to each of these addresses, for each of two runs.
fn leads_to_both(output: &Output, addresses: [&str; 2]) {
    let said = said(output);
    assert!(output.status.success(), "{said}");
    for address in addresses {
        let to = format!("to {address}:4433");
        let paths = said.lines().filter(|line| line.starts_with("path "));
        assert_eq!(paths.filter(|path| path.contains(&to)).count(), 2, "{said}");
    }
}

/// A network that has only IPv4 and one that has only IPv6 make two paths to a server that has both.
#[test]
fn each_interface_leads_to_an_address_of_its_family() {
    let output = on_hosts(
        "v4 0; v6 1
        server ip address add fd99::1/128 dev lo nodad
        ip route add default via 10.9.0.1 dev c0
        ip route add default via fd09:1::1 dev c1
        serve 10.99.0.1 '[fd99::1]'
        named 10.99.0.1 fd99::1
        fetch --paths auto
        fetch --paths c0,c1",
    );
    if let Some(output) = output {
        leads_to_both(&output, ["10.99.0.1", "[fd99::1]"]);
    }
}

/// Networks without routers, each with an address of the server's.
#[test]
fn each_interface_leads_to_an_address_on_its_link() {
    let output = on_hosts(
        "v4 0; v4 1
        serve 10.9.0.1 10.9.1.1
        named 10.9.0.1 10.9.1.1
        fetch --paths auto
        fetch --paths c0,c1",
    );
    if let Some(output) = output {
        leads_to_both(&output, ["10.9.0.1", "10.9.1.1"]);
    }
}

/// What a router says of the one address is not held against the other.
#[test]
fn an_address_out_of_reach_does_not_keep_from_the_other_family() {
    let output = on_hosts(
        "v4 0; v6 0
        server sysctl -qw net.ipv6.conf.all.forwarding=1
        ip route add default via 10.9.0.1 dev c0
        ip route add default via fd09:0::1 dev c0
        serve 10.99.0.1
        named fd99::1 10.99.0.1
        fetch",
    );
    if let Some(output) = output {
        assert!(output.status.success(), "{}", said(&output));
    }
}

/// Answers that this host drops itself are told of, though nobody answered the handshake either.
#[test]
fn filters_on_the_way_back_are_told_of() {
    let output = on_hosts(
        "v4 0; v4 1
        ip route add default via 10.9.0.1 dev c0 metric 100
        ip route add default via 10.9.1.1 dev c1 metric 200
        sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.c1.rp_filter=1
        serve 10.99.0.1
        named 10.99.0.1
        fetch --paths c1",
    );
    if let Some(output) = output {
        let said = said(&output);
        assert!(!output.status.success(), "{said}");
        assert!(said.contains("net.ipv4.conf.c1.rp_filter=2"), "{said}");
    }
}

/// A server on this host is reached though interfaces seem to lead to it.
#[test]
fn a_server_on_this_host_is_reached_without_interfaces() {
    let output = on_hosts(
        "v4 0
        ip route add default via 10.9.0.1 dev c0
        there=
        serve 10.9.0.2
        named 10.9.0.2
        fetch --paths auto
        fetch --paths c0 || echo refused >&2",
    );
    if let Some(output) = output {
        let said = said(&output);
        assert!(output.status.success(), "{said}");
        assert!(said.contains("path 0"), "{said}");
        assert!(said.contains("10.9.0.2:4433 is on this host"), "{said}");
    }
}

/// Fetches 10 MB over 40 Mb/s with `--paths auto`, and takes the client's address on `c0` away for so many seconds
/// meanwhile. What was said, if it came whole; `None` where there can be no such hosts or links.
fn fetched_without_an_address(hosts: &str, seconds: &str) -> Option<String> {
    let output = on_hosts(&format!(
        "{hosts}
        serve 10.9.0.1
        truncate -s 10M www/big
        named 10.9.0.1
        if ! server tc qdisc add dev s0 root tbf rate 40mbit burst 30000 limit 300000; then
            echo skipped: no slow links >&2
            exit
        fi
        fetch --paths auto & fetching=$!
        sleep 0.7
        ip address del 10.9.0.2/24 dev c0
        sleep {seconds}
        ip address add 10.9.0.2/24 dev c0
        wait $fetching"
    ))?;
    let said = said(&output);
    if said.contains("skipped") {
        println!("{said}");
        return None;
    }
    assert!(output.status.success(), "{said}");
    Some(said)
}

/// An address that goes and comes back while its path is the only one: the path is there still, and no second one
/// can begin where it does.
#[test]
fn an_address_that_comes_back_finds_its_path() {
    if let Some(said) = fetched_without_an_address("v4 0", "0.3") {
        assert!(said.contains("path 0"), "{said}");
        assert!(!said.contains("no path over c0"), "{said}");
    }
}

/// The only interface that works loses its address while another, which nobody answers on, is being tried: its path is
/// no reason to give up the one that works.
#[test]
fn an_interface_that_nobody_answers_on_takes_the_place_of_none() {
    let hosts = "v4 0; v4 1
        ip neigh replace 10.9.1.1 lladdr 02:00:00:00:00:99 dev c1
        ip route add default via 10.9.1.1 dev c1";
    if let Some(said) = fetched_without_an_address(hosts, "4") {
        let tried = |line: &str| line.contains("10.9.1.2") && line.contains("no answer");
        assert!(said.lines().any(tried), "{said}");
    }
}
