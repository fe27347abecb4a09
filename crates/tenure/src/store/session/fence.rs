//! Fences from the store's count of changes.

use crate::name::Fence;

/// How many fences each change of the store makes room for.
pub(crate) const FENCES: u32 = 1 << BITS;

const BITS: u32 = 14;

/// Returns the first fence of the grant that change number `change` of the store made.
///
/// `None` if the number is too large: a fence must fit into a signed number of 64 bits, because many databases have no
/// other. It is also none for 0 and below.
pub(crate) fn fence_of(change: i64) -> Option<Fence> {
    let change = u64::try_from(change).ok()?;
    match change >> (63 - BITS) {
        0 => Fence::new(change << BITS),
        _ => None,
    }
}

/// Returns the number of the change that a fence is from.
pub(crate) fn change_of(fence: Fence) -> i64 {
    // Less than 2^50.
    i64::try_from(fence.get() >> BITS).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fences_grow_with_the_changes_and_leave_room() {
        let (one, two) = (fence_of(1).unwrap(), fence_of(2).unwrap());
        assert_eq!(two.get() - one.get(), u64::from(FENCES));
        assert_eq!(change_of(two), 2);
        let last = fence_of((1 << 49) - 1).unwrap();
        assert!(i64::try_from(last.get()).is_ok());
        for wrong in [0, -1, 1 << 49, i64::MAX] {
            assert_eq!(fence_of(wrong), None, "{wrong}");
        }
    }
}
