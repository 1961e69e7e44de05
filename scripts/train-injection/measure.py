"""Figures that mean something: every text is judged by a model that has seen neither it nor anything like it."""

import numpy as np

from model import fit, quantised

FOLDS, SEEDS = 10, (0, 1, 2)
RATES = (0.005, 0.01, 0.05)


def recall(attacks, ordinary, rate):
    """The share of attacks above the threshold that so many ordinary texts pass."""
    cut = np.sort(ordinary)[::-1][int(rate * len(ordinary))]
    return float((attacks > cut).mean())


def area(attacks, ordinary):
    """The chance that an attack scores above an ordinary text."""
    ordinary = np.sort(ordinary)
    below = np.searchsorted(ordinary, attacks) + np.searchsorted(ordinary, attacks, "right")
    return float(below.mean() / 2 / len(ordinary))


class Measure:
    """A corpus, cut into folds that keep near-duplicates together."""

    def __init__(self, corpus):
        self.corpus = corpus
        self.ours = np.flatnonzero(corpus.source == "own")
        self.theirs = np.flatnonzero(corpus.source != "own")
        self.ordinary = np.flatnonzero(~corpus.attack & (corpus.source != "own"))
        self.explicit = np.flatnonzero(corpus.attack & (corpus.tier == "explicit") & (corpus.source != "own"))
        self.group = corpus.groups()

    def folds(self, seed):
        return np.random.RandomState(seed).randint(0, FOLDS, self.group.max() + 1)[self.group]

    def learn(self, kept):
        """A model of those of the collections' texts that are kept, and of our own."""
        ids = self.theirs[kept[self.theirs] & self.corpus.may_teach[self.theirs]]
        return quantised(fit(self.corpus, np.concatenate([ids, self.ours])))[0]

    def out_of_fold(self, seed):
        """The evidence of every text, by a model that has not seen its fold."""
        fold, evidence = self.folds(seed), np.zeros(len(self.corpus.texts))
        for number in range(FOLDS):
            model = self.learn(fold != number)
            ids = self.theirs[fold[self.theirs] == number]
            evidence[ids] = model.evidence(self.corpus, ids)
        return evidence

    def families(self, rate=0.01):
        """Recall on each family of attacks that was left out, thresholds from ordinary texts that were left out too."""
        fold, found = self.folds(0), {}
        for family in sorted(set(self.corpus.family[self.explicit])):
            ids = self.explicit[self.corpus.family[self.explicit] == family]
            shares = []
            for half in (0, 1):
                unseen = self.ordinary[fold[self.ordinary] % 2 == half]
                kept = self.corpus.family != family
                kept[unseen] = False
                model = self.learn(kept)
                shares.append(recall(model.evidence(self.corpus, ids), model.evidence(self.corpus, unseen), rate))
            found[family] = (len(ids), float(np.mean(shares)))
        return found

    def strange_sources(self, cut):
        """The share of each source of ordinary texts above a threshold, when the model has seen none of that source."""
        found = {}
        for source in sorted(set(self.corpus.source[self.ordinary])):
            ids = self.ordinary[self.corpus.source[self.ordinary] == source]
            model = self.learn(self.corpus.source != source)
            found[source] = (len(ids), float((model.evidence(self.corpus, ids) > cut).mean()))
        return found


def calibrated(ordinary):
    """Pairs of evidence and score, from the evidence of ordinary texts that the model has not seen: which share of them
    reaches a score is what the score means."""
    rates = {0.01: 0.6, 0.1: 0.05, 0.2: 0.018, 0.5: 0.006, 0.7: 0.002}
    points = [(float(np.quantile(ordinary, 1 - rate)), score) for score, rate in rates.items()]
    last, step = points[-1][0], max(0.7, (points[-1][0] - points[-2][0]))
    return points + [(last + step, 0.85), (last + 2.5 * step, 0.95), (last + 6 * step, 0.99)]


def scores(curve, evidence):
    """The score of each evidence, as the gateway reads the curve."""
    at, to = zip(*curve)
    return np.interp(evidence, at, to, left=0.0)
