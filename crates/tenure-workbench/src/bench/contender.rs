//! Those who are measured: tenure, and the bare locks that it is compared with.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use heed::{Env, WithoutTls};
use tenure::{Client, Guard, Lock, Outcome};

use crate::bench::raw::{self, Table};
use crate::bench::wire::Who;
use tenure_cli::error::{Failure, Result};
use tenure_cli::exit_code;
use tenure_cli::store::Store;

pub(super) mod redis;

/// One way to lock.
///
/// Bare locks of a store that is reached over a network await; those of this machine block.
pub(super) trait Contender {
    /// Waits for the lock.
    async fn acquire(&mut self) -> Result<()>;

    /// Lets go.
    async fn release(&mut self) -> Result<()>;
}

/// Where the contenders of a process come from: what is opened once.
#[derive(Debug)]
pub(super) enum Source {
    Tenure {
        client: Client,
        ttl: Option<Duration>,
        keep: Option<Duration>,
    },
    Flock(PathBuf),
    Lmdb(PathBuf),
    RedisSet(redis::Bare),
    RedisSetAll(Vec<redis::Bare>),
    RedisToken(redis::Bare),
}

impl Source {
    /// Opens what the contenders share; `ttl` and `keep` are for those of tenure.
    pub(super) async fn open(
        who: Who,
        ttl: Option<Duration>,
        keep: Option<Duration>,
        store: &Store,
    ) -> Result<Self> {
        Ok(match who {
            Who::Tenure => Self::Tenure {
                client: store.open().await?,
                ttl,
                keep,
            },
            Who::Flock(file) => Self::Flock(file),
            Who::Lmdb(folder) => Self::Lmdb(folder),
            Who::RedisSet => Self::RedisSet(redis::Bare::open(store.url()).await?),
            Who::RedisSetAll(urls) => {
                let mut all = Vec::with_capacity(urls.len());
                for url in urls {
                    all.push(redis::Bare::open(&url).await?);
                }
                Self::RedisSetAll(all)
            }
            Who::RedisToken => Self::RedisToken(redis::Bare::open(store.url()).await?),
        })
    }

    /// Returns the client, for workloads that only tenure does.
    pub(super) fn client(&self) -> Result<&Client> {
        match self {
            Self::Tenure { client, .. } => Ok(client),
            _ => Err(failed(&io::Error::other("it has no such workload"))),
        }
    }

    /// Waits until nothing is left to do, and nothing is kept.
    pub(super) async fn settled(&self) {
        if let Self::Tenure { client, .. } = self {
            client.settled().await;
        }
    }

    /// Makes a contender for a name.
    pub(super) fn contender(&self, name: &str) -> Result<Any> {
        Ok(match self {
            Self::Tenure { client, ttl, keep } => {
                let mut lock = client.mutex(name);
                if let Some(ttl) = ttl {
                    lock = lock.ttl(*ttl);
                }
                if let Some(keep) = keep {
                    lock = lock.keep(*keep);
                }
                Any::Tenure(Tenure::new(lock))
            }
            Self::Flock(file) => {
                let file = File::open(file).map_err(|error| failed(&error))?;
                Any::Flock(Flock(file))
            }
            Self::Lmdb(folder) => Any::Lmdb(Lmdb::open(folder, name)?),
            Self::RedisSet(bare) => Any::RedisSet(bare.set_nx(name)),
            Self::RedisSetAll(all) => Any::RedisSetAll(redis::Bare::everywhere(all, name)),
            Self::RedisToken(bare) => Any::RedisToken(bare.token(name)),
        })
    }
}

/// One of the contenders, chosen at run time.
#[derive(Debug)]
pub(super) enum Any {
    Tenure(Tenure),
    Flock(Flock),
    Lmdb(Lmdb),
    RedisSet(redis::SetNx),
    RedisSetAll(redis::Everywhere),
    RedisToken(redis::Token),
}

impl Contender for Any {
    async fn acquire(&mut self) -> Result<()> {
        match self {
            Self::Tenure(tenure) => tenure.acquire().await,
            Self::Flock(flock) => flock.acquire().await,
            Self::Lmdb(lmdb) => lmdb.acquire().await,
            Self::RedisSet(bare) => bare.acquire().await,
            Self::RedisSetAll(all) => all.acquire().await,
            Self::RedisToken(bare) => bare.acquire().await,
        }
    }

    async fn release(&mut self) -> Result<()> {
        match self {
            Self::Tenure(tenure) => tenure.release().await,
            Self::Flock(flock) => flock.release().await,
            Self::Lmdb(lmdb) => lmdb.release().await,
            Self::RedisSet(bare) => bare.release().await,
            Self::RedisSetAll(all) => all.release().await,
            Self::RedisToken(bare) => bare.release().await,
        }
    }
}

/// The lock of a store.
#[derive(Debug)]
pub(super) struct Tenure {
    lock: Lock,
    guard: Option<Guard>,
}

impl Tenure {
    pub(super) fn new(lock: Lock) -> Self {
        Self { lock, guard: None }
    }
}

impl Contender for Tenure {
    async fn acquire(&mut self) -> Result<()> {
        self.guard = Some(self.lock.lock().await?);
        Ok(())
    }

    async fn release(&mut self) -> Result<()> {
        match self.guard.take() {
            Some(guard) => let_go(guard).await,
            None => Ok(()),
        }
    }
}

/// Releases a lock, and refuses to measure one that was lost.
pub(super) async fn let_go(guard: Guard) -> Result<()> {
    match guard.release().await? {
        Outcome::Released => Ok(()),
        outcome => {
            let sentence = format!("a lock was lost while it was measured: {outcome:?}");
            Err(Failure::new(exit_code::LOST, sentence))
        }
    }
}

/// The lock that the kernel keeps for an open file.
#[derive(Debug)]
pub(super) struct Flock(File);

impl Contender for Flock {
    async fn acquire(&mut self) -> Result<()> {
        self.0.lock().map_err(|error| failed(&error))
    }

    async fn release(&mut self) -> Result<()> {
        self.0.unlock().map_err(|error| failed(&error))
    }
}

/// What a lock in LMDB costs at least: a transaction that puts a record, and one that deletes it.
#[derive(Debug)]
pub(super) struct Lmdb {
    env: Env<WithoutTls>,
    table: Table,
    key: Vec<u8>,
}

impl Lmdb {
    /// Opens a file of its own in a folder; the file's name is gone at once, whatever happens.
    fn open(folder: &std::path::Path, name: &str) -> Result<Self> {
        let builder = tempfile::Builder::new().prefix("bench-").tempdir_in(folder);
        let place = builder.map_err(|error| failed(&error))?;
        let (env, table) = raw::open(place.path()).map_err(|error| lmdb_failed(&error))?;
        Ok(Self {
            env,
            table,
            key: name.as_bytes().to_vec(),
        })
    }

    fn change(
        &self,
        change: impl FnOnce(Table, &mut heed::RwTxn<'_>) -> heed::Result<()>,
    ) -> Result<()> {
        let changed = self.env.write_txn().and_then(|mut going| {
            change(self.table, &mut going)?;
            going.commit()
        });
        changed.map_err(|error| lmdb_failed(&error))
    }
}

impl Contender for Lmdb {
    async fn acquire(&mut self) -> Result<()> {
        self.change(|table, going| table.put(going, &self.key, &RECORD))
    }

    async fn release(&mut self) -> Result<()> {
        self.change(|table, going| table.delete(going, &self.key).map(drop))
    }
}

fn failed(error: &io::Error) -> Failure {
    let sentence = format!("the bare lock to compare with failed: {error}");
    Failure::new(exit_code::UNAVAILABLE, sentence)
}

fn lmdb_failed(error: &heed::Error) -> Failure {
    failed(&io::Error::other(error.to_string()))
}

/// About as large as the record of a lock.
const RECORD: [u8; 160] = [b'x'; 160];
