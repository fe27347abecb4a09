//! What `tenure doctor` finds on real servers.

use std::time::{Duration, Instant};

use tenure::{Error, Finding, Verdict};
use tenure_testkit::{Durability, MariaDbServer, Port};

/// The findings of one check, none of which says a password.
async fn find_all(url: &str, check: &str) -> Vec<Finding> {
    let mut found = tenure::doctor(url).await.unwrap();
    for finding in &found {
        let said = format!("{finding:?}");
        assert!(!said.contains(MariaDbServer::PASSWORD), "{said}");
    }
    found.retain(|finding| finding.check == check);
    found
}

async fn find(url: &str, check: &str) -> Finding {
    let mut found = find_all(url, check).await;
    assert_eq!(found.len(), 1, "{check}: {found:?}");
    found.remove(0)
}

async fn verdict(url: &str, check: &str) -> Verdict {
    find(url, check).await.verdict
}

#[tokio::test]
async fn a_sound_server_is_fine() {
    let server = MariaDbServer::builder().persistence(Durability::Flushed);
    let server = server.start().unwrap();
    let found = tenure::doctor(&server.url()).await.unwrap();
    let checks: Vec<_> = found.iter().map(|finding| finding.check).collect();
    let expected = [
        "version",
        "primary",
        "durability",
        "table",
        "rights",
        "replicas",
        "news",
        "connections",
        "timeouts",
        "rows",
        "lock",
    ];
    assert_eq!(checks, expected);
    let fine = found.iter().all(|finding| finding.verdict == Verdict::Fine);
    assert!(fine, "{found:?}");
    assert_eq!(
        found[3].found,
        "tenure_lock has format 1 (InnoDB, utf8mb4_nopad_bin)"
    );
}

#[tokio::test]
async fn what_a_crash_forgets_is_found() {
    let server = MariaDbServer::builder().binary_log().start().unwrap();
    let url = server.url();
    let cases = [
        (0, Verdict::Problem),
        (1, Verdict::Fine),
        (2, Verdict::Warning),
    ];
    for (value, expected) in cases {
        server.sql(&format!(
            "SET GLOBAL innodb_flush_log_at_trx_commit = {value}"
        ));
        assert_eq!(verdict(&url, "durability").await, expected);
    }
    let log = find(&url, "binary-log").await;
    assert_eq!(log.verdict, Verdict::Warning);
    assert!(log.found.contains("sync_binlog is 0"), "{log:?}");
    server.sql("SET GLOBAL sync_binlog = 1");
    assert_eq!(verdict(&url, "binary-log").await, Verdict::Fine);
}

#[tokio::test]
async fn a_table_that_is_not_as_it_should_be_is_a_problem() {
    let server = MariaDbServer::start().unwrap();
    let url = server.url();
    assert_eq!(verdict(&url, "table").await, Verdict::Fine);
    server.sql("ALTER TABLE tenure_lock ENGINE = Aria");
    let engine = find(&url, "table").await;
    assert_eq!(engine.verdict, Verdict::Problem);
    let advice = "ALTER TABLE tenure_lock ENGINE = InnoDB";
    assert_eq!(engine.advice.as_deref(), Some(advice));
    server.sql(advice);
    assert_eq!(verdict(&url, "table").await, Verdict::Fine);
    server.sql(
        "ALTER TABLE tenure_lock MODIFY name VARCHAR(255) COLLATE utf8mb4_general_ci NOT NULL",
    );
    let collation = find(&url, "table").await;
    assert_eq!(collation.verdict, Verdict::Problem);
    assert!(
        collation.found.contains("utf8mb4_general_ci"),
        "{collation:?}"
    );
    server.sql("ALTER TABLE tenure_lock COMMENT = 'tenure 7'");
    let newer = find(&url, "table").await;
    assert!(
        newer.verdict == Verdict::Problem && newer.found.contains("format 7"),
        "{newer:?}"
    );
    server.sql("ALTER TABLE tenure_lock COMMENT = 'mine'");
    let other = find(&url, "table").await;
    assert_eq!(other.found, "tenure_lock is not tenure's");
    assert_eq!(
        verdict(&format!("{url}?prefix=own_"), "table").await,
        Verdict::Fine
    );
}

#[tokio::test]
async fn the_statements_that_are_printed_are_enough() {
    let server = MariaDbServer::builder().user("ann", PASSWORD, &["USAGE ON *.*"]);
    let server = server.start().unwrap();
    server.sql("CREATE TABLE other (a INT); GRANT SELECT ON test.other TO ann");
    let url = server.url_as("ann", PASSWORD);
    let found = tenure::doctor(&url).await.unwrap();
    let has_tried = found.iter().any(|finding| finding.check == "lock");
    assert!(!has_tried, "{found:?}");
    let lacks = find(&url, "rights").await;
    assert_eq!(
        lacks.found,
        "the table tenure_lock is missing, and 'ann'@'%' may not make it"
    );
    let advice = lacks.advice.unwrap();
    let statements = advice.strip_prefix("run as one who may, in the database test: ");
    server.sql(statements.unwrap());
    assert_eq!(verdict(&url, "rights").await, Verdict::Fine);
    assert_eq!(verdict(&url, "lock").await, Verdict::Fine);
    server.sql("REVOKE INSERT, DELETE ON test.tenure_lock FROM ann");
    let lacks = find(&url, "rights").await;
    assert_eq!(lacks.found, "the user lacks INSERT, DELETE");
    let advice = lacks.advice.unwrap();
    server.sql(advice.strip_prefix("run as one who may: ").unwrap());
    assert_eq!(verdict(&url, "rights").await, Verdict::Fine);
}

#[tokio::test]
async fn one_more_right_lets_a_user_make_the_table() {
    let rights = "CREATE, SELECT, INSERT, UPDATE, DELETE ON test.tenure_lock";
    let server = MariaDbServer::builder().user("ann", PASSWORD, &[rights]);
    let server = server.start().unwrap();
    let url = server.url_as("ann", PASSWORD);
    assert_eq!(verdict(&url, "table").await, Verdict::Fine);
    assert_eq!(verdict(&url, "lock").await, Verdict::Fine);
}

#[tokio::test]
async fn replicas_that_lag_are_a_warning_and_a_replica_is_a_problem() {
    let server = MariaDbServer::builder().binary_log().start().unwrap();
    assert_eq!(verdict(&server.url(), "replicas").await, Verdict::Fine);
    let replica = MariaDbServer::replica_of(&server).unwrap();
    replica.wait_until_caught_up(&server).unwrap();
    let lags = find(&server.url(), "replicas").await;
    assert_eq!(lags.verdict, Verdict::Warning);
    assert!(
        lags.found
            .starts_with("1 replica is attached, asynchronously"),
        "{lags:?}"
    );
    let primary = find(&replica.url(), "primary").await;
    assert_eq!(primary.verdict, Verdict::Problem, "{primary:?}");
    assert_eq!(verdict(&replica.url(), "lock").await, Verdict::Problem);
    replica.sql("SET GLOBAL read_only = OFF");
    let writes = find(&replica.admin_url(), "primary").await;
    assert_eq!(writes.verdict, Verdict::Warning, "{writes:?}");
    server.sql("SET GLOBAL rpl_semi_sync_master_enabled = ON");
    replica.sql("STOP SLAVE; SET GLOBAL rpl_semi_sync_slave_enabled = ON; START SLAVE");
    replica.wait_until_caught_up(&server).unwrap();
    let give_up = Instant::now() + Duration::from_secs(20);
    while server.sql("SHOW STATUS LIKE 'Rpl_semi_sync_master_clients'")
        != "Rpl_semi_sync_master_clients\t1"
    {
        assert!(Instant::now() < give_up, "the replica does not confirm");
    }
    let confirmed = find(&server.url(), "replicas").await;
    assert_eq!(confirmed.verdict, Verdict::Fine, "{confirmed:?}");
}

#[tokio::test]
async fn a_node_of_galera_makes_waiters_poll() {
    let port = Port::free().unwrap();
    let options = format!(
        "base_host=127.0.0.1; base_port={0}; gmcast.listen_addr=tcp://127.0.0.1:{0}",
        port.number()
    );
    let server = MariaDbServer::builder()
        .setting("wsrep_on", "ON")
        .setting("wsrep_provider", GALERA)
        .setting("wsrep_provider_options", &options)
        .setting("wsrep_cluster_address", "gcomm://")
        .setting("wsrep_node_address", "127.0.0.1")
        .setting("binlog_format", "ROW")
        .setting("innodb_autoinc_lock_mode", "2");
    let server = server.start().unwrap();
    let found = find(&server.url(), "cluster").await;
    assert_eq!(found.verdict, Verdict::Warning);
    assert!(found.found.contains("Galera"), "{found:?}");
    let polls = find(&server.url(), "news").await;
    assert_eq!(polls.verdict, Verdict::Warning);
    assert!(polls.found.contains("Galera"), "{polls:?}");
    assert_eq!(verdict(&server.url(), "lock").await, Verdict::Fine);
}

#[tokio::test]
async fn few_connections_and_short_timeouts_are_warnings() {
    let server = MariaDbServer::builder()
        .max_connections(10)
        .start()
        .unwrap();
    let url = server.url();
    assert_eq!(verdict(&url, "connections").await, Verdict::Fine);
    let few = find(&format!("{url}?connections=9"), "connections").await;
    assert_eq!(few.verdict, Verdict::Warning);
    assert!(few.found.ends_with("uses up to 10"), "{few:?}");
    assert_eq!(verdict(&url, "timeouts").await, Verdict::Fine);
    server.sql("SET GLOBAL wait_timeout = 20");
    let short = find(&url, "timeouts").await;
    assert!(
        short.verdict == Verdict::Warning && short.found.contains("after 20 s"),
        "{short:?}"
    );
    server.sql("SET GLOBAL max_statement_time = 1");
    let ended = find(&url, "timeouts").await;
    assert!(ended.found.contains("max_statement_time"), "{ended:?}");
}

#[tokio::test]
async fn rows_that_wait_for_the_sweep_are_counted() {
    let server = MariaDbServer::start().unwrap();
    let url = server.url();
    assert_eq!(verdict(&url, "rows").await, Verdict::Fine);
    let fill = |count: u32| {
        server.sql(&format!(
            "INSERT IGNORE INTO tenure_lock (name, since, ends, top, version)
             SELECT CONCAT('idle-', seq), UTC_TIMESTAMP() - INTERVAL 2 HOUR, UTC_TIMESTAMP() - INTERVAL 2 HOUR, 1, 1
             FROM seq_1_to_{count}"
        ));
    };
    fill(7);
    let few = find(&url, "rows").await;
    assert!(
        few.verdict == Verdict::Fine && few.found.starts_with("7 rows"),
        "{few:?}"
    );
    let longer = find(&format!("{url}?fence_memory=3h"), "rows").await;
    assert!(longer.found.starts_with("0 rows"), "{longer:?}");
    fill(100_000);
    assert_eq!(verdict(&url, "rows").await, Verdict::Warning);
}

#[tokio::test]
async fn a_server_that_is_not_there_or_hangs_is_an_error() {
    let mut server = MariaDbServer::start().unwrap();
    let url = format!("{}?timeout=200ms&connect_timeout=200ms", server.url());
    server.freeze().unwrap();
    let silent = tenure::doctor(&url).await;
    assert!(
        matches!(silent, Err(Error::Unavailable { .. })),
        "{silent:?}"
    );
    server.kill().unwrap();
    let gone = tenure::doctor(&url).await;
    assert!(matches!(gone, Err(Error::Unavailable { .. })), "{gone:?}");
}

/// The library that Debian's mariadb-server brings.
const GALERA: &str = "/usr/lib/galera/libgalera_smm.so";

const PASSWORD: &str = "hunter2";
