//! The protected resource: numbers that the holder of the lock reads, increments and writes back.
//! It also keeps the leases by hand that one client leaves for another.
//!
//! It is not part of the store under test. It checks the fence of each request, including reads.
//! Otherwise a holder that was paused past its lease could write between the read and the write of
//! the next holder, whose fence the register would not have seen yet.

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

/// Starts to serve on a loopback port, and returns it. Each write is recorded, in the order of the
/// decisions.
pub(super) fn start(recorder: &Arc<Recorder>) -> std::io::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    let cells = Arc::new(Cells::new(recorder));
    // These threads end with the process, which has only one register.
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
    /// Leases by hand that wait for somebody to take them over, the newest last.
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

    /// Serves a client until it disconnects.
    fn serve(&self, stream: &TcpStream) {
        // Without it, it is only slower.
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
                // Recorded while nobody else can write, so that the events have the order of the
                // writes.
                self.recorder.note(history::now(0, wrote));
                reply
            }
            Request::Leave(lease) => {
                // The oldest ones have expired.
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

/// The maximum number of leases that are kept.
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
