//! One Redis server: started with all options, broken, and removed.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tenure_testkit::{
    Certificate, ClientCertificate, Error, Persistence, RedisBuilder, RedisServer,
};

#[test]
fn a_server_answers_and_is_gone_with_its_value() {
    let server = RedisServer::start().unwrap();
    let (pid, folder) = (server.pid(), server.folder().to_owned());
    assert_eq!(
        server.url(),
        format!("redis://127.0.0.1:{}/", server.port())
    );
    assert_eq!(server.cli(&["SET", "a", "1"]), "OK");
    assert_eq!(server.cli(&["GET", "a"]), "1");
    assert_eq!(server.info("process_id").unwrap(), pid.to_string());
    assert_eq!(server.cli(&["CONFIG", "GET", "save"]), "save\n");
    drop(server);
    assert!(!exists(pid));
    assert!(!folder.exists());
}

#[test]
fn an_error_of_the_server_is_returned() {
    let server = RedisServer::start().unwrap();
    let error = server.command(&["NONSENSE"]).unwrap_err();
    assert!(
        matches!(&error, Error::Answer { text, .. } if text.contains("unknown command")),
        "{error}"
    );
}

#[test]
fn a_killed_server_is_gone_and_starts_again_on_its_port() {
    let mut server = RedisServer::start().unwrap();
    server.cli(&["SET", "a", "1"]);
    let (pid, port) = (server.pid(), server.port());
    server.kill().unwrap();
    assert!(!exists(pid));
    assert!(!server.is_running());
    assert!(server.command(&["PING"]).is_err());
    server.start_again().unwrap();
    assert_eq!(server.port(), port);
    assert_ne!(server.pid(), pid);
    assert_eq!(
        server.cli(&["EXISTS", "a"]),
        "0",
        "nothing is kept by default"
    );
}

#[test]
fn a_log_that_is_always_flushed_is_there_after_a_kill() {
    for persistence in [Persistence::AofAlways, Persistence::AofEverySecond] {
        let mut server = RedisServer::builder()
            .persistence(persistence)
            .start()
            .unwrap();
        server.cli(&["SET", "a", "1"]);
        server.kill().unwrap();
        server.start_again().unwrap();
        assert_eq!(server.cli(&["GET", "a"]), "1", "{persistence:?}");
    }
}

#[test]
fn a_server_shuts_down_when_asked() {
    let mut server = RedisServer::start().unwrap();
    let pid = server.pid();
    server.shutdown().unwrap();
    assert!(!exists(pid));
    assert!(
        server.log().contains("Redis is now ready to exit"),
        "{}",
        server.log()
    );
    assert!(server.shutdown().is_err());
    assert!(server.freeze().is_err());
}

#[test]
fn a_frozen_server_says_nothing_until_it_is_thawed() {
    let server = RedisServer::start().unwrap();
    server.freeze().unwrap();
    assert!(server.is_running());
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    stream.write_all(b"PING\r\n").unwrap();
    stream
        .set_read_timeout(Some(Duration::from_millis(100)))
        .unwrap();
    assert!(stream.read(&mut [0; 7]).is_err());
    server.thaw().unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    let mut answer = [0; 7];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"+PONG\r\n");
}

#[test]
fn a_frozen_server_is_gone_with_its_value() {
    let server = RedisServer::start().unwrap();
    server.freeze().unwrap();
    let pid = server.pid();
    drop(server);
    assert!(!exists(pid));
}

#[test]
fn a_password_is_asked_for() {
    let server = RedisServer::builder()
        .password(r#"p@ss "\ ä/"#)
        .start()
        .unwrap();
    assert_eq!(server.cli(&["PING"]), "PONG");
    let port = server.port();
    assert_eq!(
        server.url(),
        format!("redis://:p%40ss%20%22%5C%20%C3%A4%2F@127.0.0.1:{port}/")
    );
    assert!(raw(port, "PING").starts_with("-NOAUTH"));
}

#[test]
fn users_have_their_rules() {
    let rules = "ann on >secret ~mine:* +get";
    let server = RedisServer::builder()
        .user("default off")
        .user(rules)
        .start()
        .unwrap();
    assert_eq!(server.cli(&["SET", "mine:a", "1"]), "OK");
    let port = server.port();
    assert_eq!(
        server.url_as("ann", "secret"),
        format!("redis://ann:secret@127.0.0.1:{port}/")
    );
    assert!(raw(port, "GET mine:a").starts_with("-NOAUTH"));
    assert_eq!(
        raw(port, "AUTH ann secret\r\nGET mine:a"),
        "+OK\r\n$1\r\n1\r\n"
    );
    assert!(raw(port, "AUTH ann secret\r\nGET other").contains("-NOPERM"));
}

#[test]
fn a_unix_socket_is_there_when_asked_for() {
    let server = RedisServer::builder().unix_socket().start().unwrap();
    let mut stream = UnixStream::connect(server.socket().unwrap()).unwrap();
    stream.write_all(b"PING\r\n").unwrap();
    let mut answer = [0; 7];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"+PONG\r\n");
    assert_eq!(RedisServer::start().unwrap().socket(), None);
}

#[test]
fn options_reach_the_server() {
    let server = RedisServer::builder()
        .max_memory("4mb", "noeviction")
        .debug_command()
        .config("timeout 17")
        .start()
        .unwrap();
    assert_eq!(
        server.cli(&["CONFIG", "GET", "maxmemory"]),
        "maxmemory\n4194304"
    );
    assert_eq!(server.cli(&["CONFIG", "GET", "timeout"]), "timeout\n17");
    assert_eq!(server.cli(&["DEBUG", "SLEEP", "0"]), "OK");
    let value = "x".repeat(8_000_000);
    let error = server.command(&["SET", "a", &value]).unwrap_err();
    assert!(error.to_string().contains("OOM"), "{error}");
}

#[test]
fn a_replica_follows_its_master() {
    let options = || RedisServer::builder().password("secret");
    let master = options().start().unwrap();
    let replica = options().replica_of(master.port()).start().unwrap();
    replica.wait_until_linked().unwrap();
    master.cli(&["SET", "a", "1"]);
    assert_eq!(master.cli(&["WAIT", "1", "5000"]), "1");
    assert_eq!(replica.cli(&["GET", "a"]), "1");
}

#[test]
fn a_server_that_cannot_start_shows_its_log() {
    let error = RedisServer::builder()
        .config("no-such-option 1")
        .start()
        .unwrap_err();
    assert!(matches!(error, Error::Program { .. }));
    assert!(format!("{error:?}").contains("no-such-option"), "{error:?}");
}

#[test]
fn a_port_that_a_stranger_has_is_not_taken_for_ours() {
    let stranger = RedisServer::start().unwrap();
    let port = format!("port {}", stranger.port());
    let error = RedisServer::builder().config(&port).start().unwrap_err();
    assert!(
        error.to_string().contains("Address already in use"),
        "{error}"
    );
    let mut server = RedisServer::start().unwrap();
    server.kill().unwrap();
    let _stranger = std::net::TcpListener::bind(("127.0.0.1", server.port())).unwrap();
    let error = server.start_again().unwrap_err();
    assert!(
        error.to_string().contains("Address already in use"),
        "{error}"
    );
}

#[test]
fn tls_is_as_good_as_its_certificate() {
    let verified = |certificate| {
        let server = secure(certificate, ClientCertificate::NotAsked)
            .start()
            .unwrap();
        assert_eq!(server.cli(&["PING"]), "PONG");
        assert_eq!(
            server.url(),
            format!("rediss://127.0.0.1:{}/", server.port())
        );
        shake_hands(&server, &server.tls().unwrap().ca(), &[])
    };
    assert!(verified(Certificate::Valid).contains("+PONG"));
    let expired = verified(Certificate::Expired);
    assert!(
        expired.contains("certificate has expired") && !expired.contains("+PONG"),
        "{expired}"
    );
    let other = verified(Certificate::OtherHost);
    assert!(
        other.contains("IP address mismatch") && !other.contains("+PONG"),
        "{other}"
    );
}

#[test]
fn a_strangers_authority_is_not_trusted() {
    let server = secure(Certificate::Valid, ClientCertificate::NotAsked)
        .start()
        .unwrap();
    let stranger = secure(Certificate::Valid, ClientCertificate::NotAsked)
        .start()
        .unwrap();
    let answer = shake_hands(&server, &stranger.tls().unwrap().ca(), &[]);
    assert!(
        answer.contains("verify error") && !answer.contains("+PONG"),
        "{answer}"
    );
}

#[test]
fn a_clients_certificate_can_be_required() {
    let server = secure(Certificate::Valid, ClientCertificate::Required)
        .start()
        .unwrap();
    let tls = server.tls().unwrap();
    let (certificate, key) = (tls.client_certificate(), tls.client_key());
    let shown = [
        "-cert",
        certificate.to_str().unwrap(),
        "-key",
        key.to_str().unwrap(),
    ];
    assert!(shake_hands(&server, &tls.ca(), &shown).contains("+PONG"));
    assert!(!shake_hands(&server, &tls.ca(), &[]).contains("+PONG"));
}

#[test]
fn a_server_is_gone_when_its_starter_is_killed() {
    assert_gone_after(|starter| kill_process(starter, Signal::KILL));
}

#[test]
fn a_server_is_gone_when_its_starters_group_is_killed() {
    // As a test runner does with a test that hangs.
    assert_gone_after(|starter| {
        kill_process_group(starter, Signal::TERM)?;
        kill_process_group(starter, Signal::KILL)
    });
}

/// Runs the helper below as a process that has no chance to clean up, and ends it.
fn assert_gone_after(end: impl FnOnce(Pid) -> rustix::io::Result<()>) {
    let mut starter = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "helper_that_starts_servers_and_hangs"])
        .args(["--ignored", "--nocapture"])
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(starter.stdout.take().unwrap()).lines();
    let traces = lines.find_map(|line| Some(line.unwrap().split_once("traces ")?.1.to_owned()));
    let traces: Vec<PathBuf> = traces.unwrap().split(' ').map(PathBuf::from).collect();
    assert!(traces.iter().all(|trace| trace.exists()));
    end(Pid::from_child(&starter)).unwrap();
    starter.wait().unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    while traces.iter().any(|trace| trace.exists()) {
        assert!(Instant::now() < deadline, "some are left: {traces:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
#[ignore = "not a test: a process for the tests above to kill"]
fn helper_that_starts_servers_and_hangs() {
    let (one, frozen) = (RedisServer::start().unwrap(), RedisServer::start().unwrap());
    frozen.freeze().unwrap();
    let trace = |server: &RedisServer| {
        let folder = server.folder().display();
        format!("/proc/{} {folder}", server.pid())
    };
    println!("traces {} {}", trace(&one), trace(&frozen));
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn a_missing_program_is_an_error_that_says_what_to_install() {
    // In a separate process, because the `PATH` belongs to the whole process.
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_server_answers_and_is_gone_with_its_value"])
        .env("PATH", "/nonexistent")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success());
    assert!(
        text.contains(
            "redis-server is not installed; install it with: apt-get install redis-server"
        ),
        "{text}"
    );
}

fn secure(certificate: Certificate, client: ClientCertificate) -> RedisBuilder {
    RedisServer::builder().tls(certificate, client)
}

/// Sends lines to a server and returns its output until it closes the connection.
fn raw(port: u16, lines: &str) -> String {
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream
        .write_all(format!("{lines}\r\nQUIT\r\n").as_bytes())
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.strip_suffix("+OK\r\n").unwrap().to_owned()
}

/// Sends a `PING` over TLS as a client that trusts `ca` and verifies the host; returns the whole
/// output.
fn shake_hands(server: &RedisServer, ca: &Path, more: &[&str]) -> String {
    let mut client = Command::new("openssl")
        .args([
            "s_client",
            "-connect",
            &format!("127.0.0.1:{}", server.port()),
            "-CAfile",
        ])
        .arg(ca)
        .args([
            "-verify_return_error",
            "-verify_ip",
            "127.0.0.1",
            "-quiet",
            "-no_ign_eof",
        ])
        .args(more)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A client that has given up does not read.
    let _ = client
        .stdin
        .as_mut()
        .unwrap()
        .write_all(b"PING\r\nQUIT\r\n");
    let stdin = client.stdin.take();
    let output = client.wait_with_output().unwrap();
    drop(stdin);
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

/// Returns whether there is such a process, including one that has ended and was not waited for.
fn exists(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

#[test]
fn a_clock_is_moved_ahead_and_back_and_leases_with_it() {
    let mut server = RedisServer::builder().movable_clock().start().unwrap();
    server.move_clock(0).unwrap();
    server.cli(&["SET", "a", "1", "PX", "60000"]);
    server.move_clock(120_000).unwrap();
    assert_eq!(server.cli(&["EXISTS", "a"]), "0", "its time is over");
    server.cli(&["SET", "b", "1", "PX", "60000"]);
    server.move_clock(-300_500).unwrap();
    let left: u64 = server.cli(&["PTTL", "b"]).parse().unwrap();
    assert!(left > 420_000, "{left}");
    server.start_again().unwrap();
    server.move_clock(-300_500).unwrap();
    server.move_clock(0).unwrap();
    let fixed = RedisServer::start().unwrap();
    let error = fixed.move_clock(1).unwrap_err();
    assert!(format!("{error:?}").contains("movable_clock()"), "{error}");
}
