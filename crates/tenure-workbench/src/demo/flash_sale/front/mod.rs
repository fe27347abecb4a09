//! Who spreads the buyers over the copies: nginx, or a small front of our own.
//!
//! Both send a request to the copy with the fewest that are not answered yet. Taking turns would let a
//! frozen copy collect all buyers, one after another, while the others have nothing to do.

use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;

use super::args::FrontKind;
use tenure_cli::error::{Failure, Result};
use tenure_cli::exit_code;

mod client;
mod nginx;
mod own;

pub(super) use client::{Connection, connect};

/// The front that buyers come to; ends when dropped.
#[derive(Debug)]
pub(super) enum Front {
    Own(own::Own),
    Nginx(nginx::Nginx),
}

impl Front {
    /// Starts the front that was chosen, for copies on these ports.
    pub(super) fn start(
        kind: FrontKind,
        port: Option<u16>,
        copies: &[u16],
        folder: &Path,
    ) -> Result<Self> {
        let program = match kind {
            FrontKind::Own => None,
            FrontKind::Auto => nginx::find().ok(),
            FrontKind::Nginx => Some(nginx::find()?),
        };
        match program {
            Some(program) => nginx::Nginx::start(&program, port, copies, folder).map(Self::Nginx),
            None => own::Own::start(port, copies).map(Self::Own),
        }
    }

    /// Returns the port that buyers come to.
    pub(super) fn port(&self) -> u16 {
        match self {
            Self::Own(own) => own.port(),
            Self::Nginx(nginx) => nginx.port(),
        }
    }

    /// Returns its name, as `--front` has it.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Own(_) => "own",
            Self::Nginx(_) => "nginx",
        }
    }
}

/// Listens on a port of this machine, or on any that is free.
fn listen(port: Option<u16>) -> Result<TcpListener> {
    let listening = TcpListener::bind((Ipv4Addr::LOCALHOST, port.unwrap_or(0)));
    listening.map_err(|error| {
        let port = port.map_or_else(String::new, |port| format!(" {port}"));
        let sentence = format!("port{port} cannot be used: {error}; choose another with --port");
        Failure::new(exit_code::UNAVAILABLE, sentence)
    })
}
