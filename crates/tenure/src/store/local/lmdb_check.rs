//! Validates a state file before LMDB maps it.
//!
//! LMDB trusts its file: a missing or overwritten page crashes the process. So this module first reads
//! every page that the newest commit can reach, and every list of free pages, by the layout of LMDB's
//! data version 1. This takes microseconds for a typical state, and is done once per process.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::error::Result;
use crate::store::local::fault;

/// Refuses a file that LMDB could crash on.
pub(super) fn whole(file: &File, path: &Path) -> Result<()> {
    let checked = Pages::open(file).and_then(|mut pages| pages.check());
    checked.map_err(|fault| match fault {
        Defect::Io(error) => fault::io(path, &error),
        Defect::Wrong(what) => fault::damaged_state(path, &what),
    })
}

#[derive(Debug)]
enum Defect {
    Io(io::Error),
    Wrong(&'static str),
}

/// The page header, and the header of an entry in a page.
const HEADER: usize = 16;
const NODE: usize = 8;

/// Kinds of pages, and the flag of an entry whose value has its own pages.
const BRANCH: u16 = 0x01;
const LEAF: u16 = 0x02;
const OVERFLOW: u16 = 0x04;
const META: u16 = 0x08;
const BIG: u16 = 0x01;

const MAGIC: u32 = 0xbeef_c0de;
const DATA_VERSION: u32 = 1;

/// The flags of the tree of free pages: keys are integers, and the environment is one file.
const FREE_FLAGS: u16 = 0x4008;

/// The root of a tree without pages.
const NO_PAGE: u64 = u64::MAX;

/// LMDB's own limit on a tree's depth.
const DEEPEST: u16 = 32;

/// A state file, read page by page.
struct Pages<'a> {
    file: &'a File,
    page_bytes: usize,
    /// How many whole pages the file has.
    count: u64,
    /// The last page that is or was in use.
    last: u64,
    /// The pages seen so far, in use or free: none may appear twice.
    seen: BTreeSet<u64>,
    transaction: u64,
    /// The previous key of a tree.
    before: Option<Vec<u8>>,
}

/// A meta page: the state after one transaction.
struct Meta {
    transaction: u64,
    last: u64,
    free: Tree,
    table: Tree,
}

/// One of the two trees: the free pages, and the table.
struct Tree {
    kind: TreeKind,
    flags: u16,
    root: u64,
    depth: u16,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum TreeKind {
    Free,
    Table,
}

/// An entry's place in its page.
struct Node {
    at: usize,
    key_bytes: usize,
    /// In a leaf, the value's length and flags; in a branch, the page below.
    low: u32,
    high: u16,
}

impl<'a> Pages<'a> {
    fn open(file: &'a File) -> Result<Self, Defect> {
        let bytes = file.metadata().map_err(Defect::Io)?.len();
        let page_bytes = rustix::param::page_size().min(0x8000);
        Ok(Self {
            file,
            count: bytes / page_bytes as u64,
            page_bytes,
            last: 0,
            seen: BTreeSet::new(),
            transaction: 0,
            before: None,
        })
    }

    fn check(&mut self) -> Result<(), Defect> {
        let (first, second) = (self.meta(0)?, self.meta(1)?);
        let newest = match first.transaction < second.transaction {
            true => second,
            false => first,
        };
        if (newest.free.flags, newest.table.flags) != (FREE_FLAGS, 0) {
            return Err(Defect::Wrong("its trees are of another kind"));
        }
        (self.last, self.transaction) = (newest.last, newest.transaction);
        for tree in [newest.table, newest.free] {
            self.before = None;
            if tree.root != NO_PAGE {
                self.tree(tree.kind, tree.root, tree.depth)?;
            }
        }
        Ok(())
    }

    fn meta(&self, number: u64) -> Result<Meta, Defect> {
        let page = self.page(number)?;
        let known = u16_at(&page, 10) & META != 0
            && u32_at(&page, 16) == MAGIC
            && u32_at(&page, 20) == DATA_VERSION;
        if !known {
            return Err(Defect::Wrong("it is not a state file"));
        }
        if u32_at(&page, 40) as usize != self.page_bytes {
            return Err(Defect::Wrong("its pages have another size"));
        }
        let tree = |kind, at: usize| Tree {
            kind,
            flags: u16_at(&page, at + 4),
            depth: u16_at(&page, at + 6),
            root: u64_at(&page, at + 40),
        };
        Ok(Meta {
            transaction: u64_at(&page, 144),
            last: u64_at(&page, 136),
            free: tree(TreeKind::Free, 40),
            table: tree(TreeKind::Table, 88),
        })
    }

    /// Checks a page of a tree, and all pages below it.
    fn tree(&mut self, kind: TreeKind, number: u64, depth: u16) -> Result<(), Defect> {
        if depth == 0 || depth > DEEPEST {
            return Err(Defect::Wrong("its tree is broken"));
        }
        self.see(number)?;
        let page = self.page(number)?;
        let expected = if depth == 1 { LEAF } else { BRANCH };
        if u64_at(&page, 0) != number || u16_at(&page, 10) != expected {
            return Err(Defect::Wrong("a page is not what it should be"));
        }
        let nodes = nodes(&page, depth)?;
        if depth > 1 && nodes.len() < 2 {
            return Err(Defect::Wrong("a page leads nowhere"));
        }
        for node in nodes {
            match depth {
                1 => self.leaf(kind, &page, &node)?,
                _ => {
                    let below = u64::from(node.low) | u64::from(node.high) << 32;
                    self.tree(kind, below, depth - 1)?;
                }
            }
        }
        Ok(())
    }

    /// Checks one entry of a leaf: its value must be within the file.
    fn leaf(&mut self, kind: TreeKind, page: &[u8], node: &Node) -> Result<(), Defect> {
        let at = node.at + NODE + node.key_bytes;
        self.follow(kind, &page[node.at + NODE..at])?;
        let length = node.low as usize;
        let value = match node.high {
            0 => page[at..at + length].to_vec(),
            _ => self.overflow(u64_at(page, at), length)?,
        };
        match kind {
            TreeKind::Table => Ok(()),
            TreeKind::Free => self.free(&value),
        }
    }

    /// Checks that a key is larger than the one before.
    ///
    /// The key of a list of free pages is the number of the transaction that freed them.
    fn follow(&mut self, kind: TreeKind, key: &[u8]) -> Result<(), Defect> {
        let key = match kind {
            TreeKind::Table => key.to_vec(),
            TreeKind::Free if key.len() == 8 && u64_at(key, 0) <= self.transaction => {
                u64_at(key, 0).to_be_bytes().to_vec()
            }
            TreeKind::Free => return Err(Defect::Wrong("a list of free pages is broken")),
        };
        if self.before.as_ref().is_some_and(|before| *before >= key) {
            return Err(Defect::Wrong("its entries are out of order"));
        }
        self.before = Some(key);
        Ok(())
    }

    /// Reads a value on overflow pages.
    fn overflow(&mut self, number: u64, length: usize) -> Result<Vec<u8>, Defect> {
        let cut = Err(Defect::Wrong("a long entry is cut off"));
        let first = self.page(number)?;
        let pages = u64::from(u32_at(&first, 12));
        let needed = (HEADER + length).div_ceil(self.page_bytes) as u64;
        let end = number.saturating_add(pages);
        if u64_at(&first, 0) != number || u16_at(&first, 10) != OVERFLOW {
            return cut;
        }
        if pages < needed || end > self.count {
            return cut;
        }
        for number in number..end {
            self.see(number)?;
        }
        let mut value = vec![0; length];
        let at = number * self.page_bytes as u64 + HEADER as u64;
        self.file
            .read_exact_at(&mut value, at)
            .map_err(Defect::Io)?;
        Ok(value)
    }

    /// Checks a list of free pages: their count, then their numbers, largest first.
    fn free(&mut self, list: &[u8]) -> Result<(), Defect> {
        let broken = Err(Defect::Wrong("a list of free pages is broken"));
        let mut numbers = list.chunks_exact(8).map(|bytes| u64_at(bytes, 0));
        let Some(count) = numbers.next() else {
            return broken;
        };
        let Ok(count) = usize::try_from(count) else {
            return broken;
        };
        let listed: Vec<_> = numbers.take(count).collect();
        if listed.len() < count || !listed.is_sorted_by(|one, next| one > next) {
            return broken;
        }
        listed.into_iter().try_for_each(|number| self.see(number))
    }

    /// Records a page, which must not have been seen before; the first two are meta pages.
    fn see(&mut self, number: u64) -> Result<(), Defect> {
        match (2..=self.last).contains(&number) && self.seen.insert(number) {
            true => Ok(()),
            false => Err(Defect::Wrong("a page is in two places")),
        }
    }

    fn page(&self, number: u64) -> Result<Vec<u8>, Defect> {
        if number >= self.count {
            return Err(Defect::Wrong("it is cut off"));
        }
        let mut page = vec![0; self.page_bytes];
        let at = number * self.page_bytes as u64;
        self.file.read_exact_at(&mut page, at).map_err(Defect::Io)?;
        Ok(page)
    }
}

/// Returns the entries of a page, which fill its end without a gap.
fn nodes(page: &[u8], depth: u16) -> Result<Vec<Node>, Defect> {
    let bounds = [u16_at(page, 12), u16_at(page, 14)];
    let [lower, upper] = bounds.map(usize::from);
    if lower <= HEADER || lower % 2 == 1 || lower > upper || upper > page.len() {
        return Err(Defect::Wrong("a page's bounds are wrong"));
    }
    let outside = Err(Defect::Wrong("an entry is outside its page"));
    let mut nodes = Vec::new();
    let mut ranges = Vec::new();
    for pointer in (HEADER..lower).step_by(2) {
        let at = usize::from(u16_at(page, pointer));
        if at < upper || at + NODE > page.len() {
            return outside;
        }
        let node = Node {
            at,
            key_bytes: usize::from(u16_at(page, at + 6)),
            low: u32_at(page, at),
            high: u16_at(page, at + 4),
        };
        let value_bytes = match (depth, node.high) {
            (1, 0) => node.low as usize,
            (1, BIG) => 8,
            (1, _) => return Err(Defect::Wrong("an entry is of another kind")),
            _ => 0,
        };
        let bytes = NODE + node.key_bytes + value_bytes;
        ranges.push((at, at + bytes.next_multiple_of(2)));
        nodes.push(node);
    }
    ranges.sort_unstable();
    let mut end = upper;
    for (from, to) in ranges {
        if from != end {
            return outside;
        }
        end = to;
    }
    match end == page.len() {
        true => Ok(nodes),
        false => outside,
    }
}

fn u16_at(page: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([page[at], page[at + 1]])
}

fn u32_at(page: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(std::array::from_fn(|byte| page[at + byte]))
}

fn u64_at(page: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(std::array::from_fn(|byte| page[at + byte]))
}
