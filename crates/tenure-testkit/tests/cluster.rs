//! A Redis cluster: formed, resharded, failed over.

use tenure_testkit::{RedisCluster, RedisServer, slot_of};

#[test]
fn a_cluster_has_masters_and_replicas_and_fails_over() {
    let mut cluster = RedisCluster::start(3, 1).unwrap();
    assert_eq!(cluster.nodes().len(), 6);
    let slot = slot_of("a");
    let old = cluster.master_of(slot).unwrap();
    assert!(old < 3);
    assert_eq!(cluster.server(old).cli(&["SET", "a", "1"]), "OK");
    assert_eq!(cluster.server(old).cli(&["WAIT", "1", "5000"]), "1");
    let stranger = cluster
        .server((old + 1) % 3)
        .command(&["GET", "a"])
        .unwrap_err();
    assert!(stranger.to_string().contains("MOVED"), "{stranger}");

    cluster.failover(old + 3).unwrap();
    assert_eq!(cluster.master_of(slot).unwrap(), old + 3);
    assert_eq!(cluster.server(old + 3).cli(&["GET", "a"]), "1");
    assert!(
        cluster.failover(old + 3).is_err(),
        "a master cannot take over"
    );

    cluster.server(old).wait_until_linked().unwrap();
    cluster.server_mut(old + 3).kill().unwrap();
    let new = cluster.wait_for_new_master(slot, old + 3).unwrap();
    assert_eq!(new, old);
    assert_eq!(cluster.server(new).cli(&["GET", "a"]), "1");
    cluster.server_mut(old + 3).start_again().unwrap();
    cluster.server(old + 3).wait_until_linked().unwrap();
    assert_eq!(cluster.master_of(slot).unwrap(), new);
}

#[test]
fn a_slot_moves_step_by_step() {
    let options = RedisServer::builder().password("secret");
    let cluster = RedisCluster::start_with(3, 0, &options).unwrap();
    let slot = slot_of("{tag}");
    let from = cluster.master_of(slot).unwrap();
    let to = (from + 1) % 3;
    cluster.server(from).cli(&["SET", "{tag}a", "1"]);

    let moving = cluster.begin_move(slot, to).unwrap();
    assert_eq!((moving.from(), moving.to()), (from, to));
    assert_eq!(cluster.server(from).cli(&["GET", "{tag}a"]), "1");
    let ask = cluster
        .server(from)
        .command(&["GET", "{tag}b"])
        .unwrap_err();
    assert!(ask.to_string().contains("ASK"), "{ask}");

    cluster.move_keys(moving).unwrap();
    let ask = cluster
        .server(from)
        .command(&["GET", "{tag}a"])
        .unwrap_err();
    assert!(ask.to_string().contains("ASK"), "{ask}");

    cluster.finish_move(moving).unwrap();
    assert_eq!(cluster.master_of(slot).unwrap(), to);
    assert_eq!(cluster.server(to).cli(&["GET", "{tag}a"]), "1");
    let moved = cluster
        .server(from)
        .command(&["GET", "{tag}a"])
        .unwrap_err();
    assert!(moved.to_string().contains("MOVED"), "{moved}");

    cluster.move_slot(slot, from).unwrap();
    assert_eq!(cluster.server(from).cli(&["GET", "{tag}a"]), "1");
}
