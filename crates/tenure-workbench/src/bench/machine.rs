//! The machine that was measured on, without which the figures mean little.

use serde::Serialize;

/// The machine and its load.
#[derive(Debug, Serialize)]
pub(super) struct Machine {
    cores: usize,
    kernel: String,
    /// The load average of the minute before the run, if known.
    load: Option<f64>,
}

impl Machine {
    /// Inspects this machine.
    pub(super) fn look() -> Self {
        let system = rustix::system::uname();
        let (name, release) = (system.sysname(), system.release());
        let load = std::fs::read_to_string("/proc/loadavg").ok();
        let load = load.and_then(|text| text.split_whitespace().next()?.parse().ok());
        Self {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: format!("{} {}", name.to_string_lossy(), release.to_string_lossy()),
            load,
        }
    }

    /// Returns a description in one line.
    pub(super) fn sentence(&self) -> String {
        let Self { cores, kernel, .. } = self;
        match self.load {
            Some(load) => format!("{cores} cores, {kernel}, load before the run {load}"),
            None => format!("{cores} cores, {kernel}"),
        }
    }
}
