//! The commands that a user needs: one list of everything that the driver and its scripts call.

use crate::store::redis::compare::Native;
use crate::store::redis::keys::{Keys, escaped};
use crate::store::redis::url::{Layout, Servers, Settings};

/// A command that some of the layouts call.
#[derive(Debug)]
pub(crate) struct Right {
    /// The command as ACL rules write it, such as `pubsub|numsub`.
    pub(crate) rule: &'static str,
    /// Whether it is called.
    needed: fn(&Use) -> bool,
    /// An example call, as words; it changes nothing if `<key>` is a string.
    call: &'static str,
}

/// The parts of the driver that are in use.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Use {
    hash: bool,
    /// Strings are compared by a script, by a native command of the server, or with `WATCH`.
    script: bool,
    delex: bool,
    delifeq: bool,
    watch: bool,
    /// Each grant of a string has a fence, issued by a script unless scripts are off.
    fence_script: bool,
    fence_time: bool,
    cluster: bool,
    sentinel: bool,
    database: bool,
    replicas: bool,
    /// The server is one of several voting servers.
    voter: bool,
}

impl Use {
    /// Returns what a URL uses, on a server with or without a `native` compare-and-delete.
    pub(crate) fn of(settings: &Settings, native: Option<Native>) -> Self {
        let mut of = Self {
            cluster: settings.is_cluster(),
            sentinel: matches!(settings.servers, Servers::Sentinel { .. }),
            database: settings.access.database != 0,
            replicas: settings.replicas > 0,
            ..Self::default()
        };
        match settings.layout {
            Layout::Hash => of.hash = true,
            Layout::String { scripts, fences } => {
                of.delex = native == Some(Native::Delex);
                of.delifeq = native == Some(Native::Delifeq);
                of.script = native.is_none() && scripts;
                of.watch = native.is_none() && !scripts;
                of.fence_script = fences && !of.watch;
                of.fence_time = fences && of.watch;
            }
        }
        of
    }

    /// Returns what a voting server is used for.
    pub(crate) fn of_voter(settings: &Settings) -> Self {
        Self {
            voter: true,
            ..Self::of(settings, None)
        }
    }

    /// Returns whether the fence of a string has its own key.
    pub(crate) fn has_fence_keys(&self) -> bool {
        self.fence_script
    }

    fn string(&self) -> bool {
        !self.hash
    }

    fn native(&self) -> bool {
        self.delex || self.delifeq
    }

    fn any_script(&self) -> bool {
        self.hash || self.script || self.fence_script
    }

    /// Returns whether the server knows who is subscribed to an inbox, so that scripts ask for it.
    fn counts_listeners(&self) -> bool {
        self.hash && !self.cluster && !self.replicas && !self.voter
    }
}

impl Right {
    /// Returns all commands that are needed, sorted by name.
    pub(crate) fn needed(of: Use) -> impl Iterator<Item = &'static Self> {
        RIGHTS.iter().filter(move |right| (right.needed)(&of))
    }

    /// Returns a call with this key and channel; it changes nothing if the key is a string.
    pub(crate) fn call<'a>(&self, key: &'a str, channel: &'a str) -> Vec<&'a str> {
        let word = |word: &'static str| match word {
            "<key>" => key,
            "<channel>" => channel,
            word => word,
        };
        self.call.split(' ').map(word).collect()
    }
}

/// Returns the ACL rule that allows a user everything that locks need, and nothing else.
pub(crate) fn line(settings: &Settings, of: Use) -> String {
    let user = settings.access.user.as_deref().unwrap_or("tenure");
    let mut words = vec![user.to_owned(), "on".to_owned(), ">PASSWORD".to_owned()];
    words.push("resetkeys".to_owned());
    words.extend(key_patterns(settings, of).map(|pattern| format!("~{pattern}")));
    words.push("resetchannels".to_owned());
    if of.hash {
        let inboxes = Keys::new(&settings.prefix).inboxes();
        words.push(format!("&{}*", escaped(&inboxes)));
    }
    words.push("-@all".to_owned());
    words.extend(Right::needed(of).map(|right| format!("+{}", right.rule)));
    let words: Vec<_> = words.iter().map(|word| quoted(word)).collect();
    format!("ACL SETUSER {}", words.join(" "))
}

/// Returns the patterns of all keys of a store.
fn key_patterns(settings: &Settings, of: Use) -> impl Iterator<Item = String> {
    let prefix = escaped(&settings.prefix);
    // The key of a string's fence contains the whole key of the lock in braces.
    let fences = of.has_fence_keys() && !prefix.is_empty();
    let fences = fences.then(|| format!("{{{prefix}*"));
    std::iter::once(format!("{prefix}*")).chain(fences)
}

/// Quotes a word for `redis-cli`.
fn quoted(word: &str) -> String {
    if word.contains([' ', '"', '\'', '\\']) {
        format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\""))
    } else {
        word.to_owned()
    }
}

const fn right(rule: &'static str, needed: fn(&Use) -> bool, call: &'static str) -> Right {
    Right { rule, needed, call }
}

/// All commands; the server checks permissions before it rejects a wrong argument.
#[rustfmt::skip]
const RIGHTS: &[Right] = &[
    right("client|caching", |of| of.string() && !of.cluster, "CLIENT CACHING YES"),
    right("client|tracking", |of| of.string() && !of.cluster, "CLIENT TRACKING ON OPTIN NOLOOP"),
    right("cluster|slots", |of| of.cluster, "CLUSTER SLOTS"),
    right("command|info", Use::native, "COMMAND INFO DELEX DELIFEQ"),
    right("del", |of| of.hash || of.string(), "DEL <key>"),
    right("delex", |of| of.delex, "DELEX <key> IFEQ x"),
    right("delifeq", |of| of.delifeq, "DELIFEQ <key> x"),
    right("eval", Use::any_script, "EVAL return(1) 1 <key>"),
    right("evalsha", Use::any_script, "EVALSHA 0000000000000000000000000000000000000000 1 <key>"),
    // An EXEC without MULTI is an error, and changes nothing.
    right("exec", |of| of.watch, "EXEC"),
    right("exists", |of| of.hash || of.string(), "EXISTS <key>"),
    right("get", |of| of.string() || of.voter, "GET <key>"),
    right("hdel", |of| of.hash, "HDEL <key> field"),
    right("hexists", |of| of.hash, "HEXISTS <key> field"),
    right("hget", |of| of.hash, "HGET <key> field"),
    right("hgetall", |of| of.hash, "HGETALL <key>"),
    right("hincrby", |of| of.hash, "HINCRBY <key> field x"),
    right("hkeys", |of| of.hash, "HKEYS <key>"),
    right("hmget", |of| of.hash, "HMGET <key> field"),
    // The field-value pair is incomplete, which is an error.
    right("hset", |of| of.hash, "HSET <key> field x half"),
    right("info", |of| of.voter, "INFO server"),
    right("lindex", |of| of.hash, "LINDEX <key> 0"),
    right("lpos", |of| of.hash, "LPOS <key> x"),
    right("lrange", |of| of.hash, "LRANGE <key> 0 0"),
    right("lrem", |of| of.hash, "LREM <key> 1 x"),
    right("multi", |of| of.watch, "MULTI"),
    right("pexpire", |of| of.hash || !of.native(), "PEXPIRE <key> 1000"),
    right("pexpireat", |of| of.hash, "PEXPIREAT <key> x"),
    right("ping", |of| of.cluster, "PING"),
    right("pttl", |of| of.hash || of.string(), "PTTL <key>"),
    right("publish", |of| of.hash, "PUBLISH <channel> x"),
    right("pubsub|numsub", Use::counts_listeners, "PUBSUB NUMSUB <channel>"),
    right("role", |of| of.sentinel, "ROLE"),
    right("rpush", |of| of.hash, "RPUSH <key> x"),
    right("scan", |of| of.hash, "SCAN 0 COUNT 1"),
    right("select", |of| of.database, "SELECT x"),
    right("set", |of| of.hash || of.string(), "SET <key> x PX 1000"),
    right("subscribe", |of| of.hash, "SUBSCRIBE <channel>"),
    right("time", |of| of.hash || of.fence_script || of.fence_time, "TIME"),
    right("unwatch", |of| of.watch, "UNWATCH"),
    right("wait", |of| of.hash && of.replicas, "WAIT 0 1"),
    right("watch", |of| of.watch, "WATCH <key>"),
    right("zadd", |of| of.hash, "ZADD <key> x x"),
    right("zcard", |of| of.hash, "ZCARD <key>"),
    right("zrange", |of| of.hash, "ZRANGE <key> 0 0"),
    right("zrangebyscore", |of| of.hash, "ZRANGEBYSCORE <key> 0 0"),
    right("zrem", |of| of.hash, "ZREM <key> x"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn settings(url: &str) -> Settings {
        Settings::parse(url).unwrap()
    }

    fn rules(of: Use) -> BTreeSet<&'static str> {
        Right::needed(of).map(|right| right.rule).collect()
    }

    /// Returns every command that a script calls, in the form of a rule.
    fn called(script: &str) -> BTreeSet<String> {
        let calls = script.split("redis.").skip(1).filter_map(|rest| {
            let rest = rest
                .strip_prefix("call(")
                .or_else(|| rest.strip_prefix("pcall("))?;
            let word = |text: &str| text.split('\'').nth(1).map(str::to_lowercase);
            assert!(
                rest.starts_with('\''),
                "a command that is no constant: {rest:.40}"
            );
            let command = word(rest)?;
            let after = rest.splitn(3, '\'').nth(2)?;
            Some(match command.as_str() {
                "pubsub" | "client" | "object" | "memory" => format!("{command}|{}", word(after)?),
                _ => command,
            })
        });
        calls.collect()
    }

    /// Returns all scripts of a layout.
    fn scripts(are_strings: bool) -> String {
        let folder =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store/redis/scripts");
        let files = std::fs::read_dir(folder)
            .unwrap()
            .map(|file| file.unwrap().path());
        let of_layout = files.filter(|path| {
            let name = path.file_name().unwrap().to_string_lossy();
            name.starts_with("string_") == are_strings
        });
        of_layout
            .map(|path| std::fs::read_to_string(path).unwrap())
            .collect()
    }

    #[test]
    fn every_command_of_a_script_is_in_the_list() {
        for (url, are_strings) in [("redis://x", false), ("redis://x?layout=string", true)] {
            let called = called(&scripts(are_strings));
            assert!(
                called.contains("set") && called.contains("time"),
                "{called:?}"
            );
            let settings = settings(url);
            let mut known = rules(Use::of(&settings, None));
            if !are_strings {
                // Some commands are called only on voting servers.
                known.extend(rules(Use::of_voter(&settings)));
            }
            for command in &called {
                assert!(
                    known.contains(command.as_str()),
                    "{url}: {command} is missing"
                );
            }
        }
    }

    #[test]
    fn commands_are_found_in_a_script() {
        let script = "redis.call('HGET', a, 'x')\nredis.pcall('PUBSUB', 'NUMSUB', b)";
        let found = called(script);
        assert_eq!(
            found,
            BTreeSet::from(["hget".to_owned(), "pubsub|numsub".to_owned()])
        );
    }

    #[test]
    fn the_list_is_sorted_and_has_no_doubles() {
        let rules: Vec<_> = RIGHTS.iter().map(|right| right.rule).collect();
        assert!(rules.is_sorted_by(|one, next| one < next), "{rules:?}");
    }

    #[test]
    fn the_line_names_the_user_the_prefix_and_what_the_url_uses() {
        let line = |url| {
            let settings = settings(url);
            super::line(&settings, Use::of(&settings, None))
        };
        let plain = line("redis://x");
        let head = "ACL SETUSER tenure on >PASSWORD resetkeys ~tenure:* resetchannels \
                    &tenure:inbox:* -@all +del +eval ";
        assert!(plain.starts_with(head), "{plain}");
        let all = line("redis://ann:secret@x/3?prefix=my%20%2A:&replicas=1");
        assert!(
            all.starts_with("ACL SETUSER ann on >PASSWORD resetkeys \"~my \\\\*:*\""),
            "{all}"
        );
        assert!(
            all.contains(" +select ") && all.contains(" +wait "),
            "{all}"
        );
        assert!(!all.contains("secret") && !all.contains("numsub"), "{all}");
        let node = settings("redis://x");
        let voter = super::line(&node, Use::of_voter(&node));
        assert!(
            voter.contains(" +get ") && voter.contains(" +info "),
            "{voter}"
        );
        assert!(!voter.contains("numsub"), "{voter}");
        let string = line("redis://x?layout=string&prefix=lock:");
        assert!(
            string.contains(" ~lock:* ~{lock:* resetchannels -@all "),
            "{string}"
        );
    }
}
