//! Batches of renewals, each of which may fail independently.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use crate::driver::Renewed;
use crate::error::Result;

/// Runs all futures concurrently, and returns their outputs in order.
pub(crate) async fn all<T>(futures: Vec<impl Future<Output = T>>) -> Vec<T> {
    let mut running: Vec<(Pin<Box<_>>, Option<T>)> = futures
        .into_iter()
        .map(|future| (Box::pin(future), None))
        .collect();
    poll_fn(|context| {
        let mut over = Poll::Ready(());
        for (future, output) in &mut running {
            if output.is_none() {
                match future.as_mut().poll(context) {
                    Poll::Ready(value) => *output = Some(value),
                    Poll::Pending => over = Poll::Pending,
                }
            }
        }
        over
    })
    .await;
    running
        .into_iter()
        .filter_map(|(_, output)| output)
        .collect()
}

/// Combines the results of all batches with their lengths; returns an error only if every batch
/// failed.
pub(crate) fn put_together(
    parts: impl Iterator<Item = (usize, Result<Vec<Renewed>>)>,
) -> Result<Vec<Renewed>> {
    let (mut answers, mut answered, mut fault) = (Vec::new(), false, None);
    for (length, part) in parts {
        match part {
            Ok(part) => {
                answered = true;
                answers.extend(part);
            }
            Err(error) => {
                tracing::debug!(leases = length, %error, "some renewals failed");
                answers.extend(std::iter::repeat_n(Renewed::Unknown, length));
                fault = Some(error);
            }
        }
    }
    match fault {
        Some(error) if !answered => Err(error),
        _ => Ok(answers),
    }
}
