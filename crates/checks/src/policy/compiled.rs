//! A project's settings, compiled, and the two questions asked of them.

use std::borrow::Cow;

use domain::safety::{Action, Category, Origin, PolicyRule, Safety};

use crate::pattern::watch::{GiveUp, PatternList, SlowPattern, Watch};
use crate::pattern::work::{ALL_PER_BYTE, ALL_UNSEEN, PER_BYTE};
use crate::pattern::{Pattern, cost_of};
use crate::pii::kinds::is_kind;
use crate::policy::{offsets, risk};
use crate::recognizers::Recognizers;
use crate::redact::json_text::Reading;
use crate::report::{Block, Finding, Part, Report, Verdict};
use crate::scan::{Scan, Scope};
use crate::text::codes;
use crate::text::normalize::Folded;
use crate::{MAX_FINDINGS, injection, pii, secrets};

/// More rules than this are refused.
pub(crate) const MAX_RULES: usize = 100;
/// A longer pattern is refused.
const MAX_PATTERN: usize = 1024;
/// Compiling was given up.
pub(crate) const TOO_LONG_TO_COMPILE: &str = "settings.safety: the patterns take too long to compile: use fewer or smaller counted repetitions";
/// How many matches of one rule are reported for one text.
pub(crate) const MAX_MATCHES: usize = 100;

/// The settings of one project, ready to judge texts. Compile once, share in an `Arc`.
#[derive(Debug)]
pub struct Policy {
    safety: Safety,
    patterns: Vec<Pattern>,
    recognizers: Recognizers,
}

/// Leaves out what is more than a request may have. Returns whether there was more: what stands behind was not judged,
/// and must not go on.
fn keep_most(findings: &mut Vec<Finding>) -> bool {
    let overflows = findings.len() > MAX_FINDINGS;
    findings.truncate(MAX_FINDINGS);
    overflows
}

fn too_many() -> Block {
    Block {
        reason: format!(
            "Blocked by safety check: more than {MAX_FINDINGS} findings in one request."
        ),
        finding: None,
    }
}

impl Policy {
    /// Compiles the rules and the recognizers. Every error names the setting it is about.
    pub fn compile(safety: &Safety) -> Result<Self, Vec<String>> {
        Self::compile_until(safety, &|| false)
    }

    /// Compiles as [`Policy::compile`] does, until `stop` answers `true`, which is an error. It is asked between patterns.
    pub fn compile_until(safety: &Safety, stop: &dyn Fn() -> bool) -> Result<Self, Vec<String>> {
        let mut errors = Vec::new();
        if safety.rules.len() > MAX_RULES {
            errors.push(format!("settings.safety.rules: at most {MAX_RULES} rules are allowed"));
        }
        let mut patterns = Vec::new();
        for (index, rule) in safety.rules.iter().take(MAX_RULES).enumerate() {
            if stop() {
                return Err(vec![TOO_LONG_TO_COMPILE.to_owned()]);
            }
            match rule_pattern(rule) {
                Ok(pattern) => patterns.push(pattern),
                Err(error) => {
                    errors.push(format!("settings.safety.rules[{index}].pattern: {error}"));
                }
            }
        }
        let streams = safety.output_pii != Action::Flag;
        match Recognizers::compile(&safety.recognizers, streams, stop) {
            Ok(recognizers) if errors.is_empty() => {
                Ok(Self { safety: safety.clone(), patterns, recognizers })
            }
            Ok(_) => Err(errors),
            Err(more) => Err([errors, more].concat()),
        }
    }

    /// As many bytes as a text of so many counts for that is judged by this project's own patterns as well, when it is asked
    /// whether a text is long.
    pub fn effort(&self, bytes: usize) -> usize {
        let own = self.recognizers.worst().saturating_add(cost_of(&self.patterns));
        // Searches are given up beyond that.
        let own = own.min(ALL_UNSEEN + ALL_PER_BYTE);
        let times = usize::try_from(own / PER_BYTE).unwrap_or(usize::MAX).saturating_add(1);
        bytes.saturating_mul(times)
    }

    /// The settings this was compiled from.
    pub fn safety(&self) -> &Safety {
        &self.safety
    }

    /// Returns the action of the settings for outputs in which something of a category is found.
    pub fn output_action(&self, category: Category) -> Action {
        match category {
            Category::Secret => self.safety.output_secrets,
            Category::Pii => self.safety.output_pii,
            Category::Injection | Category::Policy => Action::Flag,
        }
    }

    /// Whether what is found of a category in outputs is redacted or blocks them.
    pub(crate) fn acts_on(&self, category: Category) -> bool {
        self.output_action(category) != Action::Flag
    }

    /// Whether anything that is found in outputs is redacted or blocks them.
    pub fn acts_on_outputs(&self) -> bool {
        self.acts_on(Category::Secret) || self.acts_on(Category::Pii)
    }

    /// Judges all parts of one request together.
    pub fn inspect(&self, parts: &[Part<'_>]) -> Report {
        self.conclude([self.judge(parts)])
    }

    /// Judges parts that belong together, for [`Policy::conclude`].
    pub fn judge(&self, parts: &[Part<'_>]) -> Verdict {
        self.judge_until(parts, GiveUp::Never)
    }

    /// Judges parts that belong together, as long as somebody waits for the verdict.
    pub fn judge_until(&self, parts: &[Part<'_>], give_up: GiveUp<'_>) -> Verdict {
        let read = parts.iter().map(|part| (part.origin, Reading::Plain(part.text.into())));
        self.readings(read, Scope::Everything, Watch::new(give_up))
    }

    /// Judges readings that belong together, one by one, for [`Policy::conclude`]: each is let go of before the next one is
    /// made. A finding in a file has its place in the text of the file for a [`Redactor`], and that of the whole file for
    /// people.
    ///
    /// [`Redactor`]: crate::redact::redactor::Redactor
    pub fn judge_readings<'a>(
        &self,
        readings: impl IntoIterator<Item = (Origin, Reading<'a>)>,
        give_up: GiveUp<'_>,
    ) -> Verdict {
        self.readings(readings.into_iter(), Scope::Everything, Watch::new(give_up))
    }

    fn readings<'a>(
        &self,
        readings: impl Iterator<Item = (Origin, Reading<'a>)>,
        scope: Scope,
        watch: Watch<'_>,
    ) -> Verdict {
        let mut verdict = Verdict::default();
        for (origin, reading) in readings {
            if watch.is_over() {
                break;
            }
            let index = verdict.parts;
            verdict.parts += 1;
            if verdict.findings.len() > MAX_FINDINGS {
                continue;
            }
            let part = Part { origin, text: reading.text() };
            // One more than a request may have shows that there are more.
            let (mut found, suspected) = self.part(&part, scope, MAX_FINDINGS + 1, &watch);
            if let Reading::File(file) = &reading
                && !found.is_empty()
            {
                let span = file.span();
                for finding in &mut found {
                    (finding.start, finding.end) = (span.start, span.end);
                }
            }
            for finding in &mut found {
                finding.part = index;
            }
            verdict.suspicion = f64::max(verdict.suspicion, suspected);
            verdict.findings.append(&mut found);
            verdict.findings.truncate(MAX_FINDINGS + 1);
        }
        verdict.abandoned = watch.is_over();
        verdict.slow = watch.slow();
        verdict
    }

    /// Weighs the verdicts on all parts of one request, in their order. Those that stand behind more findings than a
    /// request may have are not asked for. A pattern that took too long and may forbid the request does.
    pub fn conclude(&self, verdicts: impl IntoIterator<Item = Verdict>) -> Report {
        let mut report = self.conclude_trial(verdicts);
        for slow in &report.slow {
            match slow.list {
                // It may add to what blocks: a person should look.
                PatternList::Rules if self.rule_action(slow) == Some(Action::Flag) => {
                    report.review |= report.block.is_none();
                }
                // Text that the pattern would have found must not reach a model that it may not reach.
                PatternList::Rules | PatternList::Recognizers => {
                    report.block.get_or_insert_with(|| self.took_too_long(slow));
                    report.review = false;
                }
            }
        }
        report
    }

    /// Weighs the verdicts where nothing depends on it: a pattern that took too long counts as no match.
    pub fn conclude_trial(&self, verdicts: impl IntoIterator<Item = Verdict>) -> Report {
        let (mut findings, mut suspicion, mut parts) = (Vec::new(), 0.0, 0);
        let (mut slow, mut abandoned) = (Vec::new(), false);
        for mut verdict in verdicts {
            for finding in &mut verdict.findings {
                finding.part += parts;
            }
            parts += verdict.parts;
            abandoned |= verdict.abandoned;
            suspicion = f64::max(suspicion, verdict.suspicion);
            slow.append(&mut verdict.slow);
            findings.append(&mut verdict.findings);
            if abandoned || findings.len() > MAX_FINDINGS {
                break;
            }
        }
        let overflows = keep_most(&mut findings);
        let mut report = risk::weigh(&self.safety, findings, suspicion);
        if overflows {
            report.block.get_or_insert_with(too_many);
        }
        report.abandoned = abandoned;
        slow.sort_unstable();
        slow.dedup_by_key(|slow| (slow.list, slow.index));
        report.slow = slow;
        report
    }

    /// Judges all that a model answered together: only secrets and personal data, by the actions set for outputs.
    pub fn inspect_output(&self, texts: &[&str]) -> Report {
        let read = texts.iter().map(|text| (Origin::Assistant, Reading::Plain((*text).into())));
        let verdict = self.readings(read, Scope::Leaks, Watch::new(GiveUp::Never));
        let mut report = self.conclude_output(verdict);
        if self.acts_on(Category::Pii)
            && let Some(slow) = report.slow.first()
        {
            report.block.get_or_insert_with(|| self.took_too_long(slow));
        }
        report
    }

    /// Judges an answer where nothing depends on it: a pattern that took too long counts as no match.
    pub fn try_output<'a>(
        &self,
        readings: impl IntoIterator<Item = Reading<'a>>,
        give_up: GiveUp<'_>,
    ) -> Report {
        let readings = readings.into_iter().map(|reading| (Origin::Assistant, reading));
        self.conclude_output(self.readings(readings, Scope::Leaks, Watch::new(give_up)))
    }

    fn conclude_output(&self, verdict: Verdict) -> Report {
        let Verdict { mut findings, slow, .. } = verdict;
        let overflows = keep_most(&mut findings);
        let mut report = risk::weigh_output(&self.safety, findings);
        report.slow = slow;
        if overflows && self.acts_on_outputs() {
            report.block.get_or_insert_with(too_many);
        }
        report
    }

    /// Returns the parts of a text that must not leave as they are, in order. `None` if a pattern took too long.
    pub(crate) fn leaks(&self, text: &str) -> Option<Vec<Finding>> {
        let part = Part { origin: Origin::Assistant, text };
        let watch = Watch::new(GiveUp::Never);
        let (mut found, _) = self.part(&part, Scope::Leaks, MAX_FINDINGS, &watch);
        found.retain(|finding| self.acts_on(finding.category));
        (watch.slow().is_empty() || !self.acts_on(Category::Pii)).then_some(found)
    }

    /// The name of a pattern.
    pub fn name_of(&self, slow: &SlowPattern) -> &str {
        match slow.list {
            PatternList::Rules => self.safety.rules.get(slow.index).map(|rule| &*rule.name),
            PatternList::Recognizers => {
                self.safety.recognizers.get(slow.index).map(|own| &*own.name)
            }
        }
        .unwrap_or_default()
    }

    fn rule_action(&self, slow: &SlowPattern) -> Option<Action> {
        self.safety.rules.get(slow.index).map(|rule| rule.action)
    }

    fn took_too_long(&self, slow: &SlowPattern) -> Block {
        let what = match slow.list {
            PatternList::Rules => "Policy rule",
            PatternList::Recognizers => "Recognizer",
        };
        let reason = format!("{what} '{}' took too long", self.name_of(slow));
        Block { reason, finding: None }
    }

    pub(crate) fn recognizers(&self) -> &Recognizers {
        &self.recognizers
    }

    pub(crate) fn part(
        &self,
        part: &Part<'_>,
        scope: Scope,
        room: usize,
        watch: &Watch<'_>,
    ) -> (Vec<Finding>, f64) {
        if part.text.is_empty() {
            return (Vec::new(), 0.0);
        }
        watch.allow(part.text.len());
        let folded = Folded::new(part.text);
        let text = folded.text.as_ref();
        // The system's own words are no attack: nobody looks for one.
        let system = part.origin == Origin::System;
        let mut scan = Scan::new(text, if system { Scope::Leaks } else { scope });
        if watch.is_over() {
            return (Vec::new(), 0.0);
        }
        let (mut findings, mut suspicion) = (Vec::new(), 0.0);
        if scope == Scope::Everything {
            let verdict = injection::find(&folded, &scan, part.origin);
            suspicion = verdict.score;
            findings.extend(verdict.attempts.into_iter().map(|a| {
                let score = risk::rounded(a.score);
                let kind = Cow::Borrowed(a.kind);
                let found = finding(&folded, Category::Injection, kind, a.bytes, score);
                Finding { held: a.held, ..found }
            }));
        }
        if watch.is_over() {
            return (Vec::new(), 0.0);
        }
        // A long text may be full of words that only injections are looked for by.
        scan.anchors = Vec::new();
        findings.extend(self.leaks_in(&folded, &scan, room, watch));
        codes::add(self, &folded, &scan, &mut findings, room, watch);
        if scope == Scope::Everything {
            self.rules(part.text, watch, &mut findings);
        }
        findings
            .sort_by(|a, b| a.bytes.start.cmp(&b.bytes.start).then(a.bytes.end.cmp(&b.bytes.end)));
        findings.truncate(room);
        for finding in &mut findings {
            finding.origin = part.origin;
        }
        offsets::fill(part.text, &mut findings);
        (findings, suspicion)
    }

    /// Credentials and personal data that stand in a text as they are, in no order.
    pub(crate) fn leaks_in(
        &self,
        folded: &Folded<'_>,
        scan: &Scan,
        room: usize,
        watch: &Watch<'_>,
    ) -> Vec<Finding> {
        let secrets = secrets::find(&folded.text, scan, room, watch);
        let mut found = self.personal(folded, scan, &secrets, room, watch);
        let secret = |s: secrets::Secret| {
            finding(folded, Category::Secret, Cow::Borrowed(s.kind), s.bytes, s.score)
        };
        found.extend(secrets.into_iter().map(secret));
        found
    }

    /// Personal data of all kinds. What the crate knows is left out where a credential was found; what the
    /// project asks for is not.
    fn personal(
        &self,
        folded: &Folded<'_>,
        scan: &Scan,
        secrets: &[secrets::Secret],
        room: usize,
        watch: &Watch<'_>,
    ) -> Vec<Finding> {
        let text = folded.text.as_ref();
        let pii = |kind, bytes, score| finding(folded, Category::Pii, kind, bytes, score);
        let mut found: Vec<Finding> = pii::find(text, scan, room, watch)
            .into_iter()
            .filter(|entity| {
                let overlaps = |secret: &secrets::Secret| {
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

    fn rules(&self, text: &str, watch: &Watch<'_>, findings: &mut Vec<Finding>) {
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

fn rule_pattern(rule: &PolicyRule) -> Result<Pattern, String> {
    if !matches!(rule.action, Action::Flag | Action::Block) {
        return Err("the action of a rule is `flag` or `block`".to_owned());
    }
    if rule.pattern.len() > MAX_PATTERN {
        return Err(format!("a pattern has at most {MAX_PATTERN} bytes"));
    }
    Pattern::compile(&rule.pattern)
}

fn finding(
    folded: &Folded<'_>,
    category: Category,
    kind: Cow<'static, str>,
    bytes: std::ops::Range<usize>,
    score: f64,
) -> Finding {
    let high_sensitivity = category == Category::Pii && pii::is_high_sensitivity(&kind);
    Finding {
        category,
        kind,
        part: 0,
        origin: Origin::Other,
        start: 0,
        end: 0,
        bytes: folded.original(bytes),
        score,
        high_sensitivity,
        held: false,
    }
}
