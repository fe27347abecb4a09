//! The watch as a live screen: polls the store, handles keys, and draws.

use std::process::ExitCode;
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::error::Result;
use crate::exit_code;
use crate::signals::Signals;
use crate::watch::Watched;
use crate::watch::view::View;

/// Shows the locks until a key or a signal ends it.
pub(super) async fn watch(watched: Watched, every: Duration, store: String) -> Result<ExitCode> {
    let mut signals = Signals::listen()?;
    let mut view = View::new(store);
    let (seen, mut looks) = mpsc::channel(1);
    // Dropping the set ends the task.
    let mut looking = JoinSet::new();
    looking.spawn(async move {
        while seen.send(watched.look().await).await.is_ok() {
            sleep(every).await;
        }
    });
    let mut keys = read_keys();
    let mut terminal = ratatui::try_init()?;
    let ended = loop {
        if let Err(error) = terminal.draw(|frame| view.draw(frame)) {
            break Err(error.into());
        }
        tokio::select! {
            Some(found) = looks.recv() => view.found(found),
            pressed = keys.recv() => match pressed {
                Some(Event::Key(key)) if key.kind != KeyEventKind::Release => {
                    if react(&mut view, key) == Reaction::Quit {
                        break Ok(exit_code::DONE);
                    }
                }
                Some(_) => {}
                // The terminal is gone.
                None => break Ok(exit_code::DONE),
            },
            signal = signals.next() => break Err(signal.into()),
            // Redraws, because the remaining time of the leases goes down.
            () = sleep(every.min(LONGEST_STILL)) => {}
        }
    };
    ratatui::restore();
    ended
}

#[derive(Debug, PartialEq, Eq)]
enum Reaction {
    Stay,
    Quit,
}

fn react(view: &mut View, key: KeyEvent) -> Reaction {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return match key.code {
            KeyCode::Char('c' | 'd') => Reaction::Quit,
            _ => Reaction::Stay,
        };
    }
    if view.typing {
        match key.code {
            KeyCode::Char(c) => view.type_in(c),
            KeyCode::Backspace => view.rub_out(),
            KeyCode::Esc => view.clear_filter(),
            KeyCode::Enter => view.typing = false,
            _ => {}
        }
        return Reaction::Stay;
    }
    match key.code {
        KeyCode::Char('q') => return Reaction::Quit,
        KeyCode::Esc if !view.is_filtered() => return Reaction::Quit,
        KeyCode::Esc => view.clear_filter(),
        KeyCode::Char('/') => view.typing = true,
        KeyCode::Down | KeyCode::Char('j') => view.scroll(1),
        KeyCode::Up | KeyCode::Char('k') => view.scroll(-1),
        KeyCode::PageDown | KeyCode::Char(' ') => view.scroll(view.page()),
        KeyCode::PageUp => view.scroll(-view.page()),
        KeyCode::Home | KeyCode::Char('g') => view.scroll(isize::MIN),
        KeyCode::End | KeyCode::Char('G') => view.scroll(isize::MAX),
        _ => {}
    }
    Reaction::Stay
}

/// Reads keys on a separate thread, which ends with the program.
fn read_keys() -> mpsc::Receiver<Event> {
    let (read, keys) = mpsc::channel(64);
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            if read.blocking_send(event).is_err() {
                return;
            }
        }
    });
    keys
}

const LONGEST_STILL: Duration = Duration::from_millis(250);
