//! The protected resource: numbers that are read, and written back one larger, by whoever holds the lock.
//! It also keeps the leases by hand that one client leaves to another.
//!
//! It is not part of the store under test. It checks the fence of each request, reads included: a holder that was paused
//! past its lease may otherwise write between the read and the write of the next one, who has shown its fence to nobody yet.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use tenure_checker::{What, Written};

use super::messages::{LeftLease, Reply, Request};
use super::recorder::Recorder;
use crate::history;
use crate::register::{Checks, Register};

/// Starts to answer on a loopback port, which it returns; each write is noted, in the order in which they were decided.
pub(super) fn start(recorder: &Arc<Recorder>) -> std::io::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    let cells = Arc::new(Cells::new(recorder));
    // These threads end with the process: there is one register in it.
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let cells = Arc::clone(&cells);
            thread::spawn(move || cells.serve(&stream));
        }
    });
    Ok(port)
}

/// A register for each name.
#[derive(Debug)]
struct Cells {
    cells: Mutex<HashMap<String, Register>>,
    /// Leases by hand that wait for somebody to go on with them, the newest last.
    left: Mutex<Vec<LeftLease>>,
    recorder: Arc<Recorder>,
}

impl Cells {
    fn new(recorder: &Arc<Recorder>) -> Self {
        Self {
            cells: Mutex::default(),
            left: Mutex::default(),
            recorder: Arc::clone(recorder),
        }
    }

    /// Answers until the client has gone.
    fn serve(&self, stream: &TcpStream) {
        // Only slower without it.
        let _ = stream.set_nodelay(true);
        let mut out = stream;
        for line in BufReader::new(stream).lines() {
            let Ok(line) = line else { return };
            let Ok(request) = serde_json::from_str(&line) else {
                return;
            };
            let Ok(mut text) = serde_json::to_string(&self.answer(request)) else {
                return;
            };
            text.push('\n');
            if out.write_all(text.as_bytes()).is_err() {
                return;
            }
        }
    }

    fn answer(&self, request: Request) -> Reply {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let mut cells = self.cells.lock().unwrap_or_else(PoisonError::into_inner);
        match request {
            Request::Read { name, fence } => {
                let cell = cells.entry(name).or_insert_with(new_cell);
                match cell.admits(Some(fence)) {
                    true => Reply::Version(cell.version()),
                    false => Reply::Stale,
                }
            }
            Request::Write {
                claim,
                name,
                fence,
                read,
            } => {
                let cell = cells.entry(name.clone()).or_insert_with(new_cell);
                let wrote = cell.write(claim, &name, Some(fence), read);
                let reply = match &wrote {
                    What::Wrote {
                        outcome: Written::Accepted,
                        ..
                    } => Reply::Version(cell.version()),
                    _ => Reply::Stale,
                };
                // Noted while nobody else can write, so that the notes have the order of the writes.
                self.recorder.note(history::now(0, wrote));
                reply
            }
            Request::Leave(lease) => {
                // The oldest have run out.
                if left.len() == MOST_LEFT {
                    left.remove(0);
                }
                left.push(lease);
                Reply::Lease(None)
            }
            Request::TakeUp => Reply::Lease(left.pop()),
        }
    }
}

fn new_cell() -> Register {
    Register::new(Checks::Fences)
}

/// How many leases wait at most.
const MOST_LEFT: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn write(cells: &Cells, fence: u64, read: u64) -> Reply {
        cells.answer(Request::Write {
            claim: fence,
            name: "a".to_owned(),
            fence,
            read,
        })
    }

    fn read(cells: &Cells, fence: u64) -> Reply {
        let name = "a".to_owned();
        cells.answer(Request::Read { name, fence })
    }

    #[test]
    fn a_smaller_fence_is_refused_once_a_larger_one_has_read() {
        let cells = Cells::new(&Arc::default());
        assert_eq!(read(&cells, 1), Reply::Version(0));
        assert_eq!(read(&cells, 2), Reply::Version(0));
        assert_eq!(write(&cells, 1, 0), Reply::Stale);
        assert_eq!(write(&cells, 2, 0), Reply::Version(1));
        assert_eq!(read(&cells, 1), Reply::Stale);
    }

    #[test]
    fn writes_are_noted_with_what_was_said_to_them() {
        let recorder = Arc::<Recorder>::default();
        let cells = Cells::new(&recorder);
        write(&cells, 2, 0);
        write(&cells, 1, 0);
        let outcomes: Vec<_> = recorder
            .history()
            .into_iter()
            .map(|event| match event.what {
                What::Wrote {
                    outcome, version, ..
                } => (outcome, version),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(outcomes, [(Written::Accepted, 1), (Written::Stale, 1)]);
    }
}
