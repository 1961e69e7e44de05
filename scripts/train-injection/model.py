"""The linear model: how it is fitted, what it says, how it is written."""

import struct

import numpy as np
import scipy.sparse as sparse
from sklearn.linear_model import LogisticRegression

from corpus import BUCKETS, ENOUGH, FEW, GROUND

STRENGTH = 60.0  # the inverse of the regularisation
ALPHA = 0.3  # smooths the counts that prior strengths come from
PRIOR = 0.75  # the power that prior strengths are raised to
# Rules were written by people who had seen such attacks, so their evidence is held back.
RULES = 0.5
MODELS = 5  # whose mean is taken
ATTACKS = 0.4  # the weight of all attacks together, beside all ordinary texts
VERSION, BITS, POINTS = 3, 18, 8


class Model:
    """Weights of features, of rules, and a bias, in log odds."""

    def __init__(self, weights, rules, bias):
        self.weights, self.rules, self.bias = weights, rules, bias

    def stretches(self, corpus):
        count = np.diff(corpus.rows.indptr)
        return (corpus.rows @ self.weights) * np.clip((count - FEW) / (ENOUGH - FEW), 0, 1)

    def evidence(self, corpus, ids):
        """Of each text, that of the stretch that speaks most for an attack, and of the rules."""
        each = self.stretches(corpus)
        best = np.array([each[corpus.stretches[t]].max() for t in ids])
        return best + self.rules * corpus.rules[ids] + self.bias


def fit(corpus, ids):
    """The mean of some models, for each of which every text weighs more or less than it should, by chance (the Bayesian
    bootstrap of Rubin, 1981): what only a few texts say evens out."""
    chance = np.random.RandomState(5)
    models = [fit_once(corpus, ids, corpus.weight * chance.exponential(size=len(corpus.weight))) for _ in range(MODELS)]
    mean = lambda part: np.mean([part(model) for model in models], axis=0)
    return Model(mean(lambda m: m.weights), mean(lambda m: m.rules), mean(lambda m: m.bias))


def fit_once(corpus, ids, weight):
    """Fits a model to some texts.

    Which stretch of a long attack is the attack nobody has noted: the model that is being fitted says it, twice.
    A feature may weigh the more the more it tells the classes apart by itself (Wang and Manning, 2012), but less than in
    proportion: rare features all do, most of them by chance.
    """
    taught = ids[corpus.source[ids] != "own"]
    attacks = taught[corpus.attack[taught]]
    weight[attacks] *= ATTACKS * (len(taught) - len(attacks)) / max(1, len(attacks))
    chosen = [corpus.stretches[t] for t in ids]
    ones = corpus.rows.copy()
    ones.data[:] = 1
    prior = None
    for last in (False, False, True):
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
        model = Model(coefficients[:-1] * prior, coefficients[-1] * RULES, fitted.intercept_[0])
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
    """The model with weights of eight bits, and the worth of one step. The heaviest hundredth is cut: what weighs that
    much was seen in few texts."""
    scale = np.quantile(np.abs(model.weights[model.weights != 0]), 0.99) / 127
    steps = np.clip(np.rint(model.weights / scale), -127, 127).astype(np.int8)
    return Model(steps * scale, model.rules, model.bias), steps, scale


def write(path, model, steps, scale, curve):
    """The file that the gateway has built in; `crates/checks/src/injection/model.rs` reads it."""
    assert len(steps) == BUCKETS and len(curve) == POINTS
    head = b"SLIM" + struct.pack("<HBB", VERSION, BITS, POINTS)
    head += struct.pack("<4f", scale, model.bias, GROUND, model.rules)
    head += b"".join(struct.pack("<2f", *point) for point in curve)
    path.write_bytes(head + steps.tobytes())
