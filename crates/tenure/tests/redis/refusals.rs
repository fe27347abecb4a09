//! Servers that refuse requests: never a grant, always an error message.

use std::fs;
use std::thread;

use tenure::{Client, Error, Outcome};
use tenure_testkit::RedisServer;
use tokio::time::timeout;

use crate::{LONG, PATIENCE, chain, millis, open, open_hasty, until, until_renewed, until_waiting};

/// Asks for a free name, and is refused without any change.
async fn refused(client: &Client, name: &str, words: &str) {
    let error = client.mutex(name).ttl(LONG).try_lock().await.unwrap_err();
    let text = chain(&error);
    assert!(matches!(error, Error::Unavailable { .. }), "{text}");
    assert!(text.contains(words), "{text}");
    assert!(!text.contains('\n'), "{text}");
}

/// Waits until a client has noticed that its connection is gone: the first request may fail with
/// it.
async fn until_away(client: &Client) {
    until("the client to be away", async || {
        let answer = client.mutex("away").try_lock().await;
        matches!(answer, Err(Error::Unavailable { .. }))
    })
    .await;
}

/// Asks for a free name, and gets it.
async fn granted(client: &Client, name: &str) {
    until("the server to grant again", async || {
        match client.mutex(name).try_lock().await {
            Ok(Some(guard)) => guard.release().await.unwrap() == Outcome::Released,
            Ok(None) => panic!("{name} is held"),
            Err(_) => false,
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_loads_its_data_refuses() {
    let server = RedisServer::builder()
        .debug_command()
        .config("loading-process-events-interval-bytes 1024")
        .start()
        .unwrap();
    let client = open(&server.url()).await;
    granted(&client, "a").await;
    server.cli(&["DEBUG", "POPULATE", "5000"]);
    server.cli(&["SAVE"]);
    server.cli(&["CONFIG", "SET", "key-load-delay", "2000"]);
    thread::scope(|scope| {
        // Replies when everything is loaded.
        scope.spawn(|| server.command(&["DEBUG", "RELOAD", "NOSAVE"]));
        tokio::task::block_in_place(|| {
            tokio::runtime::Handle::current().block_on(async {
                until("the server to load", async || {
                    server.info("loading").unwrap() == "1"
                })
                .await;
                refused(&client, "b", "still loading").await;
                server.cli(&["CONFIG", "SET", "key-load-delay", "0"]);
            });
        });
    });
    granted(&client, "b").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_busy_with_a_script_refuses() {
    let server = RedisServer::builder()
        .config("busy-reply-threshold 50")
        .start()
        .unwrap();
    let client = open(&server.url()).await;
    granted(&client, "a").await;
    thread::scope(|scope| {
        scope.spawn(|| server.command(&["EVAL", "while true do end", "0"]));
        tokio::task::block_in_place(|| {
            tokio::runtime::Handle::current().block_on(async {
                until("the server to be busy", async || {
                    let answer = server.command(&["PING"]);
                    answer.is_err_and(|error| format!("{error:?}").contains("BUSY"))
                })
                .await;
                refused(&client, "b", "SCRIPT KILL").await;
                server.cli(&["SCRIPT", "KILL"]);
            });
        });
    });
    granted(&client, "b").await;
}

#[tokio::test]
async fn a_full_server_grants_nothing_new_but_releases_and_hands_over() {
    let server = RedisServer::builder()
        .max_memory("0", "noeviction")
        .start()
        .unwrap();
    let (ann, bob) = (open(&server.url()).await, open(&server.url()).await);
    let hers = ann.mutex("a").ttl(LONG).lock().await.unwrap();
    let other = ann.mutex("other").ttl(LONG).lock().await.unwrap();
    let waiting = bob.mutex("a").ttl(LONG);
    let waiting = tokio::spawn(async move { waiting.lock().await });
    until_waiting(&ann, "a", 1).await;
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    let full = server.command(&["SET", "x", "y"]).unwrap_err();
    assert!(format!("{full:?}").contains("OOM"), "{full:?}");
    let keys = server.cli(&["DBSIZE"]);
    refused(&ann, "b", "out of memory").await;
    assert_eq!(server.cli(&["DBSIZE"]), keys);
    // Renewed while there is no room.
    until_renewed(&server, &hers).await;
    assert_eq!(hers.release().await.unwrap(), Outcome::Released);
    let his = timeout(PATIENCE, waiting).await.unwrap().unwrap().unwrap();
    assert_eq!(his.release().await.unwrap(), Outcome::Released);
    assert_eq!(other.release().await.unwrap(), Outcome::Released);
    server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    granted(&bob, "b").await;
}

#[tokio::test]
async fn a_server_that_cannot_save_refuses() {
    let server = RedisServer::builder()
        .config("save 3600 1000000")
        .config("stop-writes-on-bgsave-error yes")
        .start()
        .unwrap();
    let client = open(&server.url()).await;
    granted(&client, "a").await;
    // There is a non-empty directory in place of the file.
    let file = server.folder().join("dump.rdb");
    fs::create_dir_all(file.join("full")).unwrap();
    server.cli(&["BGSAVE"]);
    until("the save to fail", async || {
        server.info("rdb_last_bgsave_status").unwrap() == "err"
    })
    .await;
    refused(&client, "b", "cannot save to disk").await;
    server.cli(&["CONFIG", "SET", "stop-writes-on-bgsave-error", "no"]);
    granted(&client, "b").await;
}

#[tokio::test]
async fn a_password_that_was_changed_is_told_without_a_password() {
    let server = RedisServer::builder()
        .user("ann on >old-secret ~* &* +@all")
        .start()
        .unwrap();
    let url = format!("redis://ann:old-secret@127.0.0.1:{}", server.port());
    let client = open_hasty(&url).await;
    granted(&client, "a").await;
    server.cli(&["ACL", "SETUSER", "ann", "resetpass", ">new-secret"]);
    assert_eq!(server.cli(&["CLIENT", "KILL", "USER", "ann"]), "1");
    until_away(&client).await;
    refused(&client, "b", "the user name or the password is wrong").await;
    let error = client.mutex("b").try_lock().await.unwrap_err();
    assert!(!format!("{error:?}").contains("secret"), "{error:?}");
    let error = tenure::open(&url).await.unwrap_err();
    assert!(!format!("{error:?}").contains("secret"), "{error:?}");
    server.cli(&["ACL", "SETUSER", "ann", "resetpass", ">old-secret"]);
    granted(&client, "b").await;
}

#[tokio::test]
async fn a_password_that_is_asked_for_all_of_a_sudden_is_told() {
    let server = RedisServer::builder()
        .user("default on nopass ~* &* +@all")
        .start()
        .unwrap();
    let url = format!("redis://127.0.0.1:{}", server.port());
    let client = open_hasty(&url).await;
    granted(&client, "a").await;
    server.cli(&["ACL", "SETUSER", "default", "resetpass", ">secret"]);
    assert_eq!(server.cli(&["CLIENT", "KILL", "USER", "default"]), "1");
    until_away(&client).await;
    refused(&client, "b", "a password is needed").await;
    server.cli(&["ACL", "SETUSER", "default", "nopass"]);
    granted(&client, "b").await;
}

#[tokio::test]
async fn a_command_that_was_taken_away_is_told() {
    let server = RedisServer::builder()
        .user("ann on >secret ~* &* +@all")
        .start()
        .unwrap();
    let url = format!("redis://ann:secret@127.0.0.1:{}", server.port());
    let client = open(&url).await;
    granted(&client, "a").await;
    for command in ["evalsha", "time", "set", "hset", "pexpire"] {
        server.cli(&["ACL", "SETUSER", "ann", &format!("-{command}")]);
        let error = client
            .mutex("b")
            .ttl(millis(500))
            .try_lock()
            .await
            .unwrap_err();
        let text = chain(&error);
        assert!(text.contains("lacks a permission"), "{command}: {text}");
        assert_eq!(
            matches!(error, Error::Unavailable { .. }),
            command == "evalsha",
            "a script may have begun: {text}"
        );
        server.cli(&["ACL", "SETUSER", "ann", &format!("+{command}")]);
        until("the claim to be taken back", async || {
            let free = client.mutex("b").try_lock().await;
            matches!(free, Ok(Some(_)))
        })
        .await;
        granted(&client, "c").await;
    }
}

#[tokio::test]
async fn a_key_of_something_else_is_told_and_left_alone() {
    let server = RedisServer::start().unwrap();
    let client = open(&server.url()).await;
    server.cli(&["SET", "tenure:{a}", "mine"]);
    let lock = client.mutex("a").ttl(millis(500));
    let error = lock.try_lock().await.unwrap_err();
    let text = chain(&error);
    assert!(text.contains("belongs to something else"), "{text}");
    let error = lock.lock().await.unwrap_err();
    assert!(chain(&error).contains("belongs to something else"));
    client.settled().await;
    assert_eq!(server.cli(&["GET", "tenure:{a}"]), "mine");
    assert_eq!(server.cli(&["DBSIZE"]), "1");
}

#[tokio::test]
async fn a_server_that_became_a_replica_refuses() {
    let server = RedisServer::start().unwrap();
    let master = RedisServer::start().unwrap();
    let client = open_hasty(&server.url()).await;
    granted(&client, "a").await;
    server.cli(&["REPLICAOF", "127.0.0.1", &master.port().to_string()]);
    server.wait_until_linked().unwrap();
    refused(&client, "b", "the server is a replica").await;
    server.cli(&["REPLICAOF", "NO", "ONE"]);
    granted(&client, "b").await;
}

#[tokio::test]
async fn a_replica_without_its_master_refuses() {
    let server = RedisServer::builder()
        .config("replica-serve-stale-data no")
        .start()
        .unwrap();
    let client = open_hasty(&server.url()).await;
    granted(&client, "a").await;
    let nobody = tenure_testkit::Port::free().unwrap();
    server.cli(&["REPLICAOF", "127.0.0.1", &nobody.number().to_string()]);
    refused(&client, "b", "a replica that has lost its master").await;
    server.cli(&["REPLICAOF", "NO", "ONE"]);
    granted(&client, "b").await;
}

#[tokio::test]
async fn a_master_with_too_few_replicas_refuses() {
    let server = RedisServer::start().unwrap();
    let client = open(&server.url()).await;
    granted(&client, "a").await;
    server.cli(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    refused(&client, "b", "too few replicas").await;
    server.cli(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    granted(&client, "b").await;
}
