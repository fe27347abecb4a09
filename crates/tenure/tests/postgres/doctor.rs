//! What `tenure doctor` finds on real servers.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tenure::{Error, Finding, Verdict};
use tenure_testkit::{Durability, PgBouncer, PoolMode, PostgresServer};

/// The finding of one check, which says no password.
async fn find(url: &str, check: &str) -> Finding {
    let found = tenure::doctor(url).await.unwrap();
    for finding in &found {
        let said = format!("{finding:?}");
        assert!(!said.contains(PostgresServer::PASSWORD), "{said}");
    }
    let mut of_check = found.iter().filter(|finding| finding.check == check);
    match (of_check.next(), of_check.next()) {
        (Some(finding), None) => finding.clone(),
        _ => panic!("{check}: {found:?}"),
    }
}

async fn verdict(url: &str, check: &str) -> Verdict {
    find(url, check).await.verdict
}

#[tokio::test]
async fn a_sound_server_is_fine() {
    let server = PostgresServer::builder().persistence(Durability::Flushed);
    let server = server.start().unwrap();
    let found = tenure::doctor(&server.admin_url()).await.unwrap();
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
        "snapshots",
        "lock",
    ];
    assert_eq!(
        checks, expected,
        "there is no table yet whose rows could be counted"
    );
    let fine = found.iter().all(|finding| finding.verdict == Verdict::Fine);
    assert!(fine, "{found:?}");
    // The lock that was tried has made the table.
    let again = find(&server.admin_url(), "table").await;
    assert_eq!(again.found, "public.tenure_lock has format 1");
    let rows = find(&server.admin_url(), "rows").await;
    assert!(
        rows.found.starts_with("0 rows were not used for 3600s"),
        "{rows:?}"
    );
}

#[tokio::test]
async fn what_a_crash_forgets_is_found() {
    let server = PostgresServer::builder().persistence(Durability::Written);
    let server = server.start().unwrap();
    let found = find(&server.url(), "durability").await;
    assert_eq!(found.verdict, Verdict::Problem);
    assert!(found.found.contains("fsync is off"), "{found:?}");
    let server = PostgresServer::builder().persistence(Durability::Flushed);
    let server = server.setting("full_page_writes", "off").start().unwrap();
    let pages = find(&server.url(), "durability").await;
    assert_eq!(pages.verdict, Verdict::Warning, "{pages:?}");
    // What counts is the setting of the user that locks.
    server.sql("ALTER ROLE tenure SET synchronous_commit = off");
    for (url, is_meant) in [(server.url(), true), (server.admin_url(), false)] {
        let found = find(&url, "durability").await;
        assert_eq!(found.verdict, Verdict::Warning, "{found:?}");
        assert_eq!(found.found.contains("synchronous_commit is off"), is_meant);
    }
}

#[tokio::test]
async fn a_table_that_is_not_as_it_should_be_is_a_problem() {
    let server = PostgresServer::start().unwrap();
    let url = server.url();
    assert_eq!(verdict(&url, "table").await, Verdict::Fine);
    server.sql("ALTER TABLE tenure_lock SET UNLOGGED");
    let unlogged = find(&url, "table").await;
    assert_eq!(unlogged.verdict, Verdict::Problem);
    let advice = "ALTER TABLE public.tenure_lock SET LOGGED";
    assert_eq!(unlogged.advice.as_deref(), Some(advice));
    server.sql(advice);
    assert_eq!(verdict(&url, "table").await, Verdict::Fine);
    server.sql("COMMENT ON TABLE tenure_lock IS 'tenure 7'");
    let newer = find(&url, "table").await;
    assert_eq!(newer.verdict, Verdict::Problem);
    assert!(newer.found.contains("format 7"), "{newer:?}");
    server.sql("COMMENT ON TABLE tenure_lock IS 'mine'");
    let other = find(&url, "table").await;
    assert_eq!(other.found, "public.tenure_lock is not tenure's");
    // A table in another schema is another table.
    server.sql("CREATE SCHEMA own AUTHORIZATION tenure");
    assert_eq!(
        verdict(&format!("{url}?schema=own"), "lock").await,
        Verdict::Fine
    );
}

#[tokio::test]
async fn the_statements_that_are_printed_are_enough() {
    let server = PostgresServer::builder().user("ann", PASSWORD, &[]);
    let server = server.start().unwrap();
    let plain = server.url_as("ann", PASSWORD);
    for url in [plain.clone(), format!("{plain}?schema=locks&prefix=x_")] {
        let found = tenure::doctor(&url).await.unwrap();
        let has_tried = found.iter().any(|finding| finding.check == "lock");
        assert!(!has_tried, "{found:?}");
        for _ in 0..2 {
            let lacks = find(&url, "rights").await;
            if lacks.verdict == Verdict::Fine {
                break;
            }
            let advice = lacks.advice.unwrap();
            let statements = advice.strip_prefix("run as one who may: ").unwrap();
            server.sql(statements);
        }
        assert_eq!(verdict(&url, "rights").await, Verdict::Fine);
        assert_eq!(verdict(&url, "lock").await, Verdict::Fine);
    }
    server.sql("REVOKE UPDATE, DELETE ON tenure_lock FROM ann");
    let lacks = find(&plain, "rights").await;
    assert_eq!(lacks.found, "the user lacks UPDATE, DELETE");
    server.sql(
        "GRANT ALL ON tenure_lock TO ann; REVOKE EXECUTE ON FUNCTION pg_notify(text, text) FROM PUBLIC;
         REVOKE USAGE ON SCHEMA locks FROM ann",
    );
    let lacks = find(&plain, "rights").await;
    assert_eq!(
        lacks.found,
        "the user lacks EXECUTE on pg_notify(text, text)"
    );
    let lacks = find(&format!("{plain}?schema=locks&prefix=x_"), "rights").await;
    assert!(
        lacks
            .found
            .starts_with("the user lacks USAGE on the schema, "),
        "{lacks:?}"
    );
}

#[tokio::test]
async fn replicas_that_lag_are_a_warning_and_a_standby_is_a_problem() {
    let server = PostgresServer::start().unwrap();
    assert_eq!(verdict(&server.url(), "replicas").await, Verdict::Fine);
    let standby = PostgresServer::replica_of(&server).unwrap();
    standby.wait_until_caught_up(&server).unwrap();
    let lags = find(&server.url(), "replicas").await;
    assert_eq!(lags.verdict, Verdict::Warning);
    assert!(
        lags.found
            .starts_with("1 replica is attached, asynchronously"),
        "{lags:?}"
    );
    let primary = find(&standby.url(), "primary").await;
    assert_eq!(primary.verdict, Verdict::Problem);
    assert!(primary.found.contains("standby"), "{primary:?}");
    assert_eq!(verdict(&standby.url(), "lock").await, Verdict::Problem);
    server.sql("ALTER SYSTEM SET synchronous_standby_names = '*'");
    server.sql("SELECT pg_reload_conf()");
    let give_up = Instant::now() + Duration::from_secs(20);
    while verdict(&server.url(), "replicas").await != Verdict::Fine {
        assert!(Instant::now() < give_up, "the setting is not taken");
    }
    server.sql("ALTER ROLE tenure SET synchronous_commit = local");
    assert_eq!(verdict(&server.url(), "replicas").await, Verdict::Warning);
}

#[tokio::test]
async fn a_user_that_cannot_write_is_found() {
    let server = PostgresServer::start().unwrap();
    server.sql("ALTER ROLE tenure SET default_transaction_read_only = on");
    let primary = find(&server.url(), "primary").await;
    assert_eq!(primary.verdict, Verdict::Problem);
    assert!(
        primary.found.contains("default_transaction_read_only"),
        "{primary:?}"
    );
}

#[tokio::test]
async fn a_pooler_makes_waiters_poll() {
    let server = PostgresServer::start().unwrap();
    assert_eq!(verdict(&server.url(), "news").await, Verdict::Fine);
    let by_session = PgBouncer::start(&server, PoolMode::Session).unwrap();
    assert_eq!(verdict(&by_session.url(), "news").await, Verdict::Fine);
    let by_transaction = PgBouncer::start(&server, PoolMode::Transaction).unwrap();
    let polls = find(&by_transaction.url(), "news").await;
    assert_eq!(polls.verdict, Verdict::Warning);
    assert!(polls.found.contains("pooler"), "{polls:?}");
    assert_eq!(verdict(&by_transaction.url(), "lock").await, Verdict::Fine);
}

#[tokio::test]
async fn few_connections_are_a_warning() {
    let server = PostgresServer::builder()
        .max_connections(8)
        .start()
        .unwrap();
    let few = find(&server.url(), "connections").await;
    assert_eq!(
        few.verdict,
        Verdict::Warning,
        "three of eight are the administrator's: {few:?}"
    );
    let url = format!("{}?connections=2", server.url());
    assert_eq!(verdict(&url, "connections").await, Verdict::Fine);
    server.sql("ALTER ROLE tenure CONNECTION LIMIT 3");
    let few = find(&url, "connections").await;
    assert_eq!(few.verdict, Verdict::Warning);
    assert!(few.found.starts_with("the user has 2 of 3"), "{few:?}");
}

#[tokio::test]
async fn an_old_snapshot_is_found_by_whoever_may_see_it() {
    let server = PostgresServer::start().unwrap();
    assert_eq!(
        verdict(&server.admin_url(), "snapshots").await,
        Verdict::Fine
    );
    let hidden = find(&server.url(), "snapshots").await;
    assert_eq!(hidden.verdict, Verdict::Unknown);
    assert!(hidden.advice.unwrap().contains("GRANT pg_read_all_stats"));
    let server = Arc::new(server);
    let holder = thread::spawn({
        let server = Arc::clone(&server);
        move || {
            server.query(
                "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class; SELECT pg_sleep(60)",
            )
        }
    });
    let give_up = Instant::now() + Duration::from_secs(20);
    let sleeps = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    while server.sql(sleeps) != "1" {
        assert!(Instant::now() < give_up, "nobody sleeps");
    }
    server.sql(
        "DO $$ BEGIN FOR i IN 1..10000 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$",
    );
    let old = find(&server.admin_url(), "snapshots").await;
    server
        .sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'");
    assert!(holder.join().unwrap().is_err());
    assert_eq!(old.verdict, Verdict::Warning, "{old:?}");
}

#[tokio::test]
async fn rows_that_wait_for_the_sweep_are_counted() {
    let server = PostgresServer::start().unwrap();
    let url = server.url();
    assert_eq!(verdict(&url, "lock").await, Verdict::Fine);
    let fill = |count: u32| {
        server.sql(&format!(
            "INSERT INTO tenure_lock (name, since, ends, top, version)
             SELECT 'idle-' || i, now() - interval '2 hours', now() - interval '2 hours', 1, 1
             FROM generate_series(1, {count}) AS i ON CONFLICT DO NOTHING"
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
    let mut server = PostgresServer::start().unwrap();
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

const PASSWORD: &str = "hunter2";
