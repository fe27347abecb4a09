//! Sales as they are ordered, one after another: what stands behind the live page.

use std::convert::Infallible;

use super::live::{Live, Order, Orders};
use super::record::Record;
use super::sale;
use super::stage::Stage;
use tenure_cli::error::Result;

/// Holds each sale that is ordered, and passes its record on; ends only if one fails.
///
/// A sale that somebody ended has a record of what happened until then.
///
/// # Cancel safety
///
/// Cancel safe: the processes of a sale end with the call.
pub(crate) async fn perform(
    stage: &Stage,
    live: &Live,
    orders: &mut Orders,
    mut over: impl FnMut(Record),
) -> Result<Infallible> {
    let mut next = None;
    loop {
        let lock = match next.take() {
            Some(lock) => lock,
            None => match orders.next().await {
                Order::Start(lock) => lock,
                // There is no sale that it could be meant for.
                Order::Pause(_) | Order::Kill(_) | Order::Stop => continue,
            },
        };
        let held = sale::hold(stage, lock, live, orders).await?;
        next = held.next;
        over(held.record);
    }
}
