//! Sentinels: they find each other, and a new master.

use tenure_testkit::{RedisSentinel, RedisServer};

#[test]
fn sentinels_find_a_new_master() {
    let mut all = RedisSentinel::start().unwrap();
    assert_eq!(all.sentinel_ports().len(), 3);
    let first = all.master_port().unwrap();
    assert_eq!(first, all.servers()[0].port());
    let old = all.kill_master().unwrap();
    assert_eq!(old, first);
    let new = all.wait_for_new_master(old).unwrap();
    assert_ne!(new, old);
    assert_eq!(all.master_port().unwrap(), new);
    let master = all
        .servers()
        .iter()
        .find(|server| server.port() == new)
        .unwrap();
    assert_eq!(master.cli(&["SET", "a", "1"]), "OK");
}

#[test]
fn sentinels_work_with_passwords() {
    let options = RedisServer::builder().password("secret");
    let all = RedisSentinel::start_with(&options, Some("watch")).unwrap();
    assert_eq!(all.master_port().unwrap(), all.servers()[0].port());
    assert!(all.sentinels()[0].url().contains(":watch@"));
}
