//! A forest of small decision trees over the features, for what a linear score cannot express.
//!
//! `forest.bin`, written by `train/train.py`, all numbers little-endian: the magic `SLRF`, the version
//! and the number of features as bytes, the number of trees as two bytes, the worth of one unit of a
//! leaf as a 32-bit float; then per tree its number of nodes as two bytes and the nodes of four bytes.
//! A node is a feature, the highest of 256 steps of it that goes left, and the index of the right
//! branch in the tree; the left branch follows. A leaf has [`LEAF`] for a feature, then its value as a
//! signed byte.
//!
//! A descent has no test for leaves: a leaf leads to itself, by a step that no value goes under, so trees
//! are descended until nothing moves.

use std::sync::LazyLock;

use crate::features::NAMES;

const BYTES: &[u8] = include_bytes!("forest.bin");
const HEADER: [u8; 6] = [b'S', b'L', b'R', b'F', 1, NAMES.len() as u8];
/// Marks a leaf in the feature byte of a node.
const LEAF: u8 = 255;

/// A node of the file: the feature, its highest step that goes left, the index of the right branch.
type Node = [u8; 4];

/// Number of trees that are descended together: each step waits for memory, and they wait at once.
const ABREAST: usize = 8;

#[derive(Default)]
struct Forest {
    scale: f32,
    /// All trees, one after the other.
    nodes: Vec<Node>,
    /// The value of each node that is a leaf, at the index of the node.
    values: Vec<i8>,
    groups: Vec<Group>,
}

/// Trees that are descended together.
#[derive(Default)]
struct Group {
    /// The indices at which the trees begin.
    roots: [u16; ABREAST],
    /// The number of trees; the other roots are those of the first.
    count: usize,
}

static FOREST: LazyLock<Forest> =
    // A build with a broken file passes no test; without trees the linear score alone decides.
    LazyLock::new(|| read(BYTES).unwrap_or_default());

/// Returns the sum that all trees add to the logit.
pub(crate) fn predict(values: &[f32; NAMES.len()]) -> f32 {
    let forest = &*FOREST;
    let mut steps = [u8::MAX; 256];
    for (step, value) in steps.iter_mut().zip(values) {
        *step = (value * 255.0 + 0.5) as u8;
    }
    forest.scale * forest.sum(&steps) as f32
}

/// Reads a forest; `None` if the bytes are no forest for these features.
fn read(bytes: &[u8]) -> Option<Forest> {
    let rest = bytes.strip_prefix(&HEADER)?;
    let (count, rest) = rest.split_first_chunk()?;
    let (scale, mut rest) = rest.split_first_chunk()?;
    let mut forest = Forest { scale: f32::from_le_bytes(*scale), ..Forest::default() };
    let mut trees = Vec::new();
    for _ in 0..u16::from_le_bytes(*count) {
        let (size, after) = rest.split_first_chunk()?;
        let (tree, after) = after.split_at_checked(4 * usize::from(u16::from_le_bytes(*size)))?;
        trees.push(tree.as_chunks::<4>().0);
        rest = after;
    }
    if !rest.is_empty() || !trees.iter().all(|tree| sound(tree)) {
        return None;
    }
    // Trees of one depth are done at once.
    trees.sort_by_key(|tree| depth(tree));
    for tree in trees {
        forest.plant(tree)?;
    }
    Some(forest)
}

/// The number of steps from the root of a sound tree to its farthest leaf.
fn depth(tree: &[Node]) -> usize {
    let mut depths = vec![0; tree.len()];
    for (at, node) in tree.iter().enumerate().filter(|(_, node)| node[0] != LEAF) {
        // Branches lead onwards, so the depth of the node itself is known by now.
        for branch in [at + 1, usize::from(u16::from_le_bytes([node[2], node[3]]))] {
            depths[branch] = depths[branch].max(depths[at] + 1);
        }
    }
    depths.into_iter().max().unwrap_or(0)
}

impl Forest {
    /// Adds a sound tree.
    fn plant(&mut self, tree: &[Node]) -> Option<()> {
        // All indices must fit into two bytes, or else the forest is refused.
        u16::try_from(self.nodes.len() + tree.len()).ok()?;
        let root = self.nodes.len() as u16;
        for (at, &[feature, value, low, high]) in (root..).zip(tree) {
            let is_leaf = feature == LEAF;
            let right = if is_leaf { at } else { root + u16::from_le_bytes([low, high]) };
            let [low, high] = right.to_le_bytes();
            self.nodes.push([feature, if is_leaf { 0 } else { value }, low, high]);
            self.values.push(if is_leaf { value.cast_signed() } else { 0 });
        }
        if self.groups.last().is_none_or(|group| group.count == ABREAST) {
            self.groups.push(Group { roots: [root; ABREAST], ..Group::default() });
        }
        let group = self.groups.last_mut()?;
        group.roots[group.count] = root;
        group.count += 1;
        Some(())
    }

    /// Returns the sum of the leaves that all trees end in. `steps` has the step of each feature, and
    /// the highest step for [`LEAF`].
    fn sum(&self, steps: &[u8; 256]) -> i32 {
        self.groups.iter().map(|group| self.descend(group, steps)).sum()
    }

    fn descend(&self, group: &Group, steps: &[u8; 256]) -> i32 {
        let mut places = group.roots;
        loop {
            let before = places;
            for at in &mut places {
                let [feature, most, low, high] = self.nodes[usize::from(*at)];
                let left = *at + 1;
                let right = u16::from_le_bytes([low, high]);
                *at = if steps[usize::from(feature)] <= most { left } else { right };
            }
            if places == before {
                break;
            }
        }
        let leaves = places.iter().take(group.count);
        leaves.map(|at| i32::from(self.values[usize::from(*at)])).sum()
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
        assert!(!forest.groups.is_empty() && forest.scale > 0.0);
        assert!(BYTES.len() <= 100 * 1024);
    }

    /// Pins the values that a reader of the file in another language computes. New coefficients change
    /// them.
    #[test]
    fn the_shipped_forest_answers_as_it_was_written() {
        for (value, expected) in [(0.0, 0.1418), (0.5, -0.7404), (1.0, -0.1780)] {
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
        let mut steps = [u8::MAX; 256];
        steps[1] = 100;
        assert_eq!(forest.sum(&steps), 5 + 5 + 2);
        steps[1] = 101;
        assert_eq!(forest.sum(&steps), -5 - 5 + 2);
    }
}
