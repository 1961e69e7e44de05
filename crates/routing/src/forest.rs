//! A forest of small decision trees over the features: what a line through them cannot say.
//!
//! `forest.bin`, written by `train/train.py`, all numbers little-endian: the magic `SLRF`, the version
//! and the number of features as bytes, the number of trees as two bytes, the worth of one unit of a
//! leaf as a 32-bit float; then per tree its number of nodes as two bytes and the nodes of four bytes.
//! A node is a feature, the highest of 256 steps of it that goes left, and the place of the right
//! branch in the tree; the left branch follows. A leaf has [`LEAF`] for a feature, then its value as a
//! signed byte.

use std::sync::LazyLock;

use crate::features::NAMES;

const BYTES: &[u8] = include_bytes!("forest.bin");
const HEADER: [u8; 6] = [b'S', b'L', b'R', b'F', 1, NAMES.len() as u8];
/// Stands where a node names its feature.
const LEAF: u8 = 255;

type Node = [u8; 4];

struct Forest {
    scale: f32,
    trees: Vec<Vec<Node>>,
}

static FOREST: LazyLock<Forest> =
    // A build with a broken file passes no test; without trees the line alone decides.
    LazyLock::new(|| read(BYTES).unwrap_or(Forest { scale: 0.0, trees: Vec::new() }));

/// What all trees together add to the logit.
pub(crate) fn predict(values: &[f32; NAMES.len()]) -> f32 {
    let steps = values.map(|value| (value * 255.0 + 0.5) as u8);
    let sum: i32 = FOREST.trees.iter().map(|tree| i32::from(descend(tree, &steps))).sum();
    FOREST.scale * sum as f32
}

fn descend(tree: &[Node], steps: &[u8; NAMES.len()]) -> i8 {
    let mut at = 0;
    loop {
        let [feature, most, low, high] = tree[at];
        let Some(&step) = steps.get(usize::from(feature)) else { return most.cast_signed() };
        let right = usize::from(u16::from_le_bytes([low, high]));
        at = if step <= most { at + 1 } else { right };
    }
}

/// `None` where the bytes are no forest for these features.
fn read(bytes: &[u8]) -> Option<Forest> {
    let rest = bytes.strip_prefix(&HEADER)?;
    let (count, rest) = rest.split_first_chunk()?;
    let (scale, mut rest) = rest.split_first_chunk()?;
    let mut trees = Vec::with_capacity(usize::from(u16::from_le_bytes(*count)));
    for _ in 0..u16::from_le_bytes(*count) {
        let (size, after) = rest.split_first_chunk()?;
        let (nodes, after) = after.split_at_checked(4 * usize::from(u16::from_le_bytes(*size)))?;
        let tree = nodes.as_chunks::<4>().0.to_vec();
        if !sound(&tree) {
            return None;
        }
        trees.push(tree);
        rest = after;
    }
    rest.is_empty().then_some(Forest { scale: f32::from_le_bytes(*scale), trees })
}

/// Whether every branch leads onwards, inside of the tree: a descent ends.
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
        assert!(!forest.trees.is_empty() && forest.scale > 0.0);
        assert!(BYTES.len() <= 100 * 1024);
    }

    /// What a reader of the file in another language makes of it. New coefficients change it.
    #[test]
    fn the_shipped_forest_answers_as_it_was_written() {
        for (value, expected) in [(0.0, -0.0823), (0.5, -0.7400), (1.0, -0.2565)] {
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
        let tree = [[1, 100, 2, 0], [LEAF, 5, 0, 0], [LEAF, 251, 0, 0]];
        let mut steps = [0; NAMES.len()];
        steps[1] = 100;
        assert_eq!(descend(&tree, &steps), 5);
        steps[1] = 101;
        assert_eq!(descend(&tree, &steps), -5);
    }
}
