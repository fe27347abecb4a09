//! The proxy: each fault happens, and only when requested.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use tenure_testkit::{Fault, Proxy, RedisServer};

#[test]
fn without_a_fault_all_passes() {
    let (server, proxy) = start();
    let mut client = connect(&proxy);
    assert_eq!(ask(&mut client, "PING"), "+PONG\r\n");
    let big = "x".repeat(1_000_000);
    assert_eq!(
        ask(&mut client, &format!("SET a {}", &big[..60_000])),
        "+OK\r\n"
    );
    assert_eq!(server.cli(&["SET", "big", &big]), "OK");
    client.write_all(b"GET big\r\n").unwrap();
    let mut answer = vec![0; "$1000000\r\n".len() + big.len() + 2];
    client.read_exact(&mut answer).unwrap();
    assert!(answer.ends_with(b"xx\r\n"));
    assert_eq!(
        (proxy.connections_accepted(), proxy.replies_swallowed()),
        (1, 0)
    );
    drop(client);
    until(|| proxy.connections_open() == 0);
    assert_eq!(proxy.connections_cut(), 0);
}

#[test]
fn a_delay_counts_each_way() {
    let (_server, proxy) = start();
    let mut client = connect(&proxy);
    proxy.set(Fault::Delay(Duration::from_millis(50)));
    let begin = Instant::now();
    assert_eq!(ask(&mut client, "PING"), "+PONG\r\n");
    assert!(begin.elapsed() >= Duration::from_millis(100));
    proxy.set(Fault::Delay(Duration::from_secs(3600)));
    client.write_all(b"PING\r\n").unwrap();
    proxy.set(Fault::Pass);
    assert_eq!(read(&mut client), "+PONG\r\n", "a delay that ends lets go");
}

#[test]
fn lost_replies_are_of_requests_that_were_done() {
    let (server, proxy) = start();
    let mut client = connect(&proxy);
    proxy.set(Fault::LoseReplies);
    client.write_all(b"SET a 1\r\n").unwrap();
    proxy.wait_for_swallowed(1).unwrap();
    assert_eq!(server.cli(&["GET", "a"]), "1");
    assert_silent(&mut client);
    proxy.set(Fault::Pass);
    assert_eq!(
        ask(&mut client, "PING"),
        "+PONG\r\n",
        "the connection was kept"
    );
}

#[test]
fn one_reply_is_lost_and_its_connection_cut() {
    let (server, proxy) = start();
    let (mut victim, mut other) = (connect(&proxy), connect(&proxy));
    assert_eq!(ask(&mut other, "PING"), "+PONG\r\n");
    proxy.lose_next_reply_then_cut();
    victim.write_all(b"INCR a\r\n").unwrap();
    assert_eq!(read(&mut victim), "", "closed without an answer");
    proxy.wait_for_swallowed(1).unwrap();
    assert_eq!(server.cli(&["GET", "a"]), "1");
    assert_eq!(ask(&mut other, "PING"), "+PONG\r\n");
    assert_eq!(ask(&mut connect(&proxy), "PING"), "+PONG\r\n");
    assert_eq!((proxy.replies_swallowed(), proxy.connections_cut()), (1, 1));
}

#[test]
fn the_reply_to_lose_is_chosen_by_its_request() {
    let (server, proxy) = start();
    let mut client = connect(&proxy);
    proxy.lose_reply_then_cut(b"INCR");
    assert_eq!(ask(&mut client, "PING"), "+PONG\r\n");
    client.write_all(b"INCR a\r\n").unwrap();
    assert_eq!(read(&mut client), "");
    assert_eq!(server.cli(&["GET", "a"]), "1");
}

#[test]
fn a_reply_can_be_the_last_of_its_connection() {
    let (_server, proxy) = start();
    let mut client = connect(&proxy);
    proxy.forward_reply_then_cut(b"INCR");
    assert_eq!(ask(&mut client, "PING"), "+PONG\r\n");
    assert_eq!(ask(&mut client, "INCR a"), ":1\r\n");
    assert_eq!(read(&mut client), "");
    assert_eq!((proxy.connections_cut(), proxy.replies_swallowed()), (1, 0));
}

#[test]
fn cut_connections_are_closed_and_new_ones_pass() {
    let (_server, proxy) = start();
    let mut client = connect(&proxy);
    assert_eq!(ask(&mut client, "PING"), "+PONG\r\n");
    proxy.cut();
    assert_eq!(read(&mut client), "");
    assert_eq!(ask(&mut connect(&proxy), "PING"), "+PONG\r\n");
    assert_eq!(
        (proxy.connections_accepted(), proxy.connections_cut()),
        (2, 1)
    );
}

#[test]
fn refused_connections_are_closed_at_once() {
    let (_server, proxy) = start();
    let mut client = connect(&proxy);
    assert_eq!(ask(&mut client, "PING"), "+PONG\r\n");
    proxy.set(Fault::Refuse);
    assert_eq!(read(&mut connect(&proxy)), "");
    assert_eq!(ask(&mut client, "PING"), "+PONG\r\n", "the old one goes on");
    assert_eq!(
        (proxy.connections_accepted(), proxy.connections_refused()),
        (2, 1)
    );
}

#[test]
fn a_frozen_wire_holds_back_and_then_goes_on() {
    let (server, proxy) = start();
    let (mut client, mut cut) = (connect(&proxy), connect(&proxy));
    assert_eq!(ask(&mut cut, "PING"), "+PONG\r\n");
    proxy.set(Fault::Freeze);
    client.write_all(b"SET a 1\r\n").unwrap();
    assert_silent(&mut client);
    assert_eq!(server.cli(&["EXISTS", "a"]), "0");
    let mut late = connect(&proxy);
    late.write_all(b"PING\r\n").unwrap();
    assert_silent(&mut late);
    proxy.set(Fault::Pass);
    assert_eq!(read(&mut client), "+OK\r\n");
    assert_eq!(read(&mut late), "+PONG\r\n");
    proxy.set(Fault::Freeze);
    cut.write_all(b"SET b 1\r\n").unwrap();
    proxy.cut();
    assert_eq!(read(&mut cut), "");
    proxy.set(Fault::Pass);
    assert_eq!(
        server.cli(&["EXISTS", "b"]),
        "0",
        "what was held back is gone with its connection"
    );
}

#[test]
fn a_dropped_proxy_leaves_no_connection_whatever_its_fault() {
    for fault in [
        Fault::Pass,
        Fault::Freeze,
        Fault::LoseReplies,
        Fault::Delay(Duration::from_secs(3600)),
    ] {
        let (_server, proxy) = start();
        let mut client = connect(&proxy);
        assert_eq!(ask(&mut client, "PING"), "+PONG\r\n");
        proxy.set(fault);
        client.write_all(b"PING\r\n").unwrap();
        let port = proxy.port();
        drop(proxy);
        // It may have been answered before the drop.
        let mut rest = vec![];
        let _ = client.read_to_end(&mut rest);
        assert!(
            TcpStream::connect(("127.0.0.1", port)).is_err(),
            "{fault:?}"
        );
    }
}

#[test]
fn a_server_that_is_gone_is_gone_through_the_proxy_too() {
    let (mut server, proxy) = start();
    let mut client = connect(&proxy);
    assert_eq!(ask(&mut client, "PING"), "+PONG\r\n");
    server.kill().unwrap();
    assert_eq!(read(&mut client), "");
    assert_eq!(read(&mut connect(&proxy)), "");
    server.start_again().unwrap();
    assert_eq!(ask(&mut connect(&proxy), "PING"), "+PONG\r\n");
}

fn start() -> (RedisServer, Proxy) {
    let server = RedisServer::start().unwrap();
    let proxy = Proxy::start(server.port()).unwrap();
    (server, proxy)
}

fn connect(proxy: &Proxy) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", proxy.port())).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    stream
}

fn ask(stream: &mut TcpStream, command: &str) -> String {
    stream
        .write_all(format!("{command}\r\n").as_bytes())
        .unwrap();
    read(stream)
}

/// Reads a short reply; empty if the connection was closed.
fn read(stream: &mut TcpStream) -> String {
    let mut buffer = [0; 100];
    match stream.read(&mut buffer) {
        Ok(length) => String::from_utf8_lossy(&buffer[..length]).into_owned(),
        Err(error) if error.kind() == ErrorKind::ConnectionReset => String::new(),
        Err(error) => panic!("{error}"),
    }
}

/// Checks that nothing arrives for a while. A test that something does not happen cannot be certain
/// any sooner.
fn assert_silent(stream: &mut TcpStream) {
    stream
        .set_read_timeout(Some(Duration::from_millis(100)))
        .unwrap();
    let error = stream.read(&mut [0; 1]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
}

fn until(mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !done() {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(2));
    }
}
