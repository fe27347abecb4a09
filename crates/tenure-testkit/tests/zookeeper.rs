//! ZooKeeper servers start, break on command and leave nothing behind.
#![cfg(target_os = "linux")]

use std::path::Path;

use tenure_testkit::{Certificate, ClientCertificate, ZooKeeperEnsemble, ZooKeeperServer, shared};

#[test]
fn a_server_starts_stands_still_and_starts_again() {
    let mut server = ZooKeeperServer::start().unwrap();
    assert_eq!(server.mode().unwrap(), "standalone");
    server.freeze().unwrap();
    assert!(server.mode().is_err());
    server.thaw().unwrap();
    assert_eq!(server.mode().unwrap(), "standalone");
    server.kill().unwrap();
    assert!(server.mode().is_err());
    server.start_again().unwrap();
    assert_eq!(server.mode().unwrap(), "standalone");
    let folder = server.folder().to_owned();
    drop(server);
    assert!(!Path::new(&folder).exists());
}

#[test]
fn a_server_with_tls_has_both_ports() {
    let tls = (Certificate::Valid, ClientCertificate::NotAsked);
    let server = ZooKeeperServer::builder()
        .tls(tls.0, tls.1)
        .start()
        .unwrap();
    assert!(server.url().starts_with("zookeepers://127.0.0.1:"));
    assert_ne!(server.port(), server.plain_port());
    std::net::TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    assert!(server.tls().unwrap().ca().exists());
}

#[test]
fn an_ensemble_elects_another_leader() {
    let mut ensemble = ZooKeeperEnsemble::start().unwrap();
    let old = ensemble.leader().unwrap();
    ensemble.servers_mut()[old].kill().unwrap();
    let new = ensemble.leader().unwrap();
    assert_ne!(old, new);
    ensemble.servers_mut()[old].start_again().unwrap();
    assert_eq!(ensemble.servers()[old].mode().unwrap(), "follower");
}

#[test]
fn a_shared_server_is_one() {
    assert_eq!(shared::zookeeper().unwrap(), shared::zookeeper().unwrap());
}
