"""Figures that mean something: every text is judged by a model that has seen nothing of its source nor of its language."""

import random

import numpy as np

from corpus import HARD
from model import fit, quantised

FOLDS = 6
# The share of ordinary texts of unseen sources and languages that reaches a score is what the score means.
RATES_OF_SCORES = {0.01: 0.6, 0.1: 0.05, 0.2: 0.012, 0.5: 0.006, 0.7: 0.0025}
RATES = (0.003, 0.01, 0.05)


def recall(attacks, ordinary, rate):
    """The share of attacks above the threshold that so many ordinary texts pass."""
    cut = np.sort(ordinary)[::-1][int(rate * len(ordinary))]
    return float((attacks > cut).mean())


def area(attacks, ordinary):
    """The chance that an attack scores above an ordinary text."""
    ordinary = np.sort(ordinary)
    below = np.searchsorted(ordinary, attacks) + np.searchsorted(ordinary, attacks, "right")
    return float(below.mean() / 2 / len(ordinary))


def dealt(names):
    """Names, dealt out to folds."""
    names = sorted(set(names) - {""})
    random.Random(3).shuffle(names)
    return {name: number % FOLDS for number, name in enumerate(names)}


class Measure:
    """A corpus, cut into folds of whole sources and whole languages."""

    def __init__(self, corpus, models=1):
        self.corpus, self.models = corpus, models
        is_theirs = corpus.is_collected
        self.ordinary = np.flatnonzero(~corpus.attack & is_theirs & ~np.isin(corpus.kind, list(HARD)))
        self.explicit = np.flatnonzero(corpus.attack & is_theirs & (corpus.tier == "explicit"))
        self.clear = self.explicit[~corpus.unclear[self.explicit]]
        self.translated = np.flatnonzero(corpus.source == "debian")
        of_source = dealt(corpus.family[is_theirs])
        # English cannot be left out: it is nearly all there is.
        of_language = dealt(set(corpus.language[self.translated]) - {"en"})
        self.by_source = np.array([of_source.get(name, -1) for name in corpus.family])
        self.by_language = np.array([of_language.get(name, -1) for name in corpus.language])
        # What is judged by the model that has not seen it; what belongs to no source is judged by its language.
        self.judged = np.where(is_theirs, self.by_source, self.by_language)

    def left_out(self):
        """The evidence of every text, by a model that has seen neither its source nor its language."""
        unseen = lambda number: (self.by_source != number) & (self.by_language != number)
        return self.folded(FOLDS, unseen, self.judged)

    def known_sources(self):
        """The evidence of every collected text, by a model that has seen other texts of its source."""
        part = np.random.RandomState(1).randint(FOLDS, size=len(self.corpus.texts))
        part[~self.corpus.is_collected] = -1
        return self.folded(FOLDS, lambda number: part != number, part)

    def folded(self, folds, kept, judged):
        """The evidence of every text, by the model of its fold."""
        evidence = np.full(len(self.corpus.texts), np.nan)
        for number in range(folds):
            taught = np.flatnonzero(kept(number) & self.corpus.may_teach)
            model = quantised(fit(self.corpus, taught, self.models))[0]
            ids = np.flatnonzero(judged == number)
            evidence[ids] = model.evidence(self.corpus, ids)
        return evidence

    def scored(self, evidence):
        """The score of each text: the curve comes from the texts of other folds."""
        score = np.full(len(evidence), np.nan)
        for number in range(FOLDS):
            ids = self.judged == number
            score[ids] = scores(self.curve(evidence, ~ids), evidence[ids])
        return score

    def curve(self, evidence, among=True):
        """The curve from evidence to score. It comes from texts that may be learned from: measuring a source must not
        become learning from it."""
        usable = np.zeros(len(evidence), bool)
        usable[self.ordinary] = True
        return calibrated(evidence[usable & self.corpus.may_teach & among])


def calibrated(ordinary):
    """Pairs of evidence and score, from the evidence of ordinary texts of sources and languages that the model has not
    seen."""
    points = [(float(np.quantile(ordinary, 1 - rate)), score) for score, rate in RATES_OF_SCORES.items()]
    last, step = points[-1][0], max(0.7, (points[-1][0] - points[-2][0]))
    return points + [(last + step, 0.85), (last + 2.5 * step, 0.95), (last + 6 * step, 0.99)]


def scores(curve, evidence):
    """The score of each evidence, as the gateway reads the curve."""
    at, to = zip(*curve)
    return np.interp(evidence, at, to, left=0.0)
