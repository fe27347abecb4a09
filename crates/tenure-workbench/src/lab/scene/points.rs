//! Points at which a client halts, so that a fault lands for certain in the middle.

use super::Scene;
use crate::lab::BEFORE_WRITE;
use crate::lab::upset::Result;
use crate::lab::wire::Step;

impl Scene {
    /// Lets a client halt when it reaches the point next. tenure has none of the recipes' points.
    pub(in crate::lab) fn halt(&mut self, process: u32, point: &str) -> Result<()> {
        if !self.has(point) {
            return Ok(());
        }
        let point = point.to_owned();
        self.tell(process, &Step::Halt { point })
    }

    /// Waits until the client halts at the point.
    pub(in crate::lab) fn halts(&mut self, process: u32, point: &str) -> Result<()> {
        if !self.has(point) {
            return Ok(());
        }
        let there = (process, point.to_owned());
        self.until(&format!("a client is at the point {point}"), |scene| {
            Ok(scene.at.contains(&there))
        })
    }

    /// Lets a client go on from the point.
    pub(in crate::lab) fn go(&mut self, process: u32, point: &str) -> Result<()> {
        if !self.has(point) {
            return Ok(());
        }
        let point = point.to_owned();
        self.at.remove(&(process, point.clone()));
        self.tell(process, &Step::Go { point })
    }

    fn has(&self, point: &str) -> bool {
        point == BEFORE_WRITE || !self.is_tenure()
    }
}
