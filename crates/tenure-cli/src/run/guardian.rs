//! A process beside `tenure run` that ends the command if `tenure` itself cannot.
//!
//! `tenure` may be killed with -9, or stopped for longer than its lease lasts; the command would
//! run on while others hold the lock. The guardian reads a pipe of which only `tenure` has the
//! other end: it learns the command's process group and until when the lease lasts. When the pipe
//! ends or the lease does, it kills the group. `tenure` dismisses it once the command has ended.
//!
//! It is our own program under another name, so that a `pkill tenure` does not hit both.

use std::io::{self, PipeWriter, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};
use rustix::time::{ClockId, clock_gettime};

use crate::program::own_program;

/// The guardian as `tenure run` sees it.
#[derive(Debug)]
pub(crate) struct Guardian {
    process: Child,
    orders: PipeWriter,
    /// The deadline that it was told of last.
    deadline: Duration,
}

impl Guardian {
    /// Starts a guardian that has nothing to guard yet.
    pub(crate) fn start() -> io::Result<Self> {
        let (read, orders) = io::pipe()?;
        // It must never block us; what a full pipe loses is replaced by the next deadline.
        rustix::io::ioctl_fionbio(&orders, true)?;
        let process = Command::new(own_program()?)
            .arg0(ALIAS)
            .current_dir("/")
            .stdin(Stdio::from(read))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        Ok(Self {
            process,
            orders,
            deadline: Duration::ZERO,
        })
    }

    /// Returns the end of the pipe that the command's first steps write to.
    pub(crate) fn orders(&self) -> io::Result<PipeWriter> {
        self.orders.try_clone()
    }

    /// Makes it end the command after `left`, unless it gets another deadline before.
    pub(crate) fn end_after(&mut self, left: Duration) {
        let deadline = boot_time().saturating_add(left);
        if deadline.abs_diff(self.deadline) < Duration::from_millis(1) {
            return;
        }
        // Without a guardian the command is still ended by ourselves.
        if self
            .orders
            .write_all(&Order::Deadline(deadline).bytes())
            .is_ok()
        {
            self.deadline = deadline;
        }
    }

    /// Ends the guardian: there is nothing left to guard.
    pub(crate) fn dismiss(mut self) {
        // Both fail only if it has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What the guardian is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Guard this process group.
    Group(Pid),
    /// Kill it at this moment since the machine started.
    Deadline(Duration),
}

impl Order {
    pub(super) fn bytes(self) -> [u8; LENGTH] {
        let (tag, number) = match self {
            Self::Group(group) => (b'g', u64::from(group.as_raw_nonzero().get().unsigned_abs())),
            Self::Deadline(at) => (b'd', u64::try_from(at.as_nanos()).unwrap_or(u64::MAX)),
        };
        let mut bytes = [tag; LENGTH];
        bytes[1..].copy_from_slice(&number.to_le_bytes());
        bytes
    }

    fn read(bytes: [u8; LENGTH]) -> Option<Self> {
        let [tag, number @ ..] = bytes;
        let number = u64::from_le_bytes(number);
        match tag {
            b'g' => {
                let group = Pid::from_raw(i32::try_from(number).ok()?)?;
                // A group of 1 would mean every process there is.
                (!group.is_init()).then_some(Self::Group(group))
            }
            b'd' => Some(Self::Deadline(Duration::from_nanos(number))),
            _ => None,
        }
    }
}

/// Returns whether this process is to be a guardian.
pub(crate) fn is_called() -> bool {
    std::env::args_os().next().is_some_and(|name| name == ALIAS)
}

/// Guards until there is nothing left to guard.
pub(crate) fn watch_over() -> ExitCode {
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::set_name(c"lock-guardian");
    let mut group = None;
    let mut deadline = None;
    while deadline.is_none_or(|deadline| boot_time() < deadline) {
        match next_order(deadline) {
            Heard::Order(Order::Group(told)) => group = Some(told),
            Heard::Order(Order::Deadline(told)) => deadline = Some(told),
            Heard::Nothing => {}
            Heard::End => break,
        }
    }
    if let Some(group) = group {
        // It fails if the group has ended already.
        let _ = kill_process_group(group, Signal::KILL);
    }
    ExitCode::SUCCESS
}

enum Heard {
    Order(Order),
    Nothing,
    End,
}

/// Waits for an order, until the deadline at most.
fn next_order(deadline: Option<Duration>) -> Heard {
    // The kernel counts this wait on a clock that stands still while the machine sleeps, so it is
    // never trusted for long.
    let nap = deadline.map(|deadline| deadline.saturating_sub(boot_time()).min(LONGEST_NAP));
    let nap = nap.and_then(|nap| Timespec::try_from(nap).ok());
    // Not the buffered stdin of the standard library: what it has taken in, `poll` cannot see.
    let stdin = rustix::stdio::stdin();
    let ready = poll(&mut [PollFd::new(&stdin, PollFlags::IN)], nap.as_ref());
    if !matches!(ready, Ok(1..)) {
        return Heard::Nothing;
    }
    let mut bytes = [0; LENGTH];
    // Orders are written in one piece, and so are read in one piece.
    match rustix::io::read(stdin, &mut bytes) {
        Ok(LENGTH) => Order::read(bytes).map_or(Heard::Nothing, Heard::Order),
        Err(Errno::INTR) => Heard::Nothing,
        _ => Heard::End,
    }
}

/// The time since the machine started, which goes on while it sleeps.
fn boot_time() -> Duration {
    #[cfg(target_os = "linux")]
    let clock = ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    let clock = ClockId::Monotonic;
    Duration::try_from(clock_gettime(clock)).unwrap_or_default()
}

const ALIAS: &str = "lock-guardian";
const LENGTH: usize = 9;
const LONGEST_NAP: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_read_as_they_were_written() {
        let group = Order::Group(Pid::from_raw(4242).unwrap());
        let deadline = Order::Deadline(Duration::from_nanos(123_456_789));
        for order in [group, deadline] {
            assert_eq!(Order::read(order.bytes()), Some(order));
        }
    }

    #[test]
    fn no_order_names_every_process() {
        let mut all = Order::Group(Pid::INIT).bytes();
        assert_eq!(Order::read(all), None);
        all[1] = 0;
        assert_eq!(Order::read(all), None);
    }
}
