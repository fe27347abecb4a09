//! Which claim goes first when a vote is split.

use crate::driver::Holder;
use crate::name::ClaimId;

/// The order of claims that split a vote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TieRule {
    /// By a hash of the claim's id, which is the same for all clients.
    ClaimRank,
    /// By who holds the first node that a client lists and reaches: the rule of an earlier version.
    ///
    /// Clients that list the nodes in different orders, or reach different ones, can all be first, and
    /// then retry forever. Simulations have to find that.
    #[cfg(feature = "simulation")]
    NodeOrder,
}

/// Who holds a name at one node that replied.
#[derive(Debug)]
pub(crate) struct Standing<'a> {
    /// Whether the requesting claim holds it there, or another claim of its owner.
    pub(crate) ours: bool,
    pub(crate) others: Vec<&'a Holder>,
}

impl TieRule {
    /// Returns whether a claim holds a node and comes before all others that hold one.
    ///
    /// With [`ClaimRank`](Self::ClaimRank) the order depends only on the claims. Two claims that see
    /// each other always agree which is first. Of several claims that are each first among those they
    /// see, the last one blocks no other.
    pub(crate) fn is_first(self, claim: &ClaimId, nodes: &[Standing<'_>]) -> bool {
        match self {
            Self::ClaimRank => {
                let mut others = nodes.iter().flat_map(|node| &node.others);
                nodes.iter().any(|node| node.ours)
                    && others.all(|other| rank(claim) < rank(&other.claim))
            }
            #[cfg(feature = "simulation")]
            Self::NodeOrder => {
                let mut nodes = nodes.iter();
                let taken = nodes.find(|node| node.ours || !node.others.is_empty());
                taken.is_some_and(|node| node.ours)
            }
        }
    }

    /// Returns how often a claim that is first stays after a split vote and asks again, before it yields
    /// anyway.
    ///
    /// It has to yield because the others may not see it, or may already hold the name through nodes
    /// that it cannot reach.
    pub(crate) fn most_stays(self) -> u32 {
        match self {
            Self::ClaimRank => 8,
            #[cfg(feature = "simulation")]
            Self::NodeOrder => u32::MAX,
        }
    }
}

/// Returns the rank of a claim among those that split a vote.
///
/// The rank is a hash, so that no client always comes before another: the ids of one client share a
/// prefix.
fn rank(id: &ClaimId) -> (u64, &str) {
    // FNV-1a from the end, where ids differ.
    let mix = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let text = id.as_str();
    (text.bytes().rev().fold(0xcbf2_9ce4_8422_2325, mix), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_client_is_always_before_another() {
        let claim = |client: &str, number| ClaimId::new(&format!("{client}:{number:x}")).unwrap();
        let (ann, bob) = ("5".repeat(32), "6".repeat(32));
        let is_first = |number: &u32| rank(&claim(&ann, *number)) < rank(&claim(&bob, *number));
        let first = (1..=1000).filter(is_first).count();
        assert!((400..600).contains(&first), "{first} of 1000");
    }
}
