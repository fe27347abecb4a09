//! The live page: a sale while it goes on, in the browser, with buttons to start others and to break copies.

use std::convert::Infallible;
use std::io::{IsTerminal, Stdin};
use std::net::Ipv4Addr;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::State;
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router, middleware};
use clap::ValueEnum;
use serde::Deserialize;
use tokio::net::TcpListener;
use tokio::sync::{Notify, oneshot};

use super::live::{Control, Live};
use super::lock::LockKind;
use super::look::LookArgs;
use super::record::Record;
use super::stage::Stage;
use super::stock::Shelf;
use super::{broken, report, show, table};
use tenure_cli::error::{Failure, Result};
use tenure_cli::exit_code;

mod board;
mod visitor;

use board::{Board, Offer};

/// Shows the sales of `locks` in turn, and then those that are ordered, until a signal ends it.
///
/// The first begins when the page is open, or with a line on standard input.
///
/// # Cancel safety
///
/// Cancel safe: page, copies and buyers end with the call.
pub(super) async fn serve(stage: &Stage, look: &LookArgs, locks: &[LockKind]) -> Result<ExitCode> {
    let listener = listen(look.page_port).await?;
    let address = listener.local_addr()?;
    let input = std::io::stdin();
    let without = match may_read(&input) {
        true => "Enter begins it without the page, ",
        false => "",
    };
    anstream::eprintln!("open http://{address}/ to begin the sale ({without}Ctrl-C ends it)");
    let live = Live::new();
    let (control, mut orders) = Control::new();
    let board = Board::new(stage.shown(), offers(stage));
    let desk = Desk {
        board: board.clone(),
        control: control.clone(),
        records: Arc::default(),
        opened: Arc::default(),
    };
    let mut waiting = locks.iter().copied();
    let (first, opened) = (waiting.next(), Arc::clone(&desk.opened));
    let begin = async {
        tokio::select! {
            () = opened.notified() => {}
            () = line(input) => {}
        }
        if let Some(first) = first {
            control.start(first);
        }
        std::future::pending::<Infallible>().await
    };
    let records = Arc::clone(&desk.records);
    let over = |record| {
        if let Err(failure) = keep(&records, record, look) {
            failure.report();
        }
        if let Some(next) = waiting.next() {
            control.start(next);
        }
    };
    let server = axum::serve(listener, routes(desk));
    tokio::select! {
        ended = show::perform(stage, &live, &mut orders, over) => match ended? {},
        () = board.watch(&live) => unreachable!("the loop has no end"),
        never = begin => match never {},
        ended = server => ended?,
    }
    Ok(exit_code::DONE)
}

/// Everything that can be asked for.
fn routes(desk: Desk) -> Router {
    Router::new()
        .route(
            "/",
            get(|| async { file("text/html; charset=utf-8", INDEX) }),
        )
        .route("/look.css", get(|| async { file("text/css", LOOK) }))
        .route("/page.css", get(|| async { file("text/css", STYLE) }))
        .route(
            "/page.js",
            get(|| async { file("text/javascript", SCRIPT) }),
        )
        .route("/state", get(state))
        .route("/report", get(all))
        .route("/start", post(start))
        .route("/pause", post(pause))
        .route("/kill", post(kill))
        .route("/stop", post(stop))
        .layer(middleware::from_fn(visitor::check))
        .with_state(desk)
}

/// What the answers are made from.
#[derive(Debug, Clone)]
struct Desk {
    board: Board,
    control: Control,
    records: Records,
    /// Told whenever a page asks for the state.
    opened: Arc<Notify>,
}

/// The last sale of each lock.
type Records = Arc<Mutex<Vec<(LockKind, Record)>>>;

#[derive(Debug, Deserialize)]
struct Start {
    lock: String,
}

#[derive(Debug, Deserialize)]
struct Break {
    copy: u32,
}

/// An order that is not carried out, and why.
type Refused = (StatusCode, String);

fn file(kind: &'static str, text: &'static str) -> Response {
    let headers: [(HeaderName, &str); 3] = [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, "no-store"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
    ];
    (headers, text).into_response()
}

async fn state(State(desk): State<Desk>) -> Response {
    desk.opened.notify_one();
    let headers = [(header::CACHE_CONTROL, "no-store")];
    (headers, Json(desk.board.seen())).into_response()
}

/// The sales until now, as the report.
async fn all(State(desk): State<Desk>) -> Response {
    let records = kept(&desk.records);
    if records.is_empty() {
        let sentence = "no sale is over yet; come back at its end";
        return (StatusCode::NOT_FOUND, sentence).into_response();
    }
    let headers = [(header::CACHE_CONTROL, "no-store")];
    (headers, Html(report::text(&records))).into_response()
}

async fn start(State(desk): State<Desk>, Json(order): Json<Start>) -> Result<StatusCode, Refused> {
    let Some(offer) = desk.board.offer(&order.lock) else {
        let sentence = format!("there is no lock {:?}", order.lock);
        return Err((StatusCode::BAD_REQUEST, sentence));
    };
    if !offer.works {
        let sentence = format!("{} needs Redis; {WITH_REDIS}", offer.name);
        return Err((StatusCode::CONFLICT, sentence));
    }
    desk.control.start(offer.kind);
    Ok(StatusCode::ACCEPTED)
}

async fn pause(State(desk): State<Desk>, Json(order): Json<Break>) -> Result<StatusCode, Refused> {
    desk.check(order.copy)?;
    if !desk.board.has_several_copies() {
        let sentence = "nobody would take over; start the demo with --copies 2".to_owned();
        return Err((StatusCode::CONFLICT, sentence));
    }
    desk.control.pause(order.copy);
    Ok(StatusCode::ACCEPTED)
}

async fn kill(State(desk): State<Desk>, Json(order): Json<Break>) -> Result<StatusCode, Refused> {
    desk.check(order.copy)?;
    desk.control.kill(order.copy);
    Ok(StatusCode::ACCEPTED)
}

async fn stop(State(desk): State<Desk>) -> StatusCode {
    desk.control.stop();
    StatusCode::ACCEPTED
}

impl Desk {
    /// Refuses an order for a copy that is not there.
    fn check(&self, copy: u32) -> Result<(), Refused> {
        if !self.board.has_copy(copy) {
            return Err((StatusCode::NOT_FOUND, format!("there is no copy {copy}")));
        }
        if !self.board.is_running() {
            let sentence = "no sale goes on; start one first".to_owned();
            return Err((StatusCode::CONFLICT, sentence));
        }
        Ok(())
    }
}

/// Prints a sale that is over, and keeps it for the report.
fn keep(records: &Records, record: Record, look: &LookArgs) -> Result<()> {
    let Some(lock) = LockKind::from_str(&record.lock, false).ok() else {
        return Ok(());
    };
    let mut records = kept(records);
    records.retain(|(kind, _)| *kind != lock);
    records.push((lock, record));
    let last = &records[records.len() - 1..];
    table::print(last)?;
    if let Some(sentence) = broken(last) {
        Failure::new(exit_code::BROKEN, sentence).report();
    }
    match &look.report {
        Some(file) => report::write(file, &records),
        None => Ok(()),
    }
}

fn kept(records: &Records) -> MutexGuard<'_, Vec<(LockKind, Record)>> {
    records.lock().unwrap_or_else(PoisonError::into_inner)
}

fn offers(stage: &Stage) -> Vec<Offer> {
    let offer = |kind: LockKind| Offer {
        name: kind.name(),
        shows: kind.shows().to_owned(),
        works: !kind.needs_redis() || matches!(stage.shelf, Shelf::Redis { .. }),
        kind,
    };
    LockKind::all().into_iter().map(offer).collect()
}

/// Whether reading cannot stop this process, as the terminal does with those in its background.
fn may_read(input: &Stdin) -> bool {
    let ours = |group| group == rustix::process::getpgrp();
    !input.is_terminal() || rustix::termios::tcgetpgrp(input).is_ok_and(ours)
}

/// Waits for a line on standard input; for ever if none can come.
async fn line(input: Stdin) {
    let (tell, told) = oneshot::channel();
    if may_read(&input) {
        // Nothing can end such a read but the end of the process.
        std::thread::spawn(move || {
            if input
                .read_line(&mut String::new())
                .is_ok_and(|length| length > 0)
            {
                // Nobody waits once the page is open.
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
        Failure::new(exit_code::UNAVAILABLE, sentence)
    })
}

const WITH_REDIS: &str = "start the demo with --store redis://…, or with --all";

/// Nothing from elsewhere, and nothing but our own files.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const INDEX: &str = include_str!("index.html");
const LOOK: &str = include_str!("../look.css");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
