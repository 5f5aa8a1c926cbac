//! Programs of Debian 13, run out of a root of its own by its own loader.

use std::process::Command;

use anyhow::Result;

use super::setup::Setup;
use crate::interop::case::Case;

/// curl: one process fetches everything, in parallel.
pub(super) fn curl(setup: &Setup<'_>) -> Result<Command> {
    let mut text = String::new();
    for path in setup.paths {
        let out = setup.home.join("out").join(path.trim_start_matches('/'));
        let url = format!("https://127.0.0.1:{}{path}", setup.connect_port);
        text.push_str(&format!(
            "url = \"{url}\"\noutput = \"{}\"\n",
            out.display()
        ));
    }
    let config = setup.home.join("curl.conf");
    std::fs::write(&config, text)?;
    let mut command = setup.workshop.in_root("usr/bin/curl");
    command
        .args([
            "--silent",
            "--show-error",
            "--fail",
            "--http3-only",
            "--parallel",
            "--cacert",
        ])
        .arg(setup.workshop.certificate())
        .arg("--config")
        .arg(config)
        .env("SSLKEYLOGFILE", setup.home.join("keys.log"));
    Ok(command)
}

pub(super) fn ngtcp2_server(setup: &Setup<'_>) -> Result<Command> {
    let mut command = setup.workshop.in_root("usr/sbin/gtlsserver");
    command.arg("--quiet").arg("--htdocs").arg(setup.www);
    match setup.case {
        Case::Retry => {
            command.arg("--validate-addr");
        }
        Case::Version2 => {
            command.arg("--preferred-versions=v2,v1");
        }
        _ => {}
    }
    command
        .args(["127.0.0.1", &setup.server_port.to_string()])
        .arg(setup.workshop.key())
        .arg(setup.workshop.certificate());
    Ok(command)
}

pub(super) fn ngtcp2_client(setup: &Setup<'_>) -> Vec<Command> {
    match (setup.case, setup.paths.split_at_checked(1)) {
        (Case::Resumption | Case::ZeroRtt, Some((first, rest))) => {
            let mut one = ngtcp2_run(setup, first);
            one.arg("--wait-for-ticket");
            vec![one, ngtcp2_run(setup, rest)]
        }
        _ => vec![ngtcp2_run(setup, setup.paths)],
    }
}

fn ngtcp2_run(setup: &Setup<'_>, paths: &[String]) -> Command {
    let mut command = setup.workshop.in_root("usr/bin/gtlsclient");
    command
        .args(["--quiet", "--exit-on-all-streams-close", "--download"])
        .arg(setup.home.join("out"));
    match setup.case {
        Case::KeyUpdate => {
            command.arg("--key-update=100ms");
        }
        Case::Version2 => {
            command.args([
                "--version=v1",
                "--available-versions=v2,v1",
                "--preferred-versions=v2,v1",
            ]);
        }
        Case::Migration => {
            command.arg("--change-local-addr=20ms");
        }
        Case::Resumption | Case::ZeroRtt => {
            command
                .arg(format!(
                    "--session-file={}",
                    setup.home.join("session").display()
                ))
                .arg(format!(
                    "--tp-file={}",
                    setup.home.join("parameters").display()
                ));
            if setup.case == Case::Resumption {
                command.arg("--disable-early-data");
            }
        }
        _ => {}
    }
    let uris = paths.iter().map(|path| format!("https://localhost{path}"));
    command
        .args(["127.0.0.1", &setup.connect_port.to_string()])
        .args(uris);
    command
}

pub(super) fn nginx(setup: &Setup<'_>) -> Result<Command> {
    let home = setup.home.display();
    let retry = if setup.case == Case::Retry {
        "quic_retry on;"
    } else {
        ""
    };
    let early = if setup.case == Case::ZeroRtt {
        "ssl_early_data on;"
    } else {
        ""
    };
    let text = format!(
        "daemon off; master_process off; user root; pid {home}/nginx.pid; error_log stderr info;\n\
         events {{ worker_connections 256; }}\n\
         http {{ access_log off; client_body_temp_path {home}/b; proxy_temp_path {home}/p;\n\
         fastcgi_temp_path {home}/f; uwsgi_temp_path {home}/u; scgi_temp_path {home}/s;\n\
         server {{ listen 127.0.0.1:{port} quic reuseport; http3 on; {retry} {early}\n\
         ssl_protocols TLSv1.3; ssl_certificate {certificate}; ssl_certificate_key {key};\n\
         keepalive_requests 100000; root {www}; }} }}\n",
        port = setup.server_port,
        certificate = setup.workshop.certificate().display(),
        key = setup.workshop.key().display(),
        www = setup.www.display(),
    );
    let config = setup.home.join("nginx.conf");
    std::fs::write(&config, text)?;
    let mut command = setup.workshop.in_root("usr/sbin/nginx");
    command
        .arg("-e")
        .arg("stderr")
        .arg("-p")
        .arg(setup.home)
        .arg("-c")
        .arg(config);
    Ok(command)
}
