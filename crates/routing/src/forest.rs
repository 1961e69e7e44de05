//! A forest of small decision trees over the features, for what a linear score cannot express.
//!
//! `forest.bin`, written by `train/train.py`, all numbers little-endian: the magic `SLRF`, the version
//! and the number of features as bytes, the number of trees as two bytes, the worth of one unit of a
//! leaf as a 32-bit float; then per tree its number of nodes as two bytes and the nodes of four bytes.
//! A node is a feature, the highest of 256 steps of it that goes left, and the index of the right
//! branch in the tree; the left branch follows. A leaf has [`LEAF`] for a feature, then its value as a
//! signed byte.

use std::sync::LazyLock;

use crate::features::NAMES;

const BYTES: &[u8] = include_bytes!("forest.bin");
const HEADER: [u8; 6] = [b'S', b'L', b'R', b'F', 1, NAMES.len() as u8];
/// Marks a leaf in the feature byte of a node.
const LEAF: u8 = 255;

type Node = [u8; 4];

/// Number of trees that are descended together: each step waits for memory, and they wait at once.
const ABREAST: usize = 8;

#[derive(Default)]
struct Forest {
    scale: f32,
    /// All trees, one after the other. The right branch of a leaf is the leaf itself.
    nodes: Vec<Node>,
    /// The indices at which trees begin.
    roots: Vec<u16>,
}

static FOREST: LazyLock<Forest> =
    // A build with a broken file passes no test; without trees the linear score alone decides.
    LazyLock::new(|| read(BYTES).unwrap_or_default());

/// Returns the sum that all trees add to the logit.
pub(crate) fn predict(values: &[f32; NAMES.len()]) -> f32 {
    let forest = &*FOREST;
    let mut steps = [0; 256];
    for (step, value) in steps.iter_mut().zip(values) {
        *step = (value * 255.0 + 0.5) as u8;
    }
    let sum: i32 = forest.roots.chunks(ABREAST).map(|roots| descend(forest, roots, &steps)).sum();
    forest.scale * sum as f32
}

/// Returns the sum of the leaves that a few trees end in.
fn descend(forest: &Forest, roots: &[u16], steps: &[u8; 256]) -> i32 {
    let mut places = [0; ABREAST];
    let places = &mut places[..roots.len()];
    places.copy_from_slice(roots);
    loop {
        let mut arrived = true;
        for at in places.iter_mut() {
            let [feature, most, low, high] = forest.nodes[usize::from(*at)];
            let goes_left = feature != LEAF && steps[usize::from(feature)] <= most;
            *at = if goes_left { *at + 1 } else { u16::from_le_bytes([low, high]) };
            arrived &= feature == LEAF;
        }
        if arrived {
            break;
        }
    }
    places.iter().map(|at| i32::from(forest.nodes[usize::from(*at)][1].cast_signed())).sum()
}

/// Reads a forest; `None` if the bytes are no forest for these features.
fn read(bytes: &[u8]) -> Option<Forest> {
    let rest = bytes.strip_prefix(&HEADER)?;
    let (count, rest) = rest.split_first_chunk()?;
    let (scale, mut rest) = rest.split_first_chunk()?;
    let mut forest = Forest { scale: f32::from_le_bytes(*scale), ..Forest::default() };
    for _ in 0..u16::from_le_bytes(*count) {
        let (size, after) = rest.split_first_chunk()?;
        let (tree, after) = after.split_at_checked(4 * usize::from(u16::from_le_bytes(*size)))?;
        forest.plant(tree.as_chunks::<4>().0)?;
        rest = after;
    }
    rest.is_empty().then_some(forest)
}

impl Forest {
    fn plant(&mut self, tree: &[Node]) -> Option<()> {
        if !sound(tree) {
            return None;
        }
        // All indices must fit into two bytes, or else the forest is refused.
        u16::try_from(self.nodes.len() + tree.len()).ok()?;
        let root = self.nodes.len() as u16;
        for (at, &[feature, value, low, high]) in (root..).zip(tree) {
            let right = if feature == LEAF { at } else { root + u16::from_le_bytes([low, high]) };
            let [low, high] = right.to_le_bytes();
            self.nodes.push([feature, value, low, high]);
        }
        self.roots.push(root);
        Some(())
    }
}

/// Whether every branch leads onwards inside the tree, so that a descent ends.
fn sound(tree: &[Node]) -> bool {
    let leads_on = |(at, node): (usize, &Node)| {
        let right = usize::from(u16::from_le_bytes([node[2], node[3]]));
        node[0] == LEAF
            || (usize::from(node[0]) < NAMES.len() && at + 1 < right && right < tree.len())
    };
    !tree.is_empty() && tree.iter().enumerate().all(leads_on)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_forest_is_whole_and_small() {
        let forest = read(BYTES).expect("forest.bin is readable");
        assert!(!forest.roots.is_empty() && forest.scale > 0.0);
        assert!(BYTES.len() <= 100 * 1024);
    }

    /// Pins the values that a reader of the file in another language computes. New coefficients change
    /// them.
    #[test]
    fn the_shipped_forest_answers_as_it_was_written() {
        for (value, expected) in [(0.0, 0.0811), (0.5, -0.6796), (1.0, -0.0928)] {
            let found = predict(&[value; NAMES.len()]);
            assert!((found - expected).abs() < 0.001, "{value}: {found}");
        }
    }

    #[test]
    fn broken_forests_are_refused() {
        assert!(read(&BYTES[..BYTES.len() - 1]).is_none());
        assert!(read(&[BYTES, &[0]].concat()).is_none());
        let mut other_version = BYTES.to_vec();
        other_version[4] += 1;
        assert!(read(&other_version).is_none());
        let leaf = [LEAF, 3, 0, 0];
        assert!(sound(&[[0, 9, 2, 0], leaf, leaf]));
        assert!(!sound(&[[0, 9, 0, 0], leaf, leaf]), "a branch that leads back");
        assert!(!sound(&[[0, 9, 3, 0], leaf, leaf]), "a branch that leads out");
    }

    #[test]
    fn branches_are_taken_by_the_step_of_a_feature() {
        let mut forest = Forest::default();
        for _ in 0..2 {
            forest.plant(&[[1, 100, 2, 0], [LEAF, 5, 0, 0], [LEAF, 251, 0, 0]]).unwrap();
        }
        forest.plant(&[[LEAF, 2, 0, 0]]).unwrap();
        let mut steps = [0; 256];
        steps[1] = 100;
        assert_eq!(descend(&forest, &forest.roots, &steps), 5 + 5 + 2);
        steps[1] = 101;
        assert_eq!(descend(&forest, &forest.roots, &steps), -5 - 5 + 2);
    }
}
