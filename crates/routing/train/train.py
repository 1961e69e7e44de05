#!/usr/bin/env python3
"""Fits the coefficients of the complexity score and writes ../src/weights.rs. Standard library only.

    cargo build --release -p routing --example features
    train.py --data DIR --features target/release/examples/features [--evaluate] [--write]

DIR holds `dev.<source>.jsonl` with rows `prompt, source, weak_ok, strong_ok`: published outcomes of a
weak and a strong model on the same prompts. The prompts are not part of this repository.

The model is a ridge regression of the gain of the strong model on the features, every source with an
intercept of its own (so that it learns what makes a prompt hard, not which benchmark it is from) and
the same weight. It is drawn not to zero but to PRIOR: what a person would say makes a prompt hard.
Where the data is silent, or a kind of prompt was never seen, the prior holds.

`--evaluate` prints the APGR (0.5 = random) of each source when a fifth of it, and when all of it, was
kept out of training.
"""
import argparse, collections, glob, json, math, os, random, subprocess, sys

HERE = os.path.dirname(os.path.abspath(__file__))
BUCKETS = 4096
# A gain of GAIN is worth one unit of the logit.
GAIN = 0.12
RIDGE = float(os.environ.get("RIDGE", 0.005))
RIDGE_WORDS = float(os.environ.get("RIDGE_WORDS", 0.12))
MAIN = ["mmlu", "gsm8k", "llmrouter_mix", "mmlu_pro", "math_l5", "rb_arc", "rb_winogrande"]
PRIOR = dict(
    length=2.2, short=-1.6, number_share=0.4, numbers=0.3, maths_signs=0.8, latex=0.8, code_signs=0.9, lines=0.3,
    list_items=0.5, questions=0.1, word_length=0.6, long_words=0.8, capitalised=0.3, options=-0.2, blank=-0.2,
    quotes=-0.3, conversation=0.8, tools=0.8, proof=2.6, reason=1.3, condition=0.8, constraint=0.6, negation=0.2, quantity=0.0,
    sequence=0.4, build=1.8, task=-1.6, everyday=-1.2, maths=1.2, science=1.2, technical=1.8, law=0.6, medicine=0.4,
    humanities=-0.2, business=0.8, formal_maths=1.2)
# Everyday instructions, of which this share is called complex at the default threshold.
OPEN_ENDED, COMPLEX_SHARE = "alpaca_eval", 0.45
# The outcomes are mostly of exam questions: what matters in open-ended requests is held to the prior.
FIRM = {
    "short", "reason", "constraint", "build", "task", "everyday", "technical", "code_signs", "list_items", "science",
    "business", "sequence", "latex", "maths"}
RIDGE_FIRM = float(os.environ.get("RIDGE_FIRM", 0.015))
# Held at the prior: the training prompts have no conversation around them and ask for no proofs;
# within competition maths the strong model helps least where it is hardest, which says nothing of a cheap one.
FIXED = {"conversation", "tools", "proof", "formal_maths"}


def load(data):
    rows = []
    for path in sorted(glob.glob(os.path.join(data, "dev.*.jsonl"))):
        rows += [json.loads(line) for line in open(path, encoding="utf-8")]
    for r in rows:
        r["y"] = r["strong_ok"] - r["weak_ok"]
    return rows


def measure(features, rows):
    framed = b"".join(b"%d\n%s\n" % (len(t), t) for t in (r["prompt"].encode() for r in rows))
    out = subprocess.run([features], input=framed, capture_output=True, check=True).stdout.decode().splitlines()
    names = out[0].split()
    assert names == list(PRIOR), "the features have changed"
    for r, line in zip(rows, out[1:], strict=True):
        values, words = line.split("|")
        r["x"] = [float(v) for v in values.split()]
        count = collections.Counter(int(w) for w in words.split())
        size = max(1, sum(count.values()))
        norm = max(math.sqrt(size), size / 10)
        r["w"] = [(b, c / norm) for b, c in count.items()]
    return names


def intent():
    """The prompts written for this project, with whether they should be called complex."""
    lines = open(os.path.join(HERE, "intent.txt"), encoding="utf-8").read().splitlines()
    return [{"prompt": line[2:], "hard": line[0] == "+"} for line in lines if line[0] in "+-"]


def separation(v, own, cut):
    """How often a hard prompt scores above an easy one, and the shares on the right side of a cut."""
    hard = [score(v, r) for r in own if r["hard"]]
    easy = [score(v, r) for r in own if not r["hard"]]
    auc = sum((a > b) + (a == b) / 2 for a in hard for b in easy) / len(hard) / len(easy)
    return auc, sum(s >= cut for s in hard) / len(hard), sum(s < cut for s in easy) / len(easy)


def fit(names, rows, words=True):
    """Conjugate gradients on the centred, weighted normal equations; starts from the prior."""
    sources = sorted({r["source"] for r in rows})
    index = {s: i for i, s in enumerate(sources)}
    size = collections.Counter(r["source"] for r in rows)
    n, d = len(names), len(names) + (BUCKETS if words else 0)
    prior = [GAIN * PRIOR[k] for k in names] + [0.0] * (d - n)
    free = [0.0 if k in FIXED else 1.0 for k in names] + [1.0] * (d - n)
    ridge = [RIDGE_FIRM if k in FIRM else RIDGE for k in names] + [RIDGE_WORDS] * (d - n)
    # Sources of different size get the weight of their square root.
    total = sum(math.sqrt(v) for v in size.values())
    weight = [math.sqrt(size[s]) / total / size[s] for s in sources]
    data = [(index[r["source"]], r["x"], r["w"] if words else [], r["y"]) for r in rows]

    def scores(v):
        return [sum(a * b for a, b in zip(x, v)) + sum(v[n + b] * c for b, c in w) for _, x, w, _ in data]

    def back(values):
        mean = [0.0] * len(sources)
        for (s, *_), value in zip(data, values):
            mean[s] += value / size[sources[s]]
        out = [0.0] * d
        for (s, x, w, _), value in zip(data, values):
            e = weight[s] * (value - mean[s])
            for j, a in enumerate(x):
                out[j] += e * a
            for b, c in w:
                out[n + b] += e * c
        return [o * f for o, f in zip(out, free)]

    residual = [y - s for (_, _, _, y), s in zip(data, scores(prior))]
    g = back(residual)
    delta = [0.0] * d
    p, rr = g[:], sum(a * a for a in g)
    for _ in range(40):
        ap = [a + f * r * b for a, f, r, b in zip(back(scores(p)), free, ridge, p)]
        alpha = rr / max(1e-30, sum(a * b for a, b in zip(p, ap)))
        delta = [a + alpha * b for a, b in zip(delta, p)]
        g = [a - alpha * b for a, b in zip(g, ap)]
        new = sum(a * a for a in g)
        if new < 1e-12:
            break
        p = [a + new / rr * b for a, b in zip(g, p)]
        rr = new
    return [a + b for a, b in zip(prior, delta)]


def score(v, r):
    n = len(r["x"])
    return sum(a * b for a, b in zip(r["x"], v)) + (sum(v[n + b] * c for b, c in r["w"]) if len(v) > n else 0)


def apgr(items):
    """Area under the recovered share of the gap against the share sent to the strong model."""
    items = sorted(items, key=lambda i: -i[0])
    n, gap = len(items), sum(y for _, y in items)
    area = sum(y * (n - k - 0.5) for k, (_, y) in enumerate(items)) / n
    return area / gap if abs(gap) > 1e-9 else None


def evaluate(names, rows, words):
    by = collections.defaultdict(list)
    for r in rows:
        by[r["source"]].append(r)
    fold = {id(r): random.Random(r["id"]).randrange(5) for r in rows}
    inside = collections.defaultdict(list)
    for k in range(5):
        v = fit(names, [r for r in rows if fold[id(r)] != k], words)
        for r in rows:
            if fold[id(r)] == k:
                inside[r["source"]].append((score(v, r), r["y"]))
    prior = [PRIOR[k] for k in names]
    table = {}
    for s in by:
        v = fit(names, [r for r in rows if r["source"] != s], words)
        table[s] = [apgr(inside[s]), apgr([(score(v, r), r["y"]) for r in by[s]]),
                    apgr([(score(prior, r), r["y"]) for r in by[s]])]
        print(f"{s:16} fold out {table[s][0]:.3f}   source out {table[s][1]:.3f}   prior {table[s][2]:.3f}")
    means = [sum(table[s][i] for s in MAIN) / len(MAIN) for i in range(3)]
    print(f"{'mean of seven':16} fold out {means[0]:.3f}   source out {means[1]:.3f}   prior {means[2]:.3f}", flush=True)


HEAD = """//! Coefficients of the complexity score. Written by `train/train.py`; do not edit.
//!
//! Fitted to published outcomes of weak and strong models, from `RouteLLM`'s evaluations (MMLU,
//! GSM8K), `RouterBench` (ARC, MBPP, `WinoGrande`), MMLU-Pro, `ZeroEval` (MATH level 5), `AlpacaEval` and
//! `LLMRouter`.

use crate::features::{{NAMES, WORD_BUCKETS}};

/// Added to every score.
pub(crate) const BIAS: f32 = {bias:.3};
/// What one unit of `WORDS` is worth.
pub(crate) const WORD_SCALE: f32 = {scale:.3e};
/// One coefficient for each of `NAMES`.
#[rustfmt::skip]
pub(crate) const FEATURES: [f32; NAMES.len()] = [
{features}
];
/// One small number for each bucket of words.
#[rustfmt::skip]
pub(crate) const WORDS: [i8; WORD_BUCKETS] = [
"""


def write(names, cut, v):
    v, n = [x / GAIN for x in v], len(names)
    scale = max(abs(x) for x in v[n:]) / 127
    wrap = lambda items: "\n".join("    " + ", ".join(items[i:i + 20]) + "," for i in range(0, len(items), 20))
    with open(os.path.join(HERE, "..", "src", "weights.rs"), "w", encoding="utf-8") as out:
        out.write(HEAD.format(
            bias=-cut, scale=scale, features="\n".join(f"    {x:.2f}, // {k}" for k, x in zip(names, v))))
        out.write(wrap([str(round(x / scale)) for x in v[n:]]) + "\n];\n")


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--data", required=True)
    ap.add_argument("--features", required=True)
    ap.add_argument("--evaluate", action="store_true")
    ap.add_argument("--no-words", action="store_true")
    ap.add_argument("--write", action="store_true")
    a = ap.parse_args()
    rows, own = load(a.data), intent()
    names = measure(a.features, rows)
    measure(a.features, own)
    if a.evaluate:
        evaluate(names, rows, not a.no_words)
    if a.write:
        v = fit(names, rows)
        calm = sorted(score(v, r) for r in rows if r["source"] == OPEN_ENDED)
        cut = calm[int((1 - COMPLEX_SHARE) * len(calm))]
        auc, hard, easy = separation(v, own, cut)
        print(f"prompts of our own: AUC {auc:.3f}, {hard:.0%} complex, {easy:.0%} simple")
        write(names, cut / GAIN, v)


if __name__ == "__main__":
    main()
