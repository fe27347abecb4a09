//! A process beside `tenure run` that kills the command if `tenure` itself cannot.
//!
//! `tenure` may be killed with -9, or stopped for longer than its lease lasts. The command would
//! then keep running while others hold the lock. The guardian reads from a pipe whose other end
//! only `tenure` has. It learns the command's process group and when the lease ends. When the pipe
//! is closed or the lease ends, it kills the group. `tenure` dismisses it once the command has
//! ended.
//!
//! It is the same program under another name, so that `pkill tenure` does not hit both.

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
    /// The last deadline that was sent.
    deadline: Duration,
}

impl Guardian {
    /// Starts a guardian that has nothing to guard yet.
    pub(crate) fn start() -> io::Result<Self> {
        let (read, orders) = io::pipe()?;
        // Writing must never block. If a full pipe drops a deadline, the next one replaces it.
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

    /// Returns the write end of the pipe, for the command to use before exec.
    pub(crate) fn orders(&self) -> io::Result<PipeWriter> {
        self.orders.try_clone()
    }

    /// Makes the guardian kill the command after `left`, unless it gets another deadline before
    /// then.
    pub(crate) fn end_after(&mut self, left: Duration) {
        let deadline = boot_time().saturating_add(left);
        if deadline.abs_diff(self.deadline) < Duration::from_millis(1) {
            return;
        }
        // Without a guardian, `tenure` still ends the command itself.
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

/// A message to the guardian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Guard this process group.
    Group(Pid),
    /// Kill it at this time since boot.
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
                // A group of 1 would address every process.
                (!group.is_init()).then_some(Self::Group(group))
            }
            b'd' => Some(Self::Deadline(Duration::from_nanos(number))),
            _ => None,
        }
    }
}

/// Returns whether this process was started as a guardian.
pub(crate) fn is_called() -> bool {
    std::env::args_os().next().is_some_and(|name| name == ALIAS)
}

/// Runs the guardian until there is nothing left to guard.
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
        // This fails if the group has already ended.
        let _ = kill_process_group(group, Signal::KILL);
    }
    ExitCode::SUCCESS
}

enum Heard {
    Order(Order),
    Nothing,
    End,
}

/// Waits for an order, at most until the deadline.
fn next_order(deadline: Option<Duration>) -> Heard {
    // The kernel measures this wait on a clock that stops while the machine sleeps, so each wait is
    // short.
    let nap = deadline.map(|deadline| deadline.saturating_sub(boot_time()).min(LONGEST_NAP));
    let nap = nap.and_then(|nap| Timespec::try_from(nap).ok());
    // Does not use the buffered stdin of the standard library: `poll` cannot see what is in its
    // buffer.
    let stdin = rustix::stdio::stdin();
    let ready = poll(&mut [PollFd::new(&stdin, PollFlags::IN)], nap.as_ref());
    if !matches!(ready, Ok(1..)) {
        return Heard::Nothing;
    }
    let mut bytes = [0; LENGTH];
    // Orders are written in one piece, so they are also read in one piece.
    match rustix::io::read(stdin, &mut bytes) {
        Ok(LENGTH) => Order::read(bytes).map_or(Heard::Nothing, Heard::Order),
        Err(Errno::INTR) => Heard::Nothing,
        _ => Heard::End,
    }
}

/// Returns the time since boot, which includes the time that the machine slept.
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
