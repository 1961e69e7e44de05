//! The intent of a prompt: that of the highest-scoring cues.

use domain::tier::Intent;

use crate::features::Features;
use crate::lexicon::{Group, Heard};

/// Instructions stand at the edges of a prompt; what lies between is mostly material.
const CUE_EDGE_BYTES: usize = 160;

/// Counts the cues of each intent.
pub(crate) struct Vote {
    scores: [f32; Intent::ALL.len()],
    length: usize,
}

impl Vote {
    pub(crate) fn new(length: usize) -> Self {
        Self { scores: [0.0; Intent::ALL.len()], length }
    }

    pub(crate) fn count(&mut self, heard: &Heard) {
        let Some(intent) = heard.intent else { return };
        let weight = match heard.at {
            0..8 => 4.0,
            8..CUE_EDGE_BYTES => 2.0,
            at if at + CUE_EDGE_BYTES >= self.length => 1.5,
            _ => 0.5,
        };
        self.scores[intent as usize] += weight;
    }

    pub(crate) fn decide(&self, features: &Features) -> Intent {
        let small_talk = self.scores[Intent::Chat as usize] > 0.0 && features.words <= 8;
        let best = Intent::ALL
            .iter()
            .filter(|&&intent| intent != Intent::Chat || small_talk)
            .max_by(|a, b| self.score(**a).total_cmp(&self.score(**b)));
        match best {
            Some(&intent) if self.score(intent) >= 1.5 => intent,
            _ if features.counts.code >= 12 => Intent::Code,
            _ if features.counts.questions > 0 || subject(features) => Intent::Answer,
            _ if features.heard(Group::Build) > 0 => Intent::Generate,
            _ => Intent::Other,
        }
    }

    fn score(&self, intent: Intent) -> f32 {
        self.scores[intent as usize]
    }
}

/// Whether the prompt is about some field of knowledge, so that it asks for an answer.
fn subject(features: &Features) -> bool {
    const SUBJECTS: [Group; 7] = [
        Group::Proof,
        Group::Reason,
        Group::Quantity,
        Group::Maths,
        Group::Science,
        Group::Medicine,
        Group::Law,
    ];
    SUBJECTS.iter().any(|&group| features.heard(group) > 0)
}
