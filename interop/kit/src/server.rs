//! What a server does in each case.

use std::{pin::Pin, rc::Rc};

use anyhow::Result;
use tokio::io::AsyncReadExt;

use crate::{
    Arguments, Case, Protocol,
    client::update_keys,
    facts::fact,
    http3, http09,
    stack::{Connection, Server},
};

/// A client whose handshake runs.
pub type Accepted<C> = Pin<Box<dyn Future<Output = Result<C>>>>;

/// Serves until standard input ends.
pub async fn run_server<S: Server>(server: S, arguments: &Arguments) -> Result<()> {
    let arguments = Rc::new(arguments.clone());
    println!("LISTENING {}", arguments.address);
    let clients = async {
        while let Some(accepted) = server.accept().await {
            let arguments = Rc::clone(&arguments);
            tokio::task::spawn_local(async move {
                match accepted.await {
                    Ok(connection) => serve(connection, &arguments).await,
                    Err(error) => eprintln!("handshake: {error:#}"),
                }
            });
        }
    };
    tokio::select! {
        () = clients => {}
        () = input_end() => {}
    }
    server.finish().await;
    Ok(())
}

async fn input_end() {
    let mut sink = [0; 64];
    let mut input = tokio::io::stdin();
    while input.read(&mut sink).await.is_ok_and(|len| len > 0) {}
}

async fn serve<C: Connection>(connection: C, arguments: &Rc<Arguments>) {
    fact("connections", 1);
    // H3_NO_ERROR. RFC 9114 s8.1.
    let close = || connection.close(0x100, b"");
    let answer = async {
        match arguments.protocol {
            Protocol::Http3 => {
                if let Err(error) = http3::serve(connection.http3(), &arguments.www, close).await {
                    eprintln!("http3: {error:#}");
                }
            }
            Protocol::Http09 => serve_http09(&connection, arguments).await,
        }
    };
    if arguments.case == Case::KeyUpdate && arguments.update_keys {
        tokio::select! {
            () = answer => {}
            updated = update_keys::<()>(&connection) => {
                if let Err(error) = updated {
                    eprintln!("key update: {error:#}");
                }
            }
        }
    } else {
        answer.await;
    }
    connection.report();
}

async fn serve_http09<C: Connection>(connection: &C, arguments: &Rc<Arguments>) {
    while let Ok((send, recv)) = connection.accept_bi().await {
        let arguments = Rc::clone(arguments);
        tokio::task::spawn_local(async move {
            if let Err(error) = http09::serve(send, recv, &arguments.www).await {
                eprintln!("request: {error:#}");
            }
        });
    }
}
