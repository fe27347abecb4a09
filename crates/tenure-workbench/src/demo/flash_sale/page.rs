//! The live page: shows a running sale in the browser, with buttons to start others and to break
//! copies.

use std::io::{IsTerminal, Stdin};
use std::net::Ipv4Addr;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router, middleware};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::{Notify, oneshot};

use super::live::{Command, Live, Snapshot};
use super::lock_kind::LockKind;
use super::record::Record;
use super::setup::Setup;
use super::{broken, origin, sale, table, view};
use tenure_cli::{Failure, Result, exit_code};

/// Runs the sales of `locks` in turn, and then the requested ones, until a signal ends it.
///
/// The first sale starts when the page is open, or with a line on standard input.
///
/// # Cancel safety
///
/// Cancel safe: page, copies and buyers end with the call.
pub(super) async fn serve(setup: &Setup, locks: &[LockKind]) -> Result<ExitCode> {
    let listener = listen(setup.args.page_port).await?;
    let address = listener.local_addr()?;
    let input = std::io::stdin();
    let without = match may_read(&input) {
        true => "Enter begins it without the page, ",
        false => "",
    };
    anstream::eprintln!("open http://{address}/ to begin the sale ({without}Ctrl-C ends it)");
    let (commands, mut received) = mpsc::unbounded_channel();
    let page = Page {
        live: Live::new(),
        commands,
        records: Arc::default(),
        opened: Arc::default(),
        store: setup.shown(),
        locks: offers(setup),
        copies: setup.args.copies,
    };
    let sales = async {
        tokio::select! {
            () = page.opened.notified() => {}
            () = line(input) => {}
        }
        let mut waiting = locks.iter().copied();
        let mut next = waiting.next();
        loop {
            let lock = match next {
                Some(lock) => lock,
                None => next_start(&mut received).await,
            };
            let finished = sale::hold(setup, lock, &page.live, &mut received).await?;
            next = finished.next.or_else(|| waiting.next());
            if let Err(failure) = page.keep(finished.record, setup) {
                failure.report();
            }
        }
    };
    tokio::select! {
        ended = sales => ended,
        ended = axum::serve(listener, routes(page.clone())) => Ok(ended.map(|()| exit_code::DONE)?),
    }
}

/// Waits for the next command that starts a sale; other commands have no sale to act on.
async fn next_start(commands: &mut UnboundedReceiver<Command>) -> LockKind {
    loop {
        match commands.recv().await {
            Some(Command::Start(lock)) => return lock,
            Some(Command::Pause(_) | Command::Kill(_) | Command::Stop) => {}
            None => std::future::pending().await,
        }
    }
}

/// Returns all routes.
fn routes(page: Page) -> Router {
    let file = |kind, text: &str| {
        let text = text.to_owned();
        get(move || async move { file(kind, text) })
    };
    Router::new()
        .route("/", file("text/html; charset=utf-8", &view::page()))
        .route("/style.css", file("text/css", view::STYLE))
        .route("/parts.js", file("text/javascript", view::PARTS))
        .route("/charts.js", file("text/javascript", view::CHARTS))
        .route("/page.js", file("text/javascript", view::LIVE))
        .route("/state", get(state))
        .route("/report", get(report))
        .route("/start", post(start))
        .route("/pause", post(pause))
        .route("/kill", post(kill))
        .route("/stop", post(stop))
        .layer(middleware::from_fn(origin::check))
        .with_state(page)
}

/// The state behind the answers; clones share it.
#[derive(Debug, Clone)]
struct Page {
    live: Live,
    commands: UnboundedSender<Command>,
    /// The last sale of each lock.
    records: Arc<Mutex<Vec<Record>>>,
    /// Notified whenever a page asks for the state.
    opened: Arc<Notify>,
    /// Where the locks live, without a password.
    store: String,
    locks: Vec<Offer>,
    copies: u32,
}

/// A lock that a sale can be started with.
#[derive(Debug, Clone, Serialize)]
struct Offer {
    name: String,
    /// One sentence about it.
    shows: &'static str,
    /// Whether it works on the store of this run.
    works: bool,
}

#[derive(Debug, Deserialize)]
struct Start {
    lock: String,
}

#[derive(Debug, Deserialize)]
struct Break {
    copy: u32,
}

/// The refusal of a command, with the reason.
type Refused = (StatusCode, String);

fn file(kind: &'static str, text: String) -> Response {
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, "no-store"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
    ];
    (headers, text).into_response()
}

async fn state(State(page): State<Page>) -> Response {
    #[derive(Serialize)]
    struct Shown {
        store: String,
        locks: Vec<Offer>,
        #[serde(flatten)]
        now: Snapshot,
    }
    page.opened.notify_one();
    let now = page.live.snapshot().await;
    let Page { store, locks, .. } = page;
    let headers = [(header::CACHE_CONTROL, "no-store")];
    (headers, Json(Shown { store, locks, now })).into_response()
}

/// Returns the sales so far as a report.
async fn report(State(page): State<Page>) -> Response {
    let records = page.records();
    if records.is_empty() {
        let sentence = "no sale is over yet; come back at its end";
        return (StatusCode::NOT_FOUND, sentence).into_response();
    }
    let headers = [(header::CACHE_CONTROL, "no-store")];
    (headers, Html(view::report(&records))).into_response()
}

async fn start(State(page): State<Page>, Json(order): Json<Start>) -> Result<StatusCode, Refused> {
    let offer = page.locks.iter().find(|offer| offer.name == order.lock);
    let (Some(offer), Some(lock)) = (offer, LockKind::named(&order.lock)) else {
        let sentence = format!("there is no lock {:?}", order.lock);
        return Err((StatusCode::BAD_REQUEST, sentence));
    };
    if !offer.works {
        let name = &offer.name;
        let sentence =
            format!("{name} needs Redis; start the demo with --store redis://…, or with --all");
        return Err((StatusCode::CONFLICT, sentence));
    }
    page.send(Command::Start(lock))
}

async fn pause(State(page): State<Page>, Json(order): Json<Break>) -> Result<StatusCode, Refused> {
    page.check(order.copy)?;
    if page.copies < 2 {
        let sentence = "no other copy could take over; start the demo with --copies 2".to_owned();
        return Err((StatusCode::CONFLICT, sentence));
    }
    page.send(Command::Pause(order.copy))
}

async fn kill(State(page): State<Page>, Json(order): Json<Break>) -> Result<StatusCode, Refused> {
    page.check(order.copy)?;
    page.send(Command::Kill(order.copy))
}

async fn stop(State(page): State<Page>) -> Result<StatusCode, Refused> {
    page.send(Command::Stop)
}

impl Page {
    /// Refuses a command for a copy that does not exist.
    fn check(&self, copy: u32) -> Result<(), Refused> {
        if !(1..=self.copies).contains(&copy) {
            return Err((StatusCode::NOT_FOUND, format!("there is no copy {copy}")));
        }
        if !self.live.is_running() {
            let sentence = "no sale is running; start one first".to_owned();
            return Err((StatusCode::CONFLICT, sentence));
        }
        Ok(())
    }

    fn send(&self, command: Command) -> Result<StatusCode, Refused> {
        // Nobody receives commands after the end.
        let _ = self.commands.send(command);
        Ok(StatusCode::ACCEPTED)
    }

    /// Prints a finished sale, and keeps it for the report.
    fn keep(&self, record: Record, setup: &Setup) -> Result<()> {
        let mut records = self.records();
        records.retain(|other| other.lock != record.lock);
        records.push(record);
        let last = &records[records.len() - 1..];
        table::print(last)?;
        if let Some(sentence) = broken(last) {
            Failure::new(exit_code::BROKEN, sentence).report();
        }
        match &setup.args.report {
            Some(file) => view::write_report(file, &records),
            None => Ok(()),
        }
    }

    fn records(&self) -> MutexGuard<'_, Vec<Record>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn offers(setup: &Setup) -> Vec<Offer> {
    let offer = |kind: LockKind| Offer {
        name: kind.name(),
        shows: kind.shows(),
        works: setup.stock.has(kind.needs()),
    };
    LockKind::value_variants()
        .iter()
        .copied()
        .map(offer)
        .collect()
}

/// Returns whether this process may read; the terminal stops background processes that try.
fn may_read(input: &Stdin) -> bool {
    let ours = |group| group == rustix::process::getpgrp();
    !input.is_terminal() || rustix::termios::tcgetpgrp(input).is_ok_and(ours)
}

/// Waits for a line on standard input; for ever if none can arrive.
async fn line(input: Stdin) {
    let (tell, told) = oneshot::channel();
    if may_read(&input) {
        // Only the end of the process can interrupt such a read.
        std::thread::spawn(move || {
            if input
                .read_line(&mut String::new())
                .is_ok_and(|length| length > 0)
            {
                // Nobody waits for it once the page is open.
                let _ = tell.send(());
            }
        });
    }
    if told.await.is_err() {
        std::future::pending().await
    }
}

async fn listen(port: Option<u16>) -> Result<TcpListener> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port.unwrap_or(0))).await;
    listener.map_err(|error| {
        let port = port.unwrap_or(0);
        let sentence =
            format!("the page cannot listen on port {port}: {error}; try another --page-port");
        Failure::unavailable(sentence)
    })
}

/// Only our own files, and nothing from other sites.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
