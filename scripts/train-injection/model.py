"""The linear model: how it is fitted, what it says, how it is written."""

import struct

import numpy as np
import scipy.sparse as sparse
from sklearn.linear_model import LogisticRegression

from corpus import BUCKETS, ENOUGH, FEW, GROUND

STRENGTH = 200.0  # the inverse of the regularisation
ALPHA = 0.3  # smooths the counts that prior strengths come from
PRIOR = 0.75  # the power that prior strengths are raised to
# Rules were written by people who had seen such attacks, so their evidence is held back while the words are weighed. On
# sources that are left out they then say more than on those that are learned from.
RULES, TRUSTED = 0.5, 1.5
MODELS = 4  # whose mean is taken
ATTACKS = 0.8  # the weight of all attacks together, beside all ordinary texts
VERSION, BITS, POINTS = 5, 18, 8


class Model:
    """Weights of features, of rules, and a bias, in log odds; and which features are known words, if that counts."""

    def __init__(self, weights, rules, bias, known=None):
        self.weights, self.rules, self.bias, self.known = weights, rules, bias, known

    def stretches(self, corpus):
        count = np.diff(corpus.rows.indptr)
        each = (corpus.rows @ self.weights) * np.clip((count - FEW) / (ENOUGH - FEW), 0, 1)
        return each if self.known is None else np.where(each > 0, each * corpus.familiarity(self.known), each)

    def evidence(self, corpus, ids):
        """Of each text, that of the stretch that speaks most for an attack, and of the rules, without what is taken off
        for many stretches."""
        best = np.maximum.reduceat(self.stretches(corpus), corpus.first)[ids]
        return best + self.rules * corpus.rules[ids] + self.bias - corpus.by_chance[ids]


def fit(corpus, ids, models=MODELS):
    """The mean of some models, for each of which every text weighs more or less than it should, by chance (the Bayesian
    bootstrap of Rubin, 1981): what only a few texts say evens out. One model alone takes the weights as they are."""
    if models == 1:
        one = fit_once(corpus, ids, corpus.weight.copy())
        return Model(one.weights, one.rules, one.bias, corpus.known(ids))
    chance = np.random.RandomState(5)
    models = [fit_once(corpus, ids, corpus.weight * chance.exponential(size=len(corpus.weight))) for _ in range(models)]
    mean = lambda part: np.mean([part(model) for model in models], axis=0)
    return Model(mean(lambda m: m.weights), mean(lambda m: m.rules), mean(lambda m: m.bias), corpus.known(ids))


def fit_once(corpus, ids, weight):
    """Fits a model to some texts.

    Which stretch of a long attack is the attack nobody has noted: a first model says it.
    A feature may weigh the more the more it tells the classes apart by itself (Wang and Manning, 2012), but less than in
    proportion: rare features all do, most of them by chance.
    """
    taught = ids[corpus.is_collected[ids]]
    attacks = taught[corpus.attack[taught]]
    weight[attacks] *= ATTACKS * (len(taught) - len(attacks)) / max(1, len(attacks))
    chosen = [corpus.stretches[t] for t in ids]
    ones = corpus.rows.copy()
    ones.data[:] = 1
    prior = None
    for last in (False, True):
        rows = np.concatenate(chosen)
        attack = np.repeat(corpus.attack[ids], [len(c) for c in chosen])
        weights = np.repeat(weight[ids] / [len(c) for c in chosen], [len(c) for c in chosen])
        if prior is None:
            for_attack = ones[rows].T @ (weights * attack) + ALPHA
            against = ones[rows].T @ (weights * ~attack) + ALPHA
            prior = np.abs(np.log((for_attack / for_attack.sum()) / (against / against.sum()))) ** PRIOR
        rules = sparse.csr_matrix((corpus.rules[corpus.text_of[rows]] * RULES)[:, None])
        table = sparse.hstack([corpus.rows[rows] @ sparse.diags(prior), rules]).tocsr()
        fitted = LogisticRegression(C=STRENGTH, solver="liblinear", max_iter=300, tol=1e-3)
        fitted.fit(table, attack, sample_weight=weights)
        coefficients = fitted.coef_[0]
        model = Model(coefficients[:-1] * prior, coefficients[-1] * RULES * TRUSTED, fitted.intercept_[0])
        if not last:
            each = model.stretches(corpus)
            chosen = [hardest(corpus, each, t) for t in ids]
    return model


def hardest(corpus, each, text):
    """The stretch of an attack that shows it; of an ordinary text the two that look most like one."""
    stretches = corpus.stretches[text]
    order = stretches[np.argsort(-each[stretches])]
    return order[: 1 if corpus.attack[text] else 2]


def quantised(model):
    """The model with weights of seven bits, and the worth of one step. The heaviest hundredth is cut: what weighs that
    much was seen in few texts."""
    scale = np.quantile(np.abs(model.weights[model.weights != 0]), 0.99) / 63
    steps = np.clip(np.rint(model.weights / scale), -63, 63).astype(np.int8)
    return Model(steps * scale, model.rules, model.bias, model.known), steps, scale


def write(path, model, steps, scale, curve):
    """The file that the gateway has built in; `crates/checks/src/injection/model.rs` reads it."""
    assert len(steps) == BUCKETS and len(curve) == POINTS
    head = b"SLIM" + struct.pack("<HBB", VERSION, BITS, POINTS)
    head += struct.pack("<4f", scale, model.bias, GROUND, model.rules)
    head += b"".join(struct.pack("<2f", *point) for point in curve)
    # The lowest bit of a byte says whether the feature is a known word.
    path.write_bytes(head + (steps.astype(int) * 2 | model.known).astype(np.int8).tobytes())
