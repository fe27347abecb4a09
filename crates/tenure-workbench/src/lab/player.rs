//! A client process, as the lab sees it.

use std::process::{Command, Stdio};
use std::sync::mpsc::Sender;
use std::thread;

use super::wire::{Order, Say};
use crate::child::Child;
use tenure_cli::error::Result;

/// What comes from a client.
#[derive(Debug)]
pub(super) enum Heard {
    Said(Say),
    /// It has ended.
    Closed,
}

/// Starts a client whose words arrive at `heard` with its number.
pub(super) fn start(order: &Order, heard: Sender<(u32, Heard)>) -> Result<Child> {
    let mut command = Command::new(tenure_cli::program::own_program()?);
    // The one that overflows its stack would say so there; the lab tells it better.
    command.arg("lab-client").stderr(Stdio::null());
    let mut player = Child::start("a client of the lab", &mut command)?;
    let (process, said) = (order.process, player.said());
    thread::spawn(move || {
        for said in said.map_while(Result::ok) {
            // Nobody listens when the play is over.
            let _ = heard.send((process, Heard::Said(said)));
        }
        let _ = heard.send((process, Heard::Closed));
    });
    player.tell(order)?;
    Ok(player)
}
