//! A process that follows commands, one after the other.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use tenure::{Client, Error, Guard, Lock, Owner};
use tenure_testkit::Parent;
use tokio::task::JoinSet;

use crate::register::Register;
use crate::worker::answer;
use crate::{millis, url};

/// Opens the store and follows commands.
///
/// A command is a verb, a name, and options such as `ttl=500`.
pub(crate) async fn hand(folder: PathBuf, mut commands: Parent) {
    let client = match tenure::open(&url(&folder)).await {
        Ok(client) => client,
        Err(error) => return answer(&failed(&error)),
    };
    answer("ready");
    let mut hand = Hand {
        client,
        folder,
        guards: BTreeMap::new(),
    };
    while let Ok(command) = commands.next::<String>().await {
        let done = hand.obey(&Command::read(&command)).await;
        answer(&done.unwrap_or_else(|error| failed(&error)));
    }
}

struct Hand {
    client: Client,
    folder: PathBuf,
    guards: BTreeMap<String, Guard>,
}

struct Command<'a> {
    verb: &'a str,
    name: &'a str,
    options: BTreeMap<&'a str, &'a str>,
}

impl<'a> Command<'a> {
    fn read(line: &'a str) -> Self {
        let mut words = line.split(' ');
        Self {
            verb: words.next().unwrap_or_default(),
            name: words.next().unwrap_or_default(),
            options: words.filter_map(|word| word.split_once('=')).collect(),
        }
    }

    fn number(&self, option: &str) -> Option<u64> {
        let text = self.options.get(option)?;
        Some(text.parse().unwrap_or_else(|_| panic!("{option}={text}")))
    }

    fn duration(&self, option: &str) -> Option<Duration> {
        self.number(option).map(millis)
    }
}

impl Hand {
    async fn obey(&mut self, command: &Command<'_>) -> Result<String, Error> {
        let name = command.name;
        Ok(match command.verb {
            "lock" => {
                let guard = self.lock(command, name).lock().await?;
                self.keep(name, guard)
            }
            "insist" => self.insist(command).await?,
            "try" => match self.lock(command, name).try_lock().await? {
                Some(guard) => self.keep(name, guard),
                None => "busy".to_owned(),
            },
            "lease" => {
                let lease = self.lock(command, name).lease().await?;
                format!("granted {}", lease.fence.map_or(0, |fence| fence.get()))
            }
            "release" => {
                let guard = self.guards.remove(name).expect("it is held");
                format!("{:?}", guard.release().await?)
            }
            "release-all" => {
                for guard in std::mem::take(&mut self.guards).into_values() {
                    guard.release().await?;
                }
                "done".to_owned()
            }
            "health" => format!("{:?}", self.guards[name].health()),
            "lost" => format!("{:?}", self.guards[name].lost().await),
            "lock-many" => self.lock_many(command).await?,
            "all-lost" => self.all_lost().await,
            "read" => match self.register().read(self.fence(name), false) {
                Some(value) => value.to_string(),
                None => "refused".to_owned(),
            },
            "write" => {
                let base = command.number("base").expect("what the write is based on");
                match self.register().write(self.fence(name), base) {
                    true => "accepted".to_owned(),
                    false => "refused".to_owned(),
                }
            }
            "hold-until-full" => self.hold_until_full(name).await,
            "fill" => self.fill(),
            "make-room" => {
                fs::remove_file(self.folder.join(FILLING)).expect("the disk was filled");
                "done".to_owned()
            }
            "list" => self.client.list(None).await?.len().to_string(),
            "open-another" => {
                tenure::open(&url(&self.folder)).await?;
                "opened".to_owned()
            }
            other => panic!("unknown command {other:?}"),
        })
    }

    fn lock(&self, command: &Command<'_>, name: &str) -> Lock {
        let mut lock = self.client.mutex(name);
        if let Some(ttl) = command.duration("ttl") {
            lock = lock.ttl(ttl);
        }
        if let Some(shortest) = command.duration("at_least") {
            lock = lock.at_least(shortest);
        }
        if let Some(keep) = command.duration("keep") {
            lock = lock.keep(keep);
        }
        if let Some(owner) = command.options.get("owner") {
            lock = lock.owner(Owner::named(owner).expect("an owner"));
        }
        lock
    }

    /// Waits with a short timeout in a loop; answers each time that it timed out.
    async fn insist(&mut self, command: &Command<'_>) -> Result<String, Error> {
        let lock = self.lock(command, command.name);
        let patience = command.duration("patience").expect("how long to wait");
        loop {
            match lock.lock_timeout(patience).await {
                Ok(guard) => return Ok(self.keep(command.name, guard)),
                Err(Error::TimedOut { .. }) => answer("too short"),
                Err(error) => return Err(error),
            }
        }
    }

    fn keep(&mut self, name: &str, guard: Guard) -> String {
        let fence = guard.fence();
        self.guards.insert(name.to_owned(), guard);
        format!("granted {fence}")
    }

    fn fence(&self, name: &str) -> u64 {
        self.guards[name].fence().get()
    }

    fn register(&self) -> Register {
        Register::open(&self.folder)
    }

    /// Asks for many names at once, and waits for all of them.
    async fn lock_many(&mut self, command: &Command<'_>) -> Result<String, Error> {
        let mut asked = JoinSet::new();
        for count in 0..command.number("count").expect("how many") {
            let lock = self.lock(command, &format!("{}{count}", command.name));
            asked.spawn(async move { lock.lock().await });
        }
        for guard in asked.join_all().await {
            let guard = guard?;
            self.keep(guard.name().clone().as_str(), guard);
        }
        Ok(format!("granted {}", self.guards.len()))
    }

    async fn all_lost(&self) -> String {
        for guard in self.guards.values() {
            guard.lost().await;
        }
        format!("lost {}", self.guards.len())
    }

    /// Takes lock after lock until the store refuses; answers how many, and why there are no more.
    async fn hold_until_full(&mut self, prefix: &str) -> String {
        let reason = "x".repeat(1000);
        for count in 0..100_000 {
            let name = format!("{prefix}{count}");
            match self.client.mutex(&name).reason(&reason).try_lock().await {
                Ok(guard) => self.keep(&name, guard.expect("nobody else asks")),
                Err(error) => return format!("{count} {}", failed(&error)),
            };
        }
        panic!("it is never full");
    }

    /// Writes until no space is left.
    fn fill(&self) -> String {
        let mut bytes = vec![0; 1 << 20];
        let mut file = fs::File::create(self.folder.join(FILLING)).expect("a file can be made");
        while !bytes.is_empty() {
            match std::io::Write::write(&mut file, &bytes) {
                Ok(_) => {}
                Err(_) => bytes.truncate(bytes.len() / 2),
            }
        }
        "done".to_owned()
    }
}

/// The file that takes up the space of a full disk.
const FILLING: &str = "filling";

/// Returns an error on one line, with its variant and its message.
fn failed(error: &Error) -> String {
    format!("error {error:?}")
}
