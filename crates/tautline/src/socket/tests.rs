use std::{future::poll_fn, net::Ipv4Addr};

use super::*;

const LOOPBACK: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

fn bind(addr: SocketAddr) -> Socket {
    BoundSocket::bind(addr, BindOptions::default())
        .unwrap()
        .into_socket()
        .unwrap()
}

fn to(socket: &Socket, remote: SocketAddr, segment_size: Option<usize>, len: usize) -> Transmit {
    let four_tuple = FourTuple {
        local: socket.local,
        remote,
    };
    Transmit {
        four_tuple,
        ecn: Ecn::Ect0,
        len,
        segment_size,
    }
}

async fn receive(socket: &Socket, buffers: &mut ReceiveBuffers) -> Received {
    poll_fn(|cx| socket.poll_receive(cx, buffers.slot()))
        .await
        .unwrap()
}

#[tokio::test]
async fn a_batch_arrives_as_its_datagrams() {
    let (a, b) = (bind(LOOPBACK), bind(LOOPBACK));
    let contents: Vec<u8> = (0..5_000_u32).map(|i| (i % 251) as u8).collect();
    let segments = a.max_segments();
    let segment_size = if segments >= 5 { Some(1_200) } else { None };
    let sent = poll_fn(|cx| {
        a.poll_send(
            cx,
            &to(&a, b.local, segment_size, contents.len()),
            &contents,
        )
    });
    assert_eq!(sent.await, Sent::Taken);
    let mut buffers = ReceiveBuffers::new();
    let mut arrived = Vec::new();
    while arrived.len() < contents.len() {
        let received = receive(&b, &mut buffers).await;
        assert_eq!(received.four_tuple.remote, a.local);
        assert_eq!(received.four_tuple.local, b.local);
        assert_eq!(received.ecn, Ecn::Ect0);
        arrived.extend_from_slice(&buffers.take(received.len));
    }
    assert_eq!(arrived, contents);
}

#[tokio::test]
async fn ipv4_looks_the_same_through_a_dual_stack_socket() {
    let Ok(dual) = BoundSocket::bind("[::]:0".parse().unwrap(), BindOptions::default()) else {
        return; // No IPv6 on this host.
    };
    let dual = dual.into_socket().unwrap();
    let v4 = bind(LOOPBACK);
    let sent = poll_fn(|cx| dual.poll_send(cx, &to(&dual, v4.local, None, 5), b"hello"));
    assert_eq!(sent.await, Sent::Taken);
    let mut buffers = ReceiveBuffers::new();
    let there = receive(&v4, &mut buffers).await;
    assert!(there.four_tuple.remote.is_ipv4());
    assert_eq!(&buffers.take(there.len)[..], b"hello");

    // The answer, and an answer to that from the address it came to.
    let sent = poll_fn(|cx| v4.poll_send(cx, &to(&v4, there.four_tuple.remote, None, 2), b"hi"));
    assert_eq!(sent.await, Sent::Taken);
    let back = receive(&dual, &mut buffers).await;
    assert_eq!(back.four_tuple.remote, v4.local);
    assert_eq!(back.four_tuple.local.ip(), IpAddr::V4(Ipv4Addr::LOCALHOST));
    assert_eq!(&buffers.take(back.len)[..], b"hi");
    let transmit = Transmit {
        four_tuple: back.four_tuple,
        ecn: Ecn::NotEct,
        len: 3,
        segment_size: None,
    };
    assert_eq!(
        poll_fn(|cx| dual.poll_send(cx, &transmit, b"bye")).await,
        Sent::Taken
    );
    let there = receive(&v4, &mut buffers).await;
    assert_eq!(&buffers.take(there.len)[..], b"bye");
}

#[tokio::test]
async fn a_local_address_that_is_gone_is_left() {
    let (a, b) = (bind("0.0.0.0:0".parse().unwrap()), bind(LOOPBACK));
    let mut transmit = to(&a, b.local, None, 5);
    // Never an address of this host. RFC 5737.
    transmit.four_tuple.local.set_ip([192, 0, 2, 1].into());
    let sent = poll_fn(|cx| a.poll_send(cx, &transmit, b"moved"));
    assert_eq!(sent.await, Sent::Moved);
    let mut buffers = ReceiveBuffers::new();
    let there = receive(&b, &mut buffers).await;
    assert_eq!(&buffers.take(there.len)[..], b"moved");
}

#[test]
fn families_are_told_apart() {
    let v4: SocketAddr = "1.2.3.4:5".parse().unwrap();
    let v6: SocketAddr = "[2001:db8::1]:5".parse().unwrap();
    let any_v6: SocketAddr = "[::]:0".parse().unwrap();
    assert!(reaches(LOOPBACK, v4) && !reaches(LOOPBACK, v6));
    assert!(reaches(any_v6, v4) && reaches(any_v6, v6));
    assert!(!reaches(v6, v4) && reaches(v6, v6));
    assert_eq!(canonical("[::ffff:1.2.3.4]:5".parse().unwrap()), v4);
}

#[test]
fn small_buffers_come_with_a_cure() {
    let mut buffers = SocketBuffers {
        wanted_bytes: 1,
        wanted_send_bytes: 1,
        receive_bytes: 1,
        send_bytes: 1,
    };
    assert_eq!(buffers.warning(), None);
    buffers.wanted_bytes = 7 << 20;
    let warning = buffers.warning().unwrap();
    assert!(!cfg!(target_os = "linux") || warning.contains("sysctl -w net.core.rmem_max"));
}

#[test]
fn less_is_small_only_where_more_was_wanted() {
    let (receive_bytes, send_bytes) = (64 << 10, 8 << 10);
    let wanted = WantedBuffers {
        receive_bytes,
        send_bytes,
    };
    let options = BindOptions {
        buffers: wanted,
        ..BindOptions::default()
    };
    let mut buffers = BoundSocket::bind(LOOPBACK, options).unwrap().buffers;
    assert_eq!(buffers.wanted_bytes, receive_bytes);
    assert_eq!(buffers.wanted_send_bytes, send_bytes);
    assert_eq!(buffers.warning(), None);
    assert!(buffers.send_bytes < receive_bytes, "{buffers:?}");
    buffers.wanted_send_bytes = 7 << 20;
    assert!(buffers.is_small());
}
