//! Servers that tests share.
#![cfg(target_os = "linux")]

use std::net::TcpStream;
use std::process::Command;

use tenure_testkit::shared;

#[test]
fn all_tests_of_a_process_share_the_same_servers() {
    let three = shared::redis(3).unwrap();
    let five = shared::redis(5).unwrap();
    assert_eq!(three, five[..3]);
    for port in five {
        assert_eq!(ping(port), "PONG");
    }
    assert!(shared::redis(6).is_err());
}

#[test]
fn all_tests_of_a_process_share_the_same_databases() {
    for url in [shared::mariadb, shared::postgres] {
        let shared = url().unwrap();
        assert_eq!(url().unwrap(), shared);
        assert!(TcpStream::connect(("127.0.0.1", port(&shared))).is_ok());
    }
}

#[test]
fn a_command_finds_the_servers_until_it_has_ended() {
    let program = env!("CARGO_BIN_EXE_with-servers");
    let script = "echo $TENURE_TEST_REDIS; redis-cli -p ${TENURE_TEST_REDIS%%,*} PING
        echo $TENURE_TEST_MARIADB; echo $TENURE_TEST_POSTGRES
        psql -qtAX $TENURE_TEST_POSTGRES -c 'SHOW max_connections'; exit 7";
    let ended = Command::new(program)
        .args(["sh", "-c", script])
        .output()
        .unwrap();
    assert_eq!(ended.status.code(), Some(7));
    let said = String::from_utf8(ended.stdout).unwrap();
    let [ports, pong, mariadb, postgres, connections] = said.lines().collect::<Vec<_>>()[..] else {
        panic!("{said}");
    };
    assert_eq!((pong, connections), ("PONG", "500"));
    let ports: Vec<u16> = ports.split(',').map(|port| port.parse().unwrap()).collect();
    assert_eq!(ports.len(), shared::REDIS_SERVERS);
    assert_ne!(ping(ports[0]), "PONG", "the server runs on");
    assert!(mariadb.starts_with("mysql://tenure:"), "{mariadb}");
    for url in [mariadb, postgres] {
        let gone = TcpStream::connect(("127.0.0.1", port(url)));
        assert!(gone.is_err(), "{url} runs on");
    }
}

#[test]
fn a_command_finds_a_database_that_is_already_shared() {
    // In a separate process, because environment variables belong to the whole process.
    let output = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "helper_that_prints_urls",
            "--ignored",
            "--nocapture",
        ])
        .envs([
            ("TENURE_TEST_MARIADB", "one"),
            ("TENURE_TEST_POSTGRES", "two"),
        ])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("urls one two"), "{said}");
}

#[test]
#[ignore = "not a test: a process with variables for the test above"]
fn helper_that_prints_urls() {
    let (mariadb, postgres) = (shared::mariadb().unwrap(), shared::postgres().unwrap());
    println!("urls {mariadb} {postgres}");
}

/// Returns the port of `scheme://user:password@127.0.0.1:port/test`.
fn port(url: &str) -> u16 {
    let (_, rest) = url.rsplit_once(':').unwrap();
    let (port, _) = rest.split_once('/').unwrap();
    port.parse().unwrap()
}

fn ping(port: u16) -> String {
    let mut command = Command::new("redis-cli");
    let answer = command
        .args(["-p", &port.to_string(), "PING"])
        .output()
        .unwrap();
    String::from_utf8(answer.stdout).unwrap().trim().to_owned()
}
