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
use tenure_testkit::Parent;
use tokio::net::{TcpListener, TcpSocket};

use super::lock::{Held, SaleLock};
use super::messages::{Answer, Halt, Said, Settings, Tell};
use super::record::Outcome;
use super::stock::{Stock, Written};
use tenure_cli::error::{Failure, Result};
use tenure_cli::exit_code;

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
        lock: SaleLock::open(&settings).await?,
        stock: settings.stock.open().await?,
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

/// Listens on a port that this copy may share with the one that it replaces.
fn listener(port: u16) -> Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(true)?;
    socket.bind((Ipv4Addr::LOCALHOST, port).into())?;
    Ok(socket.listen(BACKLOG)?)
}

/// `POST /inventory/sale`: sells one piece, if there is one.
async fn sale(State(shop): State<Arc<Shop>>) -> (StatusCode, Json<Answer>) {
    let answer = shop.sale().await;
    let status = match answer.outcome {
        Outcome::Sold | Outcome::SoldOut => StatusCode::OK,
        Outcome::Stale => StatusCode::CONFLICT,
        Outcome::Error => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, Json(answer))
}

/// What all sales of a copy share.
#[derive(Debug)]
struct Shop {
    number: u32,
    lock: SaleLock,
    stock: Box<dyn Stock>,
    think: Duration,
    orders: Arc<Orders>,
}

impl Shop {
    /// Takes the lock, sells, releases the lock.
    async fn sale(&self) -> Answer {
        let asked = Instant::now();
        let held = self.lock.lock().await;
        let waited = asked.elapsed();
        let fence = held.as_ref().ok().and_then(Held::fence);
        let sold = match held {
            Ok(held) => {
                let sold = self.sell(&held).await;
                // The write is done; a lock that was lost meanwhile belongs to the next holder.
                let _ = self.lock.unlock(held).await;
                sold
            }
            Err(failure) => Err(failure),
        };
        let why = sold.as_ref().err().map(Failure::to_string);
        let (left, outcome) = sold.unwrap_or((0, Outcome::Error));
        Answer {
            copy: self.number,
            left,
            sold: outcome == Outcome::Sold,
            outcome,
            waited_us: u64::try_from(waited.as_micros()).unwrap_or(u64::MAX),
            fence,
            why,
        }
    }

    /// Reads the stock, checks it, and writes it back one lower; returns what is left.
    async fn sell(&self, held: &Held) -> Result<(u64, Outcome)> {
        let left = self.stock.read().await?;
        if left == 0 {
            return Ok((0, Outcome::SoldOut));
        }
        if !self.think.is_zero() {
            tokio::time::sleep(self.think).await;
        }
        let halted = self.orders.halt(left).await;
        let sold = self.reserve(held, left - 1).await;
        if halted {
            let outcome = sold.as_ref().map_or(Outcome::Error, |sold| *sold);
            let fence = held.fence();
            Parent::send(&Said::WentOn { outcome, fence })?;
        }
        Ok((left - 1, sold?))
    }

    /// The nested step: takes the lock again, like code that is also called from elsewhere.
    async fn reserve(&self, outer: &Held, left: u64) -> Result<Outcome> {
        let inner = self.lock.lock_nested().await?;
        // The fence of the lock under which the stock was read: if that lock was lost, the inner
        // one may be a new grant, whose fence would let an old number through.
        let written = self.stock.write(left, outer.fence()).await;
        // As above, the write is done.
        let _ = self.lock.unlock(inner).await;
        Ok(match written? {
            Written::Accepted => Outcome::Sold,
            Written::Stale => Outcome::Stale,
        })
    }
}

/// What the copy was told to do in the middle of its next sale.
#[derive(Debug)]
struct Orders {
    pieces: u64,
    /// Sales of this copy.
    sales: AtomicU64,
    /// After how many sold pieces a sale halts, and how.
    armed: Mutex<Option<(u64, Halt)>>,
    told: Mutex<mpsc::Receiver<()>>,
}

impl Orders {
    /// Halts a sale that found so many left, if that was ordered; returns whether it was.
    async fn halt(&self, left: u64) -> bool {
        // Without a lock that works the stock falls too slowly, so the copy counts its own sales as well.
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

    /// Blocks the only thread on purpose, so that nothing else of this copy is running when it is frozen
    /// or killed.
    fn stand_still(&self) {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        // It fails only if nobody is left to tell us, and then the process ends.
        let _ = told.recv();
    }
}

/// Listens to the sale in its own thread, so that this process ends with it, whatever it is doing.
fn listen(orders: Arc<Orders>, go_on: mpsc::Sender<()>, folder: std::path::PathBuf) {
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let told = line.ok().and_then(|line| serde_json::from_str(&line).ok());
            match told {
                Some(Tell::Halt { after, how }) => {
                    let mut armed = orders.armed.lock().unwrap_or_else(PoisonError::into_inner);
                    *armed = Some((after, how));
                }
                // It fails only after the end of the service.
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
    let sentence = "demo-copy is a part of 'tenure demo flash-sale' and not called by hand";
    Failure::new(exit_code::USAGE, sentence)
}

/// More than there can be buyers at once.
const BACKLOG: u32 = 1024;
