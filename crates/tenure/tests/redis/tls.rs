//! Invalid TLS: refused with one error message, without a downgrade and without sending a password.

use tenure::Error;
use tenure_testkit::{Certificate, ClientCertificate, RedisServer};

use crate::chain;

fn server(certificate: Certificate, client: ClientCertificate) -> RedisServer {
    let server = RedisServer::builder()
        .password("secret")
        .tls(certificate, client);
    server.start().unwrap()
}

/// Fails to open within the timeout, and returns the message.
async fn refused(url: &str) -> String {
    let error = tenure::open(url).await.unwrap_err();
    let text = chain(&error);
    println!("{text}");
    assert!(matches!(error, Error::Unavailable { .. }), "{text}");
    assert!(text.contains("no connection to"), "{text}");
    assert!(!format!("{text} {error:?}").contains("secret"), "{error:?}");
    assert!(!text.contains('\n'), "{text}");
    text
}

fn with_ca(server: &RedisServer) -> String {
    format!(
        "{}?ca={}",
        server.url(),
        server.tls().unwrap().ca().display()
    )
}

#[tokio::test]
async fn an_expired_certificate_is_refused() {
    let server = server(Certificate::Expired, ClientCertificate::NotAsked);
    let text = refused(&with_ca(&server)).await;
    assert!(text.to_lowercase().contains("expired"), "{text}");
}

#[tokio::test]
async fn another_authority_is_refused() {
    let asked = server(Certificate::Valid, ClientCertificate::NotAsked);
    let stranger = server(Certificate::Valid, ClientCertificate::NotAsked);
    let ca = stranger.tls().unwrap().ca();
    let text = refused(&format!("{}?ca={}", asked.url(), ca.display())).await;
    assert!(text.to_lowercase().contains("certificate"), "{text}");
    let text = refused(&asked.url()).await;
    assert!(
        text.contains("certificate") && text.contains("ca="),
        "{text}"
    );
}

#[tokio::test]
async fn another_host_name_is_refused() {
    let server = server(Certificate::OtherHost, ClientCertificate::NotAsked);
    let text = refused(&with_ca(&server)).await;
    assert!(text.contains("not valid for"), "{text}");
}

#[tokio::test]
async fn a_client_without_a_certificate_is_refused() {
    let server = server(Certificate::Valid, ClientCertificate::Required);
    let text = refused(&with_ca(&server)).await;
    assert!(text.to_lowercase().contains("certificate"), "{text}");
}

#[tokio::test]
async fn a_certificate_without_its_key_is_refused() {
    let server = server(Certificate::Valid, ClientCertificate::Required);
    let files = server.tls().unwrap();
    let cert = files.client_certificate();
    let text = refused(&format!("{}&cert={}", with_ca(&server), cert.display())).await;
    assert!(text.contains("both cert= and key="), "{text}");
}

#[tokio::test]
async fn a_file_that_is_not_there_is_named() {
    let server = server(Certificate::Valid, ClientCertificate::NotAsked);
    let text = refused(&format!("{}?ca=/no/such/file", server.url())).await;
    assert!(text.contains("/no/such/file"), "{text}");
}

#[tokio::test]
async fn a_plain_client_of_a_tls_port_is_refused() {
    let server = server(Certificate::Valid, ClientCertificate::NotAsked);
    let url = server.url().replace("rediss://", "redis://");
    let text = refused(&url).await;
    assert!(text.contains("write rediss://"), "{text}");
}

#[tokio::test]
async fn a_tls_client_of_a_plain_port_is_refused() {
    let server = server(Certificate::Valid, ClientCertificate::NotAsked);
    let port = server.plain_port();
    let url = with_ca(&server).replace(&format!(":{}", server.port()), &format!(":{port}"));
    let text = refused(&url).await;
    assert!(text.contains("leave the s out"), "{text}");
    assert!(!server.log().contains("secret"));
}
