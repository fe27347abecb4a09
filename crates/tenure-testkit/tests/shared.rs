//! Servers that tests share.
#![cfg(target_os = "linux")]

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
fn a_command_finds_the_servers_until_it_has_ended() {
    let program = env!("CARGO_BIN_EXE_with-servers");
    let script = "echo $TENURE_TEST_REDIS; redis-cli -p ${TENURE_TEST_REDIS%%,*} PING; exit 7";
    let ended = Command::new(program)
        .args(["sh", "-c", script])
        .output()
        .unwrap();
    let said = String::from_utf8(ended.stdout).unwrap();
    let (ports, pong) = said.trim().split_once('\n').unwrap();
    assert_eq!((pong, ended.status.code()), ("PONG", Some(7)));
    let ports: Vec<u16> = ports.split(',').map(|port| port.parse().unwrap()).collect();
    assert_eq!(ports.len(), shared::REDIS_SERVERS);
    assert_ne!(ping(ports[0]), "PONG", "the server runs on");
}

fn ping(port: u16) -> String {
    let mut command = Command::new("redis-cli");
    let answer = command
        .args(["-p", &port.to_string(), "PING"])
        .output()
        .unwrap();
    String::from_utf8(answer.stdout).unwrap().trim().to_owned()
}
