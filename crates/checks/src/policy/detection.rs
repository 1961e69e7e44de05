//! The findings of the detectors in a text as it stands.

use std::borrow::Cow;
use std::ops::Range;

use domain::safety::{Category, Origin};

use crate::pattern::watch::{PatternList, Watch};
use crate::pii;
use crate::pii::kinds::{is_high_sensitivity, is_kind};
use crate::policy::compiled::{MAX_MATCHES, Policy};
use crate::report::Finding;
use crate::scan::Scan;
use crate::secrets;
use crate::secrets::secret::Secret;
use crate::text::normalize::Normalized;

impl Policy {
    /// Credentials and personal data that stand in a text as they are, in no order.
    pub(super) fn leaks_in(
        &self,
        normalized: &Normalized<'_>,
        scan: &Scan,
        room: usize,
        watch: &Watch<'_>,
    ) -> Vec<Finding> {
        let secrets = secrets::find(&normalized.text, scan, room, watch);
        let mut found = self.personal(normalized, scan, &secrets, room, watch);
        let secret = |s: Secret| {
            finding(normalized, Category::Secret, Cow::Borrowed(s.kind), s.bytes, s.score)
        };
        found.extend(secrets.into_iter().map(secret));
        found
    }

    /// Personal data of all kinds. What the crate knows is left out where a credential was found; what the
    /// project asks for is not.
    fn personal(
        &self,
        normalized: &Normalized<'_>,
        scan: &Scan,
        secrets: &[Secret],
        room: usize,
        watch: &Watch<'_>,
    ) -> Vec<Finding> {
        let text = normalized.text.as_ref();
        let pii = |kind, bytes, score| finding(normalized, Category::Pii, kind, bytes, score);
        let mut found: Vec<Finding> = pii::find(text, scan, room, watch)
            .into_iter()
            .filter(|entity| {
                let overlaps = |secret: &Secret| {
                    secret.bytes.start < entity.bytes.end && entity.bytes.start < secret.bytes.end
                };
                !secrets.iter().any(overlaps) && self.wants(entity.kind)
            })
            .map(|entity| pii(Cow::Borrowed(entity.kind), entity.bytes, entity.score))
            .collect();
        let known = found.len();
        let own = self.recognizers.find(text, watch).filter(|own| self.wants(own.name));
        found.extend(own.map(|own| pii(Cow::Owned(own.name.to_owned()), own.bytes, own.score)));
        if found.len() > known {
            // Among equal ranges, the project's own stays.
            found.rotate_left(known);
            drop_contained(&mut found);
        }
        found
    }

    fn wants(&self, kind: &str) -> bool {
        let list = self.safety.pii_entities.as_ref();
        list.is_none_or(|list| list.iter().any(|name| is_kind(name, kind)))
    }

    pub(super) fn rules(&self, text: &str, watch: &Watch<'_>, findings: &mut Vec<Finding>) {
        for (index, (rule, pattern)) in self.safety.rules.iter().zip(&self.patterns).enumerate() {
            let found = watch.search(PatternList::Rules, index, || {
                pattern.first(MAX_MATCHES, text, &mut watch.budget(text.len()))
            });
            findings.extend(found.into_iter().flatten().map(|range| Finding {
                category: Category::Policy,
                kind: Cow::Owned(rule.name.clone()),
                part: 0,
                origin: Origin::Other,
                start: 0,
                end: 0,
                bytes: range,
                score: rule.weight.clamp(0.0, 1.0),
                high_sensitivity: false,
                held: false,
            }));
        }
    }
}

/// Leaves out what lies within another one, so that no part of a longer value hides the rest of it. Those
/// that only overlap stay: both are to be replaced.
fn drop_contained(findings: &mut Vec<Finding>) {
    findings.sort_by_key(|f| (f.bytes.start, std::cmp::Reverse(f.bytes.end)));
    let mut reached = 0;
    findings.retain(|f| {
        let stands = f.bytes.end > reached;
        reached = reached.max(f.bytes.end);
        stands
    });
}

pub(super) fn finding(
    normalized: &Normalized<'_>,
    category: Category,
    kind: Cow<'static, str>,
    bytes: Range<usize>,
    score: f64,
) -> Finding {
    let high_sensitivity = category == Category::Pii && is_high_sensitivity(&kind);
    Finding {
        category,
        kind,
        part: 0,
        origin: Origin::Other,
        start: 0,
        end: 0,
        bytes: normalized.original(bytes),
        score,
        high_sensitivity,
        held: false,
    }
}
