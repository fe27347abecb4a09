//! Servers with native commands for compare-and-delete: Redis 8.4 and Valkey 9.
//!
//! Debian has neither yet. An interpreter in front of the server translates their commands into
//! scripts that do what their manuals say. This still tests what we send and how we handle the
//! replies.

use std::io::{BufRead, BufReader, Read, Result, Write};
use std::net::{TcpListener, TcpStream};

use tenure::{Name, Outcome};
use tenure_testkit::RedisServer;

use crate::storms::calls;
use crate::{LONG, open};

#[tokio::test]
async fn a_lock_is_released_by_the_command_that_the_server_has() {
    for native in ["DELEX", "DELIFEQ"] {
        let server = RedisServer::start().unwrap();
        let port = interpret(server.port(), native);
        let url = format!("redis://127.0.0.1:{port}/?layout=string&fences=off");
        let client = open(&url).await;
        let guard = client.mutex("a").ttl(LONG).lock().await.unwrap();
        let evaluated = calls(&server, "eval");
        assert_eq!(guard.release().await.unwrap(), Outcome::Released);
        assert_eq!(calls(&server, "eval"), evaluated + 1, "by {native}");
        assert_eq!(calls(&server, "evalsha"), 0, "by {native}");
        assert_eq!(server.cli(&["EXISTS", "a"]), "0");
        // The lock of another client stays as it is.
        let guard = client.mutex("a").ttl(LONG).lock().await.unwrap();
        server.cli(&["SET", "a", "another", "PX", "100000"]);
        let released = guard.release().await.unwrap();
        assert!(matches!(released, Outcome::NotHeld(_)), "{released:?}");
        assert_eq!(server.cli(&["GET", "a"]), "another");
    }
}

#[tokio::test]
async fn a_lock_is_renewed_by_the_command_that_the_server_has() {
    let name = Name::new("a").unwrap();
    for native in ["DELEX", "DELIFEQ"] {
        let server = RedisServer::start().unwrap();
        let port = interpret(server.port(), native);
        let url = format!("redis://127.0.0.1:{port}/?layout=string");
        let client = open(&url).await;
        let lease = client.mutex("a").ttl(LONG).lease().await.unwrap();
        server.cli(&["PEXPIRE", "a", "5000"]);
        assert!(client.renew(&lease).await.unwrap().fence().is_some());
        let left: u64 = server.cli(&["PTTL", "a"]).parse().unwrap();
        assert!(left > 5000, "{left} ms: a renewal extends it");
        // A lock that is gone is not created again.
        server.cli(&["SET", "a", "another", "PX", "100000"]);
        assert!(client.renew(&lease).await.unwrap().fence().is_none());
        assert_eq!(server.cli(&["GET", "a"]), "another");
        server.cli(&["DEL", "a"]);
        let guard = client.mutex("a").at_least(LONG).lock().await.unwrap();
        assert_eq!(guard.release().await.unwrap(), Outcome::Released);
        let listed = client.list(Some(&name)).await.unwrap();
        assert_eq!(listed[0].holders[0].depth, 0, "it stays taken by nobody");
    }
}

/// Listens in front of a server, and understands the dialect that has this command.
fn interpret(port: u16, native: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let own = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let client = client.unwrap();
            let server = TcpStream::connect(("127.0.0.1", port)).unwrap();
            let (mut answers, mut to_client) =
                (server.try_clone().unwrap(), client.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut answers, &mut to_client));
            // Ends with the client's connection.
            std::thread::spawn(move || translate(client, server, native));
        }
    });
    own
}

fn translate(client: TcpStream, mut server: TcpStream, native: &str) -> Result<()> {
    let mut requests = BufReader::new(client);
    loop {
        let request = read(&mut requests)?;
        let words: Vec<&str> = request.iter().map(String::as_str).collect();
        let request = match words[..] {
            ["COMMAND", "INFO", "DELEX", "DELIFEQ"] if native == "DELEX" => {
                vec!["EVAL", "return {{'delex'}, false}", "0"]
            }
            ["COMMAND", "INFO", "DELEX", "DELIFEQ"] => {
                vec!["EVAL", "return {false, {'delifeq'}}", "0"]
            }
            ["DELEX", key, "IFEQ", value] if native == "DELEX" => {
                vec!["EVAL", DELETE, "1", key, value]
            }
            ["DELIFEQ", key, value] if native == "DELIFEQ" => vec!["EVAL", DELETE, "1", key, value],
            ["SET", key, new, "IFEQ", old, "PX", ttl] => {
                vec!["EVAL", SET, "1", key, new, old, ttl]
            }
            ref other => other.to_vec(),
        };
        write!(server, "*{}\r\n", request.len())?;
        for word in request {
            write!(server, "${}\r\n{word}\r\n", word.len())?;
        }
    }
}

/// Reads one request: an array of texts.
fn read(from: &mut BufReader<TcpStream>) -> Result<Vec<String>> {
    let count = length(from)?;
    let mut words = Vec::new();
    for _ in 0..count {
        let mut word = vec![0; length(from)? + 2];
        from.read_exact(&mut word)?;
        word.truncate(word.len() - 2);
        words.push(String::from_utf8(word).unwrap());
    }
    Ok(words)
}

fn length(from: &mut BufReader<TcpStream>) -> Result<usize> {
    let mut line = String::new();
    if from.read_line(&mut line)? == 0 {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    Ok(line[1..].trim_end().parse().unwrap())
}

const DELETE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
const SET: &str = "if redis.call('GET', KEYS[1]) == ARGV[2] then \
    return redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[3]) end return false";
