//! The whole contract on every kind of deployment.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tenure::conformance::{Fixture, every_rule};
use tenure::driver::Driver;
use tenure_testkit::{Certificate, ClientCertificate, RedisCluster, RedisSentinel, RedisServer};

use crate::cluster;
use crate::sentinel;

/// Everything that has to run as long as the clients, and the URL to open them.
struct Deployment<T> {
    _alive: T,
    url: String,
    short: Duration,
}

#[async_trait]
impl<T: Send + Sync> Fixture for Deployment<T> {
    async fn client(&self) -> Arc<dyn Driver> {
        tenure::store::redis::open(&self.url).await.unwrap()
    }

    fn short(&self) -> Duration {
        self.short
    }
}

async fn keeps_every_rule<T: Send + Sync + 'static>(alive: T, url: String) {
    every_rule(deployment(alive, url)).await;
}

fn deployment<T>(alive: T, url: String) -> Deployment<T> {
    // Handshakes of concurrent rules must not outlast a lease, and they take long in a debug build.
    let short = if url.starts_with("rediss") { 2000 } else { 300 };
    // They must also not fail on a busy machine.
    let url = crate::patient(&url);
    Deployment {
        _alive: alive,
        url: format!("{url}&connect_timeout=20s"),
        short: Duration::from_millis(short),
    }
}

#[tokio::test]
async fn a_server_with_a_password_keeps_every_rule() {
    let server = RedisServer::builder()
        .password("p@ss:/word")
        .start()
        .unwrap();
    let url = server.url();
    keeps_every_rule(server, url).await;
}

/// The line in the documentation of the store, without any further permission.
#[tokio::test]
async fn a_user_with_the_least_permissions_keeps_every_rule() {
    let server = RedisServer::builder()
        .user("default off")
        .user(&format!("ann on >secret {LEAST}"))
        .start()
        .unwrap();
    let url = format!("redis://ann:secret@127.0.0.1:{}", server.port());
    keeps_every_rule(server, url).await;
}

#[tokio::test]
async fn a_server_that_asks_for_certificates_keeps_every_rule() {
    let server = RedisServer::builder()
        .tls(Certificate::Valid, ClientCertificate::Required)
        .start()
        .unwrap();
    let files = server.tls().unwrap();
    let url = format!(
        "{}?ca={}&cert={}&key={}",
        server.url(),
        files.ca().display(),
        files.client_certificate().display(),
        files.client_key().display()
    );
    keeps_every_rule(server, url).await;
}

#[tokio::test]
async fn a_unix_socket_keeps_every_rule() {
    let server = RedisServer::builder().unix_socket().start().unwrap();
    let url = format!("unix:{}", server.socket().unwrap().display());
    keeps_every_rule(server, url).await;
}

#[tokio::test]
async fn another_database_and_prefix_keep_every_rule() {
    let server = RedisServer::start().unwrap();
    let url = format!("{}/7?prefix=a*[b]%20c:", server.url().trim_end_matches('/'));
    keeps_every_rule(server, url).await;
}

#[tokio::test]
async fn a_cluster_keeps_every_rule() {
    let options = RedisServer::builder().password("secret");
    let cluster = RedisCluster::start_with(3, 1, &options).unwrap();
    let url = cluster::url(&cluster).replace("://", "://:secret@");
    keeps_every_rule(cluster, url).await;
}

#[tokio::test]
async fn a_master_named_by_sentinels_keeps_every_rule() {
    let options = RedisServer::builder().password("secret");
    let group = RedisSentinel::start_with(&options, Some("watch")).unwrap();
    let url = sentinel::url(&group).replace("://", "://:secret@");
    keeps_every_rule(group, format!("{url}?sentinel_password=watch")).await;
}

/// The rules about news and handovers; a handshake takes long in a debug build.
mod tls_without_client_certificates {
    tenure::conformance!(
        std::future::ready(super::tls());
        a_release_hands_over_to_the_next,
        an_eviction_tells_the_holder_and_lets_the_next_in,
        the_line_is_first_come_first_served,
    );
}

fn tls() -> Deployment<RedisServer> {
    let server = RedisServer::builder()
        .tls(Certificate::Valid, ClientCertificate::NotAsked)
        .start()
        .unwrap();
    let ca = server.tls().unwrap().ca();
    let url = format!("{}?ca={}", server.url(), ca.display());
    assert!(url.starts_with("rediss://"), "{url}");
    deployment(server, url)
}

/// In addition to those of the connection: scripts, and the commands in them.
const LEAST: &str = "resetchannels ~tenure:* &tenure:inbox:* -@all +@connection +eval +evalsha \
    +time +exists +set +get +del +hget +hmget +hset +hdel +hgetall +hkeys +hexists +hincrby \
    +pttl +pexpire +pexpireat +lindex +lpos +lrange +lrem +rpush +zadd +zcard +zrange +zrangebyscore \
    +zrem +publish +pubsub|numsub +subscribe +unsubscribe +scan";
