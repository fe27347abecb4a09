//! One copy of the web service, in its own process: `demo-copy`, started by the sale.

use std::io::BufRead;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use tenure_checker::Written;
use tenure_testkit::Parent;
use tokio::net::{TcpListener, TcpSocket};

use super::lock_kind::LockKind;
use super::messages::{Answer, Halt, Said, Settings, Tell};
use super::record::Outcome;
use super::stock::{Means, RowGuard, Stock};
use crate::clock::micros;
use crate::recipes::{self, AnyLock, Held};
use tenure_cli::{Failure, Result, exit_code};

/// Serves until standard input ends.
pub(crate) async fn copy() -> Result<ExitCode> {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    let settings: Settings = serde_json::from_str(&line).map_err(|_| not_by_hand())?;
    let (go_on, told) = mpsc::channel();
    let orders = Arc::new(Orders {
        pieces: settings.pieces,
        sales: AtomicU64::new(0),
        armed: Mutex::default(),
        told: Mutex::new(told),
    });
    listen(Arc::clone(&orders), go_on, settings.folder.clone());
    if let Err(failure) = serve(settings, orders).await {
        Parent::send(&Said::Failed(failure.to_string()))?;
    }
    Ok(exit_code::DONE)
}

async fn serve(settings: Settings, orders: Arc<Orders>) -> Result<()> {
    let listener = listener(settings.port)?;
    let shop = Shop {
        number: settings.number,
        lock: open_lock(&settings).await?,
        row_guard: settings.lock.row_guard(),
        is_nested: settings.lock.is_nested(),
        stock: settings.stock.open().await?,
        name: settings.name,
        think: Duration::from_millis(settings.think_ms),
        orders,
    };
    let routes = Router::new()
        .route("/inventory/sale", post(sale))
        .with_state(Arc::new(shop));
    Parent::send(&Said::Ready)?;
    axum::serve(listener, routes).await?;
    Ok(())
}

/// Opens the lock that a sale takes before it touches the stock.
async fn open_lock(settings: &Settings) -> Result<AnyLock> {
    let ttl = Duration::from_millis(settings.ttl_ms);
    if settings.lock == LockKind::Tenure {
        let client = tenure::open(&settings.store).await?;
        let lock = client.mutex(&settings.name).ttl(ttl).reentrant();
        return Ok(AnyLock::Tenure(lock));
    }
    let Some(recipe) = settings.lock.recipe() else {
        return Ok(AnyLock::None);
    };
    // If there are several servers, recipes use the one with the stock.
    let servers = match settings.lock.needs() {
        Means::Recipes => std::slice::from_ref(&settings.stock.server),
        Means::Nothing | Means::Rows => &[],
    };
    Ok(AnyLock::of_recipe(recipe, servers, ttl).await?)
}

/// Listens on a port that this copy may share with its predecessor.
fn listener(port: u16) -> Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(true)?;
    socket.bind((Ipv4Addr::LOCALHOST, port).into())?;
    Ok(socket.listen(BACKLOG)?)
}

/// `POST /inventory/sale`: sells one piece, if any is left.
async fn sale(State(shop): State<Arc<Shop>>) -> (StatusCode, Json<Answer>) {
    let answer = shop.sale().await;
    let status = match answer.outcome {
        Outcome::Sold | Outcome::SoldOut => StatusCode::OK,
        Outcome::Stale => StatusCode::CONFLICT,
        Outcome::Error => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, Json(answer))
}

/// The state that all sales of a copy share.
#[derive(Debug)]
struct Shop {
    number: u32,
    lock: AnyLock,
    /// What protects a sale instead of the lock.
    row_guard: Option<RowGuard>,
    /// What is locked.
    name: String,
    /// Whether the nested step takes the lock again.
    is_nested: bool,
    stock: Box<dyn Stock>,
    think: Duration,
    orders: Arc<Orders>,
}

impl Shop {
    /// Sells one piece, protected by the lock or by the database.
    async fn sale(&self) -> Answer {
        let asked = Instant::now();
        let (mut waited, mut fence) = (Duration::ZERO, None);
        let sold = match self.row_guard {
            Some(guard) => self.sell_in_rows(guard, asked, &mut waited).await,
            None => {
                let held = self.lock.lock(&self.name).await;
                waited = asked.elapsed();
                fence = held.as_ref().ok().and_then(|held| held.fence);
                self.sell_with(held).await
            }
        };
        let why = sold.as_ref().err().map(Failure::to_string);
        let (left, outcome) = sold.unwrap_or((0, Outcome::Error));
        Answer {
            copy: self.number,
            left,
            sold: outcome == Outcome::Sold,
            outcome,
            waited_us: micros(waited),
            fence,
            why,
        }
    }

    /// Sells, and releases the lock.
    async fn sell_with(&self, held: recipes::Result<Held>) -> Result<(u64, Outcome)> {
        let held = held?;
        let sold = self.sell(&held).await;
        // The write is done. If the lock was lost meanwhile, it belongs to the next holder.
        let _ = self.lock.unlock(held).await;
        sold
    }

    /// Does the same as [`sell`](Self::sell) without a lock: the database protects the row, or
    /// refuses the write.
    ///
    /// Sets how long the sale waited: for the row, or for failed attempts.
    async fn sell_in_rows(
        &self,
        guard: RowGuard,
        asked: Instant,
        waited: &mut Duration,
    ) -> Result<(u64, Outcome)> {
        let mut pause = SHORTEST_PAUSE;
        // Bounded by the stock: a write is refused only if another sale has sold a piece.
        loop {
            let row = self.stock.begin(guard).await;
            *waited = asked.elapsed();
            let row = row?;
            let left = row.left();
            if left == 0 {
                row.give_up().await?;
                return Ok((0, Outcome::SoldOut));
            }
            let halted = self.think_and_halt(left).await;
            let sold = row.write(left - 1).await.map(outcome);
            if halted {
                Self::tell_that_it_went_on(&sold, None)?;
            }
            match sold? {
                Outcome::Stale => {
                    tokio::time::sleep(pause.mul_f64(fastrand::f64())).await;
                    pause = (2 * pause).min(LONGEST_PAUSE);
                }
                outcome => return Ok((left - 1, outcome)),
            }
        }
    }

    /// Takes the time of a sale, and halts if ordered to; returns whether it was.
    async fn think_and_halt(&self, left: u64) -> bool {
        if !self.think.is_zero() {
            tokio::time::sleep(self.think).await;
        }
        self.orders.halt(left).await
    }

    fn tell_that_it_went_on(sold: &Result<Outcome>, fence: Option<u64>) -> Result<()> {
        let outcome = sold.as_ref().map_or(Outcome::Error, |sold| *sold);
        Ok(Parent::send(&Said::WentOn { outcome, fence })?)
    }

    /// Reads the stock, checks it, and writes it back one lower; returns what is left.
    async fn sell(&self, held: &Held) -> Result<(u64, Outcome)> {
        let left = self.stock.read().await?;
        if left == 0 {
            return Ok((0, Outcome::SoldOut));
        }
        let halted = self.think_and_halt(left).await;
        let sold = self.reserve(held, left - 1).await;
        if halted {
            Self::tell_that_it_went_on(&sold, held.fence)?;
        }
        Ok((left - 1, sold?))
    }

    /// Runs the nested step: takes the lock again, like code that is also called from elsewhere.
    async fn reserve(&self, outer: &Held, left: u64) -> Result<Outcome> {
        let inner = match self.is_nested {
            true => Some(self.lock.lock(&self.name).await?),
            false => None,
        };
        // Uses the fence of the lock under which the stock was read. If that lock was lost, the
        // inner one may be a new grant, whose fence would let an outdated number through.
        let written = self.stock.write(left, outer.fence).await;
        // As above, the write is done.
        if let Some(inner) = inner {
            let _ = self.lock.unlock(inner).await;
        }
        written.map(outcome)
    }
}

fn outcome(written: Written) -> Outcome {
    match written {
        Written::Accepted => Outcome::Sold,
        Written::Stale => Outcome::Stale,
    }
}

/// Orders for the middle of the copy's next sale.
#[derive(Debug)]
struct Orders {
    pieces: u64,
    /// The number of sales of this copy.
    sales: AtomicU64,
    /// After how many sold pieces a sale halts, and how.
    armed: Mutex<Option<(u64, Halt)>>,
    told: Mutex<mpsc::Receiver<()>>,
}

impl Orders {
    /// Halts a sale that found `left` pieces, if ordered to; returns whether it was.
    async fn halt(&self, left: u64) -> bool {
        // Without a working lock the stock falls too slowly, so the copy also counts its own sales.
        let own = self.sales.fetch_add(1, Ordering::Relaxed);
        let sold = own.max(self.pieces.saturating_sub(left));
        let halt = {
            let mut armed = self.armed.lock().unwrap_or_else(PoisonError::into_inner);
            armed.take_if(|(after, _)| sold >= *after)
        };
        let Some((_, halt)) = halt else {
            return false;
        };
        // Without a parent there is no sale any more.
        let _ = Parent::send(&Said::Halted);
        match halt {
            Halt::Slow { for_ms } => tokio::time::sleep(Duration::from_millis(for_ms)).await,
            Halt::Still => self.stand_still(),
        }
        true
    }

    /// Blocks the only thread on purpose, so that nothing else of this copy runs when it is frozen
    /// or killed.
    fn stand_still(&self) {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        // This fails only if there is nobody left to send the order, and then the process ends.
        let _ = told.recv();
    }
}

/// Reads messages of the sale in a separate thread, so that this process ends with the sale,
/// whatever it is doing.
fn listen(orders: Arc<Orders>, go_on: mpsc::Sender<()>, folder: std::path::PathBuf) {
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let told = line.ok().and_then(|line| serde_json::from_str(&line).ok());
            match told {
                Some(Tell::Halt { after, how }) => {
                    let mut armed = orders.armed.lock().unwrap_or_else(PoisonError::into_inner);
                    *armed = Some((after, how));
                }
                // This fails only after the end of the service.
                Some(Tell::GoOn) => drop(go_on.send(())),
                Some(Tell::End) => end_now(None),
                None => break,
            }
        }
        end_now(Some(&folder));
    });
}

/// Ends the process, and its leases with it.
fn end_now(orphaned: Option<&Path>) {
    if let Some(folder) = orphaned {
        // Another copy may have removed it already.
        let _ = std::fs::remove_dir_all(folder);
    }
    Parent::exit();
}

fn not_by_hand() -> Failure {
    Failure::usage("demo-copy is a part of 'tenure demo flash-sale' and not called by hand")
}

/// The longest pause of a sale whose write was refused: at first, and after many attempts.
const SHORTEST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(64);

/// More than the possible number of concurrent buyers.
const BACKLOG: u32 = 1024;
