//! Points of a recipe at which the lab can halt it, so that a fault lands for certain in the middle.

use std::sync::OnceLock;

use tokio::sync::{mpsc, oneshot};

/// The stage of this process, if it plays in the lab.
#[derive(Debug)]
pub(crate) struct Stage(mpsc::UnboundedSender<Reached>);

/// A point that was reached by a call that goes on when this is dropped.
#[derive(Debug)]
pub(crate) struct Reached {
    /// Which point.
    pub(crate) point: &'static str,
    _go: oneshot::Sender<()>,
}

impl Stage {
    /// Makes this process one of the lab, whose points are told from now on; `None` if it is one already.
    pub(crate) fn open() -> Option<mpsc::UnboundedReceiver<Reached>> {
        let (told, points) = mpsc::unbounded_channel();
        STAGE.set(Self(told)).ok().map(|()| points)
    }

    /// Says that a point is reached, and waits until the lab lets the call go on; outside the lab it does nothing.
    pub(crate) async fn reach(point: &'static str) {
        let Some(Self(told)) = STAGE.get() else {
            return;
        };
        let (_go, gone_on) = oneshot::channel();
        if told.send(Reached { point, _go }).is_ok() {
            // The other end is only ever dropped: that is the sign.
            let _ = gone_on.await;
        }
    }
}

/// One for the process, so that a recipe reads as it would without a lab.
static STAGE: OnceLock<Stage> = OnceLock::new();
