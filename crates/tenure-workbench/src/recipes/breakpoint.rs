//! Breakpoints of a recipe, at which the lab can hold it, so that a fault reliably hits it in the
//! middle.

use std::sync::OnceLock;

use tokio::sync::{mpsc, oneshot};

/// A breakpoint that a call has reached; the call continues when this is dropped.
#[derive(Debug)]
pub(crate) struct Reached {
    /// The name of the breakpoint.
    pub(crate) point: &'static str,
    _continue: oneshot::Sender<()>,
}

/// Makes this process a client of the lab, which is told of each breakpoint; `None` if it already
/// is one.
pub(crate) fn listen() -> Option<mpsc::UnboundedReceiver<Reached>> {
    let (sender, reached) = mpsc::unbounded_channel();
    LAB.set(sender).ok().map(|()| reached)
}

/// Waits until the lab lets the call continue; does nothing outside the lab.
pub(crate) async fn breakpoint(point: &'static str) {
    let Some(lab) = LAB.get() else {
        return;
    };
    let (_continue, continued) = oneshot::channel();
    if lab.send(Reached { point, _continue }).is_ok() {
        // The other end is only ever dropped: that is the signal.
        let _ = continued.await;
    }
}

/// One per process, so that a recipe reads as it would without a lab.
static LAB: OnceLock<mpsc::UnboundedSender<Reached>> = OnceLock::new();
