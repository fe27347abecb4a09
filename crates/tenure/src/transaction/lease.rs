//! Whether a row of the lock table says that a lease is held.

use std::str::FromStr;

use crate::driver::{Loss, RowProof};
use crate::error::{BoxError, Error};
use crate::store::sql::record::{Columns, Micros, Record, nanos};
use crate::transaction::Row;

/// Judges a row that is locked, at a time that was read after it was: nobody can have changed it since.
///
/// The columns are claim, client, fence, fences, since, ends, evicted and more.
///
/// # Errors
///
/// [`Damaged`](Error::Damaged) if the row makes no sense.
pub(crate) fn judge(
    proof: &RowProof,
    now: Micros,
    row: &[Option<String>],
    driver: &'static str,
) -> Result<Result<(), Loss>, Error> {
    let judged = judge_columns(proof, now, row);
    judged.map_err(|source| Error::Damaged { driver, source })
}

fn judge_columns(
    proof: &RowProof,
    now: Micros,
    row: &[Option<String>],
) -> Result<Result<(), Loss>, BoxError> {
    let [claim, client, fence, fences, since, ends, evicted, more] = row else {
        return Err("the row has other columns than were asked for".into());
    };
    let columns = Columns {
        claim: claim.clone(),
        client: client.clone(),
        fence: number(fence)?,
        fences: number(fences)?,
        since: number(since)?,
        ends: number(ends)?,
        evicted: number(evicted)?,
        more: more.clone(),
        ..Columns::default()
    };
    let record = Record::read(&columns)?;
    Ok(match record.ledger.end_of(&proof.claim, proof.fence) {
        Ok(ends) if ends > nanos(now) => Ok(()),
        Ok(_) => Err(Loss::Expired),
        Err(_) if proof.fence.get() <= record.evicted => Err(Loss::Evicted),
        Err(loss) => Err(loss),
    })
}

/// A number in a column.
pub(crate) fn number<T: FromStr>(column: &Option<String>) -> Result<T, BoxError>
where
    T::Err: std::error::Error + Send + Sync + 'static,
{
    Ok(column.as_deref().ok_or("a number is NULL")?.parse()?)
}

/// The only value of the only row.
pub(crate) fn only(rows: Vec<Row>) -> Option<String> {
    rows.into_iter().next()?.into_iter().next()?
}
