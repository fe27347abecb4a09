//! What cannot be opened: one clear sentence each, and whether it may pass.

use tenure::{Error, Outcome};
use tenure_testkit::Port;

use crate::databases::{LONG, chain, entry, got, millis, open, until_waiting, waiter, with};
use crate::{Server, dialect};

/// Opens what cannot be opened; returns what is said.
async fn refused(url: &str) -> (Error, String) {
    let error = tenure::open(url).await.unwrap_err();
    let text = chain(&error);
    println!("{text}");
    assert!(!text.contains("secret"), "{text}");
    (error, text)
}

async fn refused_for_good(url: &str, words: &str) {
    let (error, text) = refused(url).await;
    assert!(text.contains(words), "{text}");
    assert!(!error.may_pass(), "{text}");
    assert!(error.nothing_changed(), "{text}");
}

#[tokio::test]
async fn a_wrong_password_is_said() {
    let server = Server::start().unwrap();
    let url = server.url_as("tenure", "wrong");
    refused_for_good(&url, "the user name or the password is wrong").await;
    let url = server.url_as("nobody", "wrong");
    refused_for_good(&url, "the user name or the password is wrong").await;
}

#[tokio::test]
async fn a_wrong_database_is_said() {
    let server = dialect::with_global_rights(Server::builder())
        .start()
        .unwrap();
    let url = server.url_as("global", "secret").replace("/test", "/other");
    refused_for_good(&url, "there is no such database").await;
}

#[tokio::test]
async fn a_server_that_is_not_there_may_come() {
    let port = Port::free().unwrap();
    let server = Server::start().unwrap();
    let (error, text) = refused(&server.url_on(port.number())).await;
    assert!(matches!(error, Error::Unavailable { .. }), "{text}");
    assert!(error.may_pass(), "{text}");
    assert!(text.contains("no connection to"), "{text}");
    assert!(text.contains("refused"), "{text}");
}

#[tokio::test]
async fn tls_on_a_port_without_it_is_said() {
    let server = Server::start().unwrap();
    let url = with(&server.url(), "tls=on");
    refused_for_good(&url, "the server does not speak TLS").await;
}

#[tokio::test]
async fn a_port_that_speaks_only_tls_is_said() {
    use tenure_testkit::{Certificate, ClientCertificate};
    let server = Server::builder().tls(Certificate::Valid, ClientCertificate::NotAsked);
    let server = server.start().unwrap();
    refused_for_good(&server.url(), "tls=on").await;
    let ca = server.tls().unwrap().ca();
    let url = server.url().replace("127.0.0.1", "localhost");
    refused_for_good(&with(&url, "tls=on"), "certificate").await;
    let url = with(&url, &format!("tls=on&ca={}", ca.display()));
    let client = open(&url).await;
    let guard = client.mutex("a").lock().await.unwrap();
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
}

#[tokio::test]
async fn a_user_who_may_not_make_the_table_is_told_how() {
    let server = dialect::everything_in_the_table(Server::builder(), "app");
    let server = server.start().unwrap();
    let (error, text) = refused(&server.url_as("app", "secret")).await;
    assert!(!error.may_pass(), "{text}");
    for words in [
        "tenure_lock is missing",
        "CREATE TABLE IF NOT EXISTS tenure_lock",
        "GRANT SELECT, INSERT, UPDATE, DELETE ON tenure_lock TO",
    ] {
        assert!(text.contains(words), "{text}");
    }
    // What it says is what helps.
    let (_, statements) = text.split_once("\n\n").unwrap();
    server.sql(statements);
    let client = open(&server.url_as("app", "secret")).await;
    until_all_is_done(&client, &open(&server.url_as("app", "secret")).await).await;
}

/// Everything that clients do.
async fn until_all_is_done(ann: &tenure::Client, bob: &tenure::Client) {
    let held = ann.mutex("a").ttl(LONG).lock().await.unwrap();
    let waiting = waiter(bob, "a", LONG);
    until_waiting(ann, "a", 1).await;
    assert!(bob.mutex("b").try_lock().await.unwrap().is_some());
    held.release().await.unwrap();
    let next = got(waiting).await;
    let evicted = ann.evict("a").await.unwrap();
    assert_eq!(evicted[0].fence, next.fence());
    assert!(matches!(next.release().await, Ok(Outcome::NotHeld(_))));
    let reader = ann.rwlock("c").read().lock().await.unwrap();
    let second = bob.rwlock("c").read().lock().await.unwrap();
    assert_eq!(entry(ann, "c").await.holders.len(), 2);
    reader.release().await.unwrap();
    second.release().await.unwrap();
}

#[tokio::test]
async fn a_missing_right_is_said_and_nothing_is_granted() {
    let server = dialect::everything_in_the_table(Server::builder(), "app");
    let server = server.start().unwrap();
    let owner = open(&server.url()).await;
    drop(owner);
    server.sql(&format!(
        "GRANT SELECT ON tenure_lock TO {}",
        dialect::user("app")
    ));
    let client = open(&server.url_as("app", "secret")).await;
    let error = client.mutex("a").try_lock().await.unwrap_err();
    let text = chain(&error);
    println!("{text}");
    assert!(matches!(error, Error::Unavailable { .. }), "{text}");
    assert!(!error.may_pass(), "{text}");
    assert!(text.contains("lacks a right"), "{text}");
}

#[tokio::test]
async fn a_foreign_table_is_left_alone() {
    let server = Server::start().unwrap();
    server.sql("CREATE TABLE tenure_lock (name VARCHAR(20))");
    dialect::grant_the_table(&server, "tenure");
    refused_for_good(&server.url(), "tenure_lock is not tenure's").await;
    refused_for_good(&server.url(), "prefix=").await;
}

#[tokio::test]
async fn a_newer_format_is_left_alone() {
    let server = Server::start().unwrap();
    drop(open(&server.url()).await);
    server.sql(dialect::NEWER_FORMAT);
    let (error, text) = refused(&server.url()).await;
    assert!(
        matches!(error, Error::Version { found: 2, .. }),
        "{error:?}"
    );
    assert!(!error.may_pass());
    assert!(text.contains("update tenure"), "{text}");
}

#[tokio::test]
async fn a_table_that_forgets_is_refused() {
    let server = Server::start().unwrap();
    drop(open(&server.url()).await);
    for forgets in dialect::FORGETS {
        server.sql(forgets);
        refused_for_good(&server.url(), "ALTER TABLE tenure_lock").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_that_is_dropped_is_made_again() {
    let server = Server::start().unwrap();
    let client = open(&server.url()).await;
    let guard = client.mutex("a").ttl(millis(60_000)).lock().await.unwrap();
    let older = guard.fence();
    server.sql("DROP TABLE tenure_lock");
    let error = client.mutex("b").try_lock().await.unwrap_err();
    println!("{}", chain(&error));
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    assert!(error.may_pass(), "{error:?}");
    let next = client.mutex("b").try_lock().await.unwrap().unwrap();
    assert!(older < next.fence());
    assert!(matches!(guard.release().await, Ok(Outcome::NotHeld(_))));
}
