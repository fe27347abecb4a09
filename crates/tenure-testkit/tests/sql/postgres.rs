//! What only a PostgreSQL server can do, and a pooler in front of it.

use std::process::Command;

use tenure_testkit::{
    Certificate, ClientCertificate, PgBouncer, PoolMode, Postgres, PostgresServer,
};

use crate::is_alive;
use crate::session::Session;

#[test]
fn a_unix_socket_is_there() {
    let server = PostgresServer::start().unwrap();
    let output = Command::new("psql")
        .args(["--no-psqlrc", "--tuples-only", "--no-align"])
        .args(["--port", &server.port().to_string(), "--host"])
        .arg(server.socket())
        .args(["--username=tenure", "--dbname=test"])
        .arg("--command=SELECT inet_client_addr() IS NULL")
        .env("PGPASSWORD", PostgresServer::PASSWORD)
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "t\n");
}

#[test]
fn a_killed_server_leaves_no_shared_memory_to_the_system() {
    let server = PostgresServer::builder().setting("shared_memory_type", "sysv");
    let mut server = server.start().unwrap();
    let names = std::fs::read_to_string(server.folder().join("data/postmaster.pid")).unwrap();
    let id = names.lines().nth(6).unwrap();
    let id = id.split_whitespace().nth(1).unwrap().to_owned();
    let is_there = || {
        let all = std::fs::read_to_string("/proc/sysvipc/shm").unwrap();
        all.lines()
            .any(|line| line.split_whitespace().nth(1) == Some(&id))
    };
    assert!(is_there());
    server.kill().unwrap();
    assert!(!is_there());
}

#[test]
fn a_replica_follows_lags_behind_and_takes_over() {
    let mut primary = PostgresServer::start().unwrap();
    primary.sql("CREATE TABLE a (b INT); INSERT INTO a VALUES (1)");
    let mut replica = PostgresServer::replica_of(&primary).unwrap();
    let insert = "INSERT INTO a VALUES (9)";
    let refused = replica.query(insert).unwrap_err().to_string();
    assert!(refused.contains("read-only transaction"), "{refused}");
    assert_eq!(replica.sql("SELECT b FROM a"), "1");
    replica.pause_replay().unwrap();
    primary.sql("INSERT INTO a VALUES (2)");
    assert_eq!(replica.sql("SELECT b FROM a"), "1", "it is stale");
    replica.resume_replay().unwrap();
    replica.wait_until_caught_up(&primary).unwrap();
    assert_eq!(replica.sql("SELECT b FROM a ORDER BY b"), "1\n2");
    replica.start_again().unwrap();
    primary.start_again().unwrap();
    primary.sql("INSERT INTO a VALUES (3)");
    replica.wait_until_caught_up(&primary).unwrap();
    primary.kill().unwrap();
    replica.promote().unwrap();
    for _ in 0..2 {
        replica.sql(insert);
        replica.start_again().unwrap();
    }
    assert_eq!(replica.sql("SELECT b FROM a ORDER BY b"), "1\n2\n3\n9\n9");
    assert!(replica.promote().is_err(), "it is no replica any more");
}

#[test]
fn a_replica_follows_by_tls() {
    let primary = PostgresServer::builder()
        .tls(Certificate::Valid, ClientCertificate::Required)
        .start()
        .unwrap();
    let replica = PostgresServer::replica_of(&primary).unwrap();
    primary.sql("CREATE TABLE a (b INT); INSERT INTO a VALUES (1)");
    replica.wait_until_caught_up(&primary).unwrap();
    assert_eq!(replica.sql("SELECT b FROM a"), "1");
    let by_tls = "SELECT ssl FROM pg_stat_ssl JOIN pg_stat_replication USING (pid)";
    assert_eq!(primary.sql(by_tls), "t");
}

#[test]
fn a_pooler_changes_backends_between_transactions() {
    let server = PostgresServer::start().unwrap();
    let pooler = PgBouncer::start(&server, PoolMode::Transaction).unwrap();
    assert_eq!(pooler.url(), server.url_on(pooler.port()));
    let (first, second) = backends_of_one_client(&pooler);
    assert_ne!(first, second);
    let pid = pooler.pid();
    drop(pooler);
    assert!(!is_alive(pid));
}

#[test]
fn a_pooler_of_sessions_keeps_the_backend() {
    let server = PostgresServer::start().unwrap();
    let pooler = PgBouncer::start(&server, PoolMode::Session).unwrap();
    let (first, second) = backends_of_one_client(&pooler);
    assert_eq!(first, second);
}

#[test]
fn a_pooler_has_settings_and_knows_the_users() {
    let server = PostgresServer::builder().user("ann", "se\"cret", &[]);
    let server = server.start().unwrap();
    let settings = [("default_pool_size", "1")];
    let pooler = PgBouncer::start_with(&server, PoolMode::Transaction, &settings).unwrap();
    let ask = |user: &str, password: &str| {
        let output = Command::new("psql")
            .args(["--no-psqlrc", "--tuples-only", "--no-align"])
            .args(["--host=127.0.0.1", "--port", &pooler.port().to_string()])
            .args(["--dbname=test", "--command=SELECT current_user"])
            .args(["--username", user])
            .env("PGPASSWORD", password)
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    assert_eq!(ask("ann", "se\"cret"), "ann");
    assert_eq!(ask("ann", "wrong"), "");
    let mut only = Session::open::<Postgres>(pooler.port());
    only.send("BEGIN");
    assert_eq!(only.ask("SELECT 1"), "1");
    let mut other = Session::open::<Postgres>(pooler.port());
    other.send("SELECT 2");
    other.assert_silent();
    only.send("COMMIT");
    assert_eq!(other.receive(), "2", "it has the only backend");
}

#[test]
fn a_pooler_is_broken_as_a_server_is() {
    let mut server = PostgresServer::start().unwrap();
    let mut pooler = PgBouncer::start(&server, PoolMode::Transaction).unwrap();
    let port = pooler.port();
    pooler.kill().unwrap();
    pooler.start_again().unwrap();
    assert_eq!(pooler.port(), port);
    let mut session = Session::open::<Postgres>(port);
    assert_eq!(session.ask("SELECT 1"), "1");
    pooler.freeze().unwrap();
    session.send("SELECT 2");
    session.assert_silent();
    pooler.thaw().unwrap();
    assert_eq!(session.receive(), "2");
    server.kill().unwrap();
    server.start_again().unwrap();
    let mut session = Session::open::<Postgres>(port);
    assert_eq!(session.ask("SELECT 3"), "3");
}

/// Returns the backends of two transactions of a client, between which another client has started
/// one.
fn backends_of_one_client(pooler: &PgBouncer) -> (String, String) {
    let backend = "SELECT pg_backend_pid()";
    let mut one = Session::open::<Postgres>(pooler.port());
    let mut other = Session::open::<Postgres>(pooler.port());
    let first = one.ask(backend);
    other.send("BEGIN");
    other.ask(backend);
    (first, one.ask(backend))
}
