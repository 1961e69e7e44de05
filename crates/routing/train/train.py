#!/usr/bin/env python3
"""Fits the complexity score and writes weights.rs, forest.bin, subjects.bin and kinds.bin in ../src. Needs numpy and
scikit-learn, which brings scipy.

    cargo build --release -p routing --example features
    train.py --data DIR --features target/release/examples/features [--evaluate] [--write]

DIR holds `dev.<source>.jsonl` with rows `prompt, source, pair, weak_ok, strong_ok` and, where it is known,
the subject `sub`: published outcomes of a weak and a strong model on the same prompts. The prompts are
not part of this repository.

Three parts, all fitted to the gain of the strong model, every source centred on its own mean (so that
they learn what makes a prompt hard, not which benchmark it is from):
- a line through the features, a ridge regression drawn not to zero but to PRIOR, what a person would
  say makes a prompt hard. Where the data is silent, or a kind of prompt was never seen, the prior holds.
- a forest of extremely randomised trees on what the line leaves. Its trees may not contradict the sign
  that RISES and FALLS give a feature: without that it wins on the kinds it has seen and loses on others.
- two tables of words: a ridge regression of the mean gain of a prompt's subject on the words that it has.
  Single outcomes are too noisy to tell what a word is worth. One is for questions with options to choose
  from; the other, for all others, is taught by all and believed less: few open prompts have a subject.

`--evaluate` prints the APGR (0.5 = random) of each source when a random twentieth of it, when a fifth of which
nothing alike is left in training, and when all of it was kept out. Prompts that are alike leave training
with their source, too.
"""
import argparse, glob, json, math, os, re, struct, subprocess
import numpy as np
from scipy import sparse
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.linear_model import Ridge

HERE = os.path.dirname(os.path.abspath(__file__))
# A gain of GAIN is worth one unit of the logit.
GAIN = 0.12
RIDGE, RIDGE_FIRM = 0.005, 0.015
TREES, LEAVES, IN_LEAF = 80, 128, 15
# Random judgements are cut into so many parts, in so many ways; the table shows the mean of these. Small
# parts, for what ships has learned from all: with fifths a model knows a fifth less than that.
PARTS, CUTS = 20, 3
# Places for words, as in words.rs. The mean of a subject is drawn to its source's as by so many prompts;
# the tables, drawn to zero by their ridge too, say less than is so: that of questions with options counts
# by more than it says. That of all others, taught by fewer subjects, counts by less.
PLACE_BITS, SUBJECT_SHRINK, SUBJECT_RIDGE, SUBJECT_TRUST, KIND_TRUST = 15, 10, 0.5, 1.5, 0.4
MAIN = ["mmlu", "gsm8k", "llmrouter_mix", "mmlu_pro", "math_l5", "rb_arc", "rb_winogrande"]
# Sources with the outcomes of one pair of models.
POOL = ["mmlu", "gsm8k", "rb_arc", "rb_mbpp", "rb_winogrande"]
PRIOR = dict(
    length=2.2, short=-1.6, number_share=0.4, numbers=0.6, maths_signs=0.8, latex=0.8, code_signs=0.9, lines=0.3,
    list_items=0.5, questions=0.1, word_length=0.6, long_words=0.8, capitalised=0.3, options=-0.2, blank=-0.2,
    quotes=-0.3, line_length=0.8, commas=0.5, sentences=0.4, sentence_length=0.3, people=0.0, single_letters=0.0,
    option_length=0.2, digits=0.0, two_options=1.3, program=2.0, any_number=0.8, conversation=0.8,
    tools=0.8, proof=3.4, reason=1.3, condition=0.8, constraint=0.6, negation=0.2, quantity=0.8, sequence=0.4, build=1.8, task=-1.6, everyday=-1.2,
    maths=0.8, science=1.2, technical=1.8, law=0.6, medicine=0.4, humanities=-0.2, business=0.8, persona=-2.0,
    formal_maths=1.4)
# Everyday instructions, of which this share is called complex at the default threshold. It was 0.45 before material
# was discounted; what that saves of short tasks is given back to short hard questions.
OPEN_ENDED, COMPLEX_SHARE = "alpaca_eval", 0.48
# The outcomes are mostly of exam questions: what matters in open-ended requests is held to the prior.
FIRM = {
    "short", "reason", "constraint", "build", "task", "everyday", "technical", "code_signs", "list_items", "science",
    "business", "sequence", "latex", "maths"}
# Held at the prior. No training prompt has a conversation or tools around it or asks for a proof; within
# competition maths the strong model helps least where it is hardest, which says nothing of a cheap one;
# what sets whole sources apart from others is lost when each is centred (two_options and program put the
# sources of one pair of models in the order of their gaps); and no source asks for a part to be played.
# That cheap models keep up in role play, and fall behind in mathematics, reasoning and programs, is what MT-Bench found by category (Zheng et al. 2023, arXiv 2306.05685).
FIXED = {
    "conversation", "tools", "proof", "formal_maths", "two_options", "program", "any_number", "persona"}
RISES = {
    "length", "line_length", "commas", "sentences", "sentence_length", "reason", "build", "constraint", "quantity", "proof",
    "code_signs", "negation", "numbers", "technical", "list_items", "questions", "sequence", "any_number"}
FALLS = {"task", "everyday", "short", "persona"}


def load(data):
    rows = []
    for path in sorted(glob.glob(os.path.join(data, "dev.*.jsonl"))):
        rows += [json.loads(line) for line in open(path, encoding="utf-8")]
    return rows


def measure(features, prompts):
    framed = b"".join(b"%d\n%s\n" % (len(t), t) for t in (p.encode() for p in prompts))
    out = subprocess.run([features], input=framed, capture_output=True, check=True).stdout.decode().splitlines()
    assert out[0].split() == list(PRIOR), "the features have changed"
    values, places = zip(*(line.split("|") for line in out[1:]))
    places = [np.array(line.split(), dtype=int) for line in places]
    count = np.array([len(p) for p in places])
    words = sparse.csr_matrix(
        (np.repeat(1 / np.sqrt(np.maximum(count, 1)), count), np.concatenate(places), np.append(0, count.cumsum())),
        shape=(len(places), 1 << PLACE_BITS))
    return np.array([[float(v) for v in line.split()] for line in values]), words


def own_prompts(name):
    """Prompts written for this project, with whether they should be called complex."""
    lines = open(os.path.join(HERE, name), encoding="utf-8").read().splitlines()
    lines = [line for line in lines if line[0] in "+-"]
    return [line[2:] for line in lines], np.array([line[0] == "+" for line in lines])


class Prompts:
    def __init__(self, x, words):
        self.x, self.words, self.names = x, words, list(PRIOR)
        self.steps = np.floor(x * 255 + 0.5)
        # Options to choose from, as the classifier counts them.
        options = np.expm1(x[:, self.names.index("options")] * math.log1p(10))
        self.trust = np.where(options >= 1.5, 1.0, 0.5)
        self.choice = options >= 2.5


class Data(Prompts):
    def __init__(self, rows, x, words):
        super().__init__(x, words)
        self.y = np.array([r["strong_ok"] - r["weak_ok"] for r in rows])
        self.source = np.array([r["source"] for r in rows])
        self.sources = sorted(set(self.source))
        alike = [re.sub("[^a-z0-9]", "", re.sub(r"## question:|^\s*q:", "", r["prompt"].lower()))[:60] for r in rows]
        self.group = np.unique(alike, return_inverse=True)[1]
        self.fold = np.random.RandomState(0).randint(0, 5, self.group.max() + 1)[self.group]
        self.subject = np.unique([f"{r['source']}|{r.get('sub')}" for r in rows], return_inverse=True)[1]
        # Sources of different size get the weight of their square root.
        size = {s: (self.source == s).sum() for s in self.sources}
        self.weight = np.array([1 / math.sqrt(size[s]) for s in self.source])

    def centred(self, values, train):
        out = np.array(values, dtype=float)
        for s in set(self.source[train]):
            out[self.source == s] -= out[(self.source == s) & train].mean(axis=0)
        return out


def line(d, train):
    """Ridge regression, drawn to the prior; in units of gain."""
    prior = GAIN * np.array([PRIOR[k] for k in d.names])
    free = np.array([k not in FIXED for k in d.names])
    ridge = np.array([RIDGE_FIRM if k in FIRM else RIDGE for k in d.names])[free]
    x, w = d.centred(d.x, train)[train], d.weight[train] / d.weight[train].sum()
    rest = d.centred(d.y, train)[train] - x @ prior
    x = x[:, free]
    out = prior.copy()
    out[free] += np.linalg.solve((x * w[:, None]).T @ x + np.diag(ridge), x.T @ (w * rest))
    return out


def forest(d, train, v):
    signs = [1 if k in RISES else -1 if k in FALLS else 0 for k in d.names]
    model = ExtraTreesRegressor(
        TREES, min_samples_leaf=IN_LEAF, max_leaf_nodes=LEAVES, max_features=0.4, random_state=0, monotonic_cst=signs)
    rest = d.centred(d.y - d.x @ v, train)
    return model.fit(d.steps[train], rest[train], sample_weight=d.weight[train])


def subjects(d, train):
    """What a word at each place says of the mean gain of a prompt's subject: where there are options to
    choose from, and elsewhere."""
    gain, of = d.centred(d.y, train)[train], d.subject[train]
    size = d.subject.max() + 1
    mean = np.bincount(of, gain, size) / (np.bincount(of, minlength=size) + SUBJECT_SHRINK)

    def table(fit, trust):
        model = Ridge(SUBJECT_RIDGE, fit_intercept=False, solver="sparse_cg", tol=1e-8)
        weight = d.weight[fit] / d.weight[fit].mean()
        return trust * model.fit(d.words[fit], mean[d.subject[fit]], sample_weight=weight).coef_

    return table(train & d.choice, SUBJECT_TRUST), table(train, KIND_TRUST)


def parts(p, v, trees, worth):
    """What each part adds to the score. A subject adds one unit of the logit at most: kinds of prompts
    that the tables were not fitted to have the words, too."""
    subject = np.where(p.choice, *(p.words @ table for table in worth))
    return np.array([p.x @ v, p.trust * trees.predict(p.steps), np.clip(subject, -GAIN, GAIN)])


def apgr(score, y, w=None):
    """Area under the recovered share of the gap against the share sent to the strong model, and the
    share that recovers half of the gap."""
    order = np.argsort(-score, kind="stable")
    w = (np.ones(len(y)) if w is None else w)[order]
    share, gain = w / w.sum(), w * y[order]
    done = gain.cumsum() / gain.sum()
    return (share * (done - gain / gain.sum() / 2)).sum(), share.cumsum()[np.argmax(done >= 0.5)]


def evaluate(d):
    inside, outside = np.zeros((2, 3, len(d.y)))
    cuts = [np.random.RandomState(seed).randint(0, PARTS, len(d.y)) for seed in range(1, 1 + CUTS)]
    chance = np.zeros((CUTS, 3, len(d.y)))

    def judge(out, train, test):
        v = line(d, train)
        out[:, test] = parts(d, v, forest(d, train, v), subjects(d, train)).cumsum(axis=0)[:, test]

    for out, part in zip(chance, cuts):
        for k in range(PARTS):
            judge(out, part != k, part == k)
    for k in range(5):
        judge(inside, d.fold != k, d.fold == k)
    for s in d.sources:
        test = d.source == s
        judge(outside, ~test & ~np.isin(d.group, d.group[test]), test)
    scores = [*chance[:, 2], *inside, *outside, d.x @ np.array(list(PRIOR.values()))]
    print(
        "| source | random twentieths: all | fold out: line | with forest | and subjects "
        "| source out: line | with forest | and subjects | prior |")
    print("|---|---|---|---|---|---|---|---|---|")
    table = {s: [apgr(a[d.source == s], d.y[d.source == s])[0] for a in scores] for s in d.sources}
    table["mean of seven"] = np.mean([table[s] for s in MAIN], axis=0)
    table["mean of all"] = np.mean([table[s] for s in d.sources], axis=0)
    pool = np.isin(d.source, POOL)
    size = {s: (d.source == s).sum() for s in POOL}
    w = np.array([1 / size[s] for s in d.source[pool]])
    pooled = [apgr(a[pool], d.y[pool], w) for a in scores]
    table["one pair, one threshold"] = [a for a, _ in pooled]
    table["share for half the gap"] = [c for _, c in pooled]
    for s, values in table.items():
        values = [np.mean(values[:CUTS]), *values[CUTS:]]
        print(f"| {s} | " + " | ".join(f"{v:.3f}" for v in values) + " |", flush=True)
    for s in ["mean of seven", "one pair, one threshold", "share for half the gap"]:
        print(f"{s}, random twentieths: {min(table[s][:CUTS]):.3f} to {max(table[s][:CUTS]):.3f}")


HEAD = """//! Coefficients of the complexity score. Written by `train/train.py`; do not edit.
//!
//! Fitted to published outcomes of weak and strong models, from `RouteLLM`'s evaluations (MMLU,
//! GSM8K), `RouterBench` (ARC, MBPP, `WinoGrande`), MMLU-Pro, `ZeroEval` (MATH level 5), `AlpacaEval` and
//! `LLMRouter`.

use crate::features::NAMES;

/// Added to every score.
pub(crate) const BIAS: f32 = {bias:.3};
/// One coefficient for each of `NAMES`.
#[rustfmt::skip]
pub(crate) const FEATURES: [f32; NAMES.len()] = [
{features}
];
"""


def nodes(tree, scale):
    """The nodes of a tree: the left branch follows its node, the right one is named."""
    out = []

    def visit(i):
        at = len(out)
        if tree.children_left[i] < 0:
            out.append(struct.pack("<BbH", 255, round(tree.value[i].item() / scale), 0))
            return
        out.append(b"")
        visit(tree.children_left[i])
        right = len(out)
        visit(tree.children_right[i])
        out[at] = struct.pack("<BBH", tree.feature[i], math.floor(tree.threshold[i]), right)

    visit(0)
    return out


def write(d, cut, v, trees, worth):
    with open(os.path.join(HERE, "..", "src", "weights.rs"), "w", encoding="utf-8") as out:
        features = "\n".join(f"    {x / GAIN:.2f}, // {k}" for k, x in zip(d.names, v))
        out.write(HEAD.format(bias=-cut / GAIN, features=features))
    trees = [t.tree_ for t in trees.estimators_]
    scale = max(np.abs(t.value[t.children_left < 0]).max() for t in trees) / 127
    with open(os.path.join(HERE, "..", "src", "forest.bin"), "wb") as out:
        out.write(b"SLRF" + struct.pack("<BBHf", 1, len(d.names), len(trees), scale / len(trees) / GAIN))
        for t in trees:
            packed = nodes(t, scale)
            out.write(struct.pack("<H", len(packed)) + b"".join(packed))
    for name, table in zip(["subjects.bin", "kinds.bin"], worth):
        scale = np.abs(table).max() / 127
        with open(os.path.join(HERE, "..", "src", name), "wb") as out:
            out.write(b"SLRS" + struct.pack("<BBf", 1, PLACE_BITS, scale / GAIN))
            out.write(np.round(table / scale).astype(np.int8).tobytes())


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--data", required=True)
    ap.add_argument("--features", required=True)
    ap.add_argument("--evaluate", action="store_true")
    ap.add_argument("--write", action="store_true")
    a = ap.parse_args()
    rows = load(a.data)
    d = Data(rows, *measure(a.features, [r["prompt"] for r in rows]))
    if a.evaluate:
        evaluate(d)
    everything = np.ones(len(rows), bool)
    v = line(d, everything)
    trees, worth = forest(d, everything, v), subjects(d, everything)
    score = parts(d, v, trees, worth).sum(axis=0)
    cut = np.quantile(score[d.source == OPEN_ENDED], 1 - COMPLEX_SHARE)
    for name in ["intent.txt", "probe.txt"]:
        prompts, hard = own_prompts(name)
        own = parts(Prompts(*measure(a.features, prompts)), v, trees, worth).sum(axis=0)
        auc = np.mean([(x > z) + (x == z) / 2 for x in own[hard] for z in own[~hard]])
        right = f"{(own[hard] >= cut).mean():.0%} complex, {(own[~hard] < cut).mean():.0%} simple"
        print(f"{name}: AUC {auc:.3f}, {right}")
    if a.write:
        write(d, cut, v, trees, worth)


if __name__ == "__main__":
    main()
