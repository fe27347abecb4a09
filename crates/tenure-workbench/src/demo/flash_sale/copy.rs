//! One copy of the web service, in a process of its own: `demo-copy`, started by the sale.

use std::io::BufRead;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use tokio::net::{TcpListener, TcpSocket};

use super::door::{Door, Pass};
use super::record::Outcome;
use super::stock::{Stock, Written};
use super::wire::{Answer, Halt, Said, Settings, Tell};
use crate::parent::{self, tell};
use tenure_cli::error::{Failure, Result};
use tenure_cli::exit_code;

/// Serves until standard input ends.
pub(crate) async fn copy() -> Result<ExitCode> {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    let settings: Settings = serde_json::from_str(&line).map_err(|_| not_by_hand())?;
    let (go_on, told) = mpsc::channel();
    let orders = Arc::new(Orders {
        armed: Mutex::default(),
        told: Mutex::new(told),
    });
    listen(Arc::clone(&orders), go_on, settings.folder.clone());
    if let Err(failure) = serve(settings, orders).await {
        tell(&Said::Failed(failure.to_string()))?;
    }
    Ok(exit_code::DONE)
}

async fn serve(settings: Settings, orders: Arc<Orders>) -> Result<()> {
    let listener = listener(settings.port)?;
    let shop = Shop {
        number: settings.number,
        door: Door::open(&settings).await?,
        stock: settings.shelf.open().await?,
        think: Duration::from_millis(settings.think_ms),
        orders,
    };
    let routes = Router::new()
        .route("/inventory/sale", post(sale))
        .with_state(Arc::new(shop));
    tell(&Said::Ready)?;
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

/// What a copy sells from.
#[derive(Debug)]
struct Shop {
    number: u32,
    door: Door,
    stock: Box<dyn Stock>,
    think: Duration,
    orders: Arc<Orders>,
}

/// A sale that got through the door.
#[derive(Debug, Clone, Copy)]
struct Sold {
    left: u64,
    outcome: Outcome,
}

impl Shop {
    /// Takes the lock, sells, gives the lock back.
    async fn sale(&self) -> Answer {
        let asked = Instant::now();
        let pass = match self.door.enter().await {
            Ok(pass) => pass,
            Err(failure) => return self.answer(asked.elapsed(), None, Err(failure)),
        };
        let (waited, fence) = (asked.elapsed(), pass.fence());
        let sold = self.sell(&pass).await;
        // What is written is written; a lock that was lost meanwhile is the next one's.
        let _ = self.door.leave(pass).await;
        self.answer(waited, fence, sold)
    }

    /// Reads the stock, checks it, and writes it back one lower.
    async fn sell(&self, pass: &Pass) -> Result<Sold> {
        let left = self.stock.read().await?;
        if left == 0 {
            let outcome = Outcome::SoldOut;
            return Ok(Sold { left, outcome });
        }
        if !self.think.is_zero() {
            tokio::time::sleep(self.think).await;
        }
        let halted = self.orders.halt().await;
        let sold = self.reserve(pass, left - 1).await;
        if halted {
            let outcome = sold.as_ref().map_or(Outcome::Error, |sold| sold.outcome);
            let fence = pass.fence();
            tell(&Said::WentOn { outcome, fence })?;
        }
        sold
    }

    /// The nested step: takes the lock again, as code does that is also called by itself.
    async fn reserve(&self, outer: &Pass, left: u64) -> Result<Sold> {
        let inner = self.door.enter_again().await?;
        // The fence of the lock under which the stock was read: if that lock was lost, the inner
        // one may be a new grant, whose fence would let an old number through.
        let written = self.stock.write(left, outer.fence()).await;
        // As above: what is written is written.
        let _ = self.door.leave(inner).await;
        let outcome = match written? {
            Written::Accepted => Outcome::Sold,
            Written::Stale => Outcome::Stale,
        };
        Ok(Sold { left, outcome })
    }

    fn answer(&self, waited: Duration, fence: Option<u64>, sold: Result<Sold>) -> Answer {
        let why = sold.as_ref().err().map(Failure::to_string);
        let sold = sold.unwrap_or(Sold {
            left: 0,
            outcome: Outcome::Error,
        });
        Answer {
            copy: self.number,
            left: sold.left,
            sold: sold.outcome == Outcome::Sold,
            outcome: sold.outcome,
            waited_us: u64::try_from(waited.as_micros()).unwrap_or(u64::MAX),
            fence,
            why,
        }
    }
}

/// What the copy was told to do in the middle of its next sale.
#[derive(Debug)]
struct Orders {
    armed: Mutex<Option<Halt>>,
    told: Mutex<mpsc::Receiver<()>>,
}

impl Orders {
    /// Halts here if that was ordered; returns whether it was.
    async fn halt(&self) -> bool {
        let armed = self
            .armed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some(halt) = armed else {
            return false;
        };
        // Without anybody to hear it there is no sale any more.
        let _ = tell(&Said::Halted);
        match halt {
            Halt::Slow { for_ms } => tokio::time::sleep(Duration::from_millis(for_ms)).await,
            Halt::Still => self.stand_still(),
        }
        true
    }

    /// Blocks the only thread on purpose: nothing else of this copy is in the middle of anything
    /// when it is frozen or killed.
    fn stand_still(&self) {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        // It fails only if nobody is left to tell us, and then the process ends.
        let _ = told.recv();
    }
}

/// Listens to the sale on a thread of its own, so that this process ends with it, whatever it is
/// doing.
fn listen(orders: Arc<Orders>, go_on: mpsc::Sender<()>, folder: std::path::PathBuf) {
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let told = line.ok().and_then(|line| serde_json::from_str(&line).ok());
            match told {
                Some(Tell::Halt(halt)) => {
                    let mut armed = orders.armed.lock().unwrap_or_else(PoisonError::into_inner);
                    *armed = Some(halt);
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
        // Another copy may have been quicker.
        let _ = std::fs::remove_dir_all(folder);
    }
    parent::end_now();
}

fn not_by_hand() -> Failure {
    let sentence = "demo-copy is a part of 'tenure demo flash-sale' and not called by hand";
    Failure::new(exit_code::USAGE, sentence)
}

/// More than there can be buyers at once.
const BACKLOG: u32 = 1024;
