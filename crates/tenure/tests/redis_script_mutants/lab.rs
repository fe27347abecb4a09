//! A server, and clients of it whose scripts may be changed.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tenure_testkit::RedisServer;

use super::cut::Cut;
use crate::conformance::Fixture;
use crate::conformance::party::Party;
use crate::driver::Driver;
use crate::store::redis::hash::Hash;
use crate::store::redis::keys::Keys;
use crate::store::redis::script::Scripts;
use crate::store::redis::url::Settings;

/// A store for the rules, with the original scripts or with one change.
#[derive(Debug, Clone)]
pub(super) struct Lab {
    server: Arc<RedisServer>,
    cut: Option<Arc<Cut>>,
    confirm: Duration,
}

impl Lab {
    pub(super) fn start() -> Self {
        Self {
            server: Arc::new(RedisServer::start().unwrap()),
            cut: None,
            confirm: Duration::ZERO,
        }
    }

    /// Returns the same server with changed scripts.
    pub(super) fn with(&self, cut: Cut) -> Self {
        Self {
            cut: Some(Arc::new(cut)),
            ..self.clone()
        }
    }

    /// Returns the same store with clients that confirm a lease that is handed over to them, as in
    /// a cluster.
    pub(super) fn confirming(&self, confirm: Duration) -> Self {
        Self {
            confirm,
            ..self.clone()
        }
    }

    /// Returns the same scripts on a server that nobody else uses.
    pub(super) fn alone(&self) -> Self {
        Self {
            server: Arc::new(RedisServer::start().unwrap()),
            ..self.clone()
        }
    }

    pub(super) fn cli(&self, command: &[&str]) -> String {
        self.server.cli(command)
    }

    /// Returns a key of a party's name.
    pub(super) fn key(&self, party: &Party, suffix: &str) -> String {
        let keys = Keys::new(&self.settings().prefix);
        keys.lease(&party.claim().name) + suffix
    }

    /// Returns the existing keys of a party's name.
    pub(super) fn keys(&self, party: &Party) -> Vec<String> {
        let suffixes = ["", ":line", ":places", ":ends", ":fence"];
        let there = |suffix: &&str| self.cli(&["EXISTS", &self.key(party, suffix)]) == "1";
        suffixes
            .into_iter()
            .filter(there)
            .map(str::to_owned)
            .collect()
    }

    pub(super) fn pttl(&self, party: &Party, suffix: &str) -> i64 {
        self.cli(&["PTTL", &self.key(party, suffix)])
            .parse()
            .unwrap()
    }

    /// Expires the lease of a lone exclusive holder: its key would expire by itself.
    pub(super) fn expire(&self, party: &Party) {
        self.cli(&["DEL", &self.key(party, "")]);
    }

    /// Lets time pass for a party's name, without waiting for it.
    pub(super) fn pass(&self, party: &Party, time: Duration) {
        let keys = ["", ":ends", ":places"].map(|suffix| self.key(party, suffix));
        let time_ms = time.as_millis().to_string();
        let [lease, ends, places] = keys.each_ref().map(String::as_str);
        self.cli(&["EVAL", PASS, "3", lease, ends, places, &time_ms]);
    }

    /// Makes everybody in line too late to ask again.
    pub(super) fn make_late(&self, party: &Party) {
        let late = "for _, id in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do
            local place = redis.call('HGET', KEYS[2], id)
            local words = '^(%S+ %S+ %S+ %S+ %S+ %S+ %S+) %d+'
            redis.call('HSET', KEYS[2], id, (string.gsub(place, words, '%1 1')))
        end";
        let (line, places) = (self.key(party, ":line"), self.key(party, ":places"));
        self.cli(&["EVAL", late, "2", &line, &places]);
    }

    /// Returns how many commands scripts have called since the start.
    pub(super) fn calls(&self) -> u64 {
        let stats = self.cli(&["INFO", "commandstats"]);
        let mut calls = 0;
        for line in stats
            .lines()
            .filter_map(|line| line.strip_prefix("cmdstat_"))
        {
            let (command, rest) = line.split_once(":calls=").unwrap();
            let ours = [
                "eval",
                "info",
                "client",
                "hello",
                "subscribe",
                "ping",
                "config",
                "command",
            ];
            if !ours.iter().any(|other| command.starts_with(other)) {
                calls += rest.split(',').next().unwrap().parse::<u64>().unwrap();
            }
        }
        calls
    }

    /// Returns the text of a file, changed or not.
    pub(super) fn text(&self, file: &str) -> String {
        match &self.cut {
            Some(cut) if cut.file == file => cut.text.clone(),
            _ => super::text(file).to_owned(),
        }
    }

    /// Returns a client that asks for votes; it may not be connected yet.
    pub(super) fn voter(&self) -> Hash {
        Hash::start_voter(self.settings(), Scripts::of(|file| self.text(file)))
    }

    /// Returns a connection that receives every message until it is dropped.
    pub(super) async fn eavesdrop(&self) -> impl Sized {
        let client = redis::Client::open(self.server.url()).unwrap();
        let mut all = client.get_async_pubsub().await.unwrap();
        all.psubscribe("*").await.unwrap();
        all
    }

    fn settings(&self) -> Settings {
        Settings::parse(&self.server.url()).unwrap()
    }
}

/// Writes what is changed.
impl fmt::Display for Lab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cut {
            Some(cut) => f.write_str(&cut.label),
            None => f.write_str("nothing"),
        }
    }
}

#[async_trait]
impl Fixture for Lab {
    async fn client(&self) -> Arc<dyn Driver> {
        let scripts = Scripts::of(|file| self.text(file));
        let confirm_ms = u64::try_from(self.confirm.as_millis()).unwrap();
        let client = Hash::open_with(self.settings(), confirm_ms, scripts).await;
        Arc::new(client.unwrap())
    }

    fn short(&self) -> Duration {
        Duration::from_millis(150)
    }
}

const PASS: &str = include_str!("pass.lua");
