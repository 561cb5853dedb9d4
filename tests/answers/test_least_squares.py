"""Least squares against generalised least squares over every cell of a small domain, written out."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from factored_mwem.accounting.conversion import Composition
from factored_mwem.answers.least_squares import least_squares
from factored_mwem.answers.linear import cross_covariance
from factored_mwem.answers.projections import Noisy
from factored_mwem.answers.refined import refined
from factored_mwem.answers.terms import QueryTerms
from factored_mwem.domain.levels import Levels
from factored_mwem.privacy.residuals import Residuals
from factored_mwem.privacy.session import Measurement, NoiseScale
from factored_mwem.workload.residual_basis import Transform


class Design:
    """Measurements of a random table, and the same as a matrix over all cells."""

    def __init__(
        self,
        seed: int,
        shape=(3, 2, 4),
        views=3,
        coarse=True,
        public=False,
        composition=Composition.ZCDP,
        residuals=0,
    ) -> None:
        rng = np.random.default_rng(seed)
        self.shape, self.rng = shape, rng
        coarser: list[list[np.ndarray]] = [[] for _ in shape]
        if coarse:
            coarser = [nested(rng, size) for size in shape]
        self.levels = Levels.of(shape, coarser)
        self.truth = rng.integers(0, 50, shape).astype(float)
        self.total = float(self.truth.sum()) if public else None
        self.measured, self.residuals = [], []
        self.rows: list[np.ndarray] = []
        self.row_variances: list[float] = []
        self.row_source: list[tuple[int, int]] = []
        chosen = [self._view(rng) for _ in range(views)]
        for view in [*chosen, ()]:
            self._measure(view, NoiseScale(float(rng.uniform(0.5, 4)), composition))
        if residuals:
            self._ask(residuals, composition)
        self.matrix = np.array([row.ravel() for row in self.rows])
        self.variances = np.array(self.row_variances)
        self.redraw()

    def _view(self, rng):
        k = int(rng.integers(1, len(self.shape) + 1))
        attributes = sorted(rng.choice(len(self.shape), size=k, replace=False).tolist())
        return tuple(int(rng.choice(self.levels.chains[a])) for a in attributes)

    def _measure(self, view, scale):
        sizes = [int(self.levels.sizes[v]) for v in view]
        for cell in itertools.product(*(range(s) for s in sizes)):
            row = np.ones(self.shape)
            for v, code in zip(view, cell, strict=True):
                axis = int(self.levels.attribute[v])
                mask = (self.levels.groups[v] == code).astype(float)
                row = row * mask.reshape([-1 if a == axis else 1 for a in range(len(self.shape))])
            self.rows.append(row)
            self.row_variances.append(scale.stddev**2)
        self.measured.append((view, scale, sizes))

    def _ask(self, order, composition):
        gaussian = composition is Composition.ZCDP
        transform = Transform(self.shape, order, gaussian=gaussian)
        weights = self.rng.integers(0, 4, 2 ** sum(k > 1 for k in self.shape))
        scale = NoiseScale(float(self.rng.uniform(1, 5)), composition)
        per_answer = weights[transform.masks]
        unit = np.eye(int(np.prod(self.shape)))
        matrix = np.stack([transform.forward(row) for row in unit], axis=1) * per_answer[:, None]
        for row in matrix[per_answer > 0]:
            self.rows.append(row.reshape(self.shape))
            self.row_variances.append(scale.stddev**2)
        self.residuals.append((order, weights, int((per_answer > 0).sum()), scale))

    def redraw(self):
        noise = self.rng.normal(size=len(self.variances)) * np.sqrt(self.variances)
        self.answers = np.rint(self.matrix @ self.truth.ravel() + noise)

    @property
    def noisy(self) -> Noisy:
        measured, at = [], 0
        for view, scale, sizes in self.measured:
            cells = int(np.prod(sizes, dtype=int))
            measured.append(Measurement(view, self.answers[at : at + cells].astype(np.int64), scale))
            at += cells
        residuals = []
        for order, weights, count, scale in self.residuals:
            residuals.append(Residuals(order, weights, self.answers[at : at + count].astype(np.int64), scale))
            at += count
        return Noisy(self.levels, measured, residuals, self.total)

    def oracle(self, queries):
        """(whether the queries are fixed, values, covariance): A'WA x = A'Wy, with 1'x = n where public."""
        weight = 1 / self.variances
        normal = self.matrix.T @ (weight[:, None] * self.matrix)
        right = self.matrix.T @ (weight * self.answers)
        design = self.matrix
        if self.total is not None:
            ones = np.ones(normal.shape[0])
            design = np.vstack([design, ones])
            basis = np.linalg.svd(ones[None])[2][1:].T  # x = n / cells + basis z
            start = ones * self.total / len(ones)
            inner = np.linalg.pinv(basis.T @ normal @ basis, rcond=1e-10)
            x = start + basis @ inner @ basis.T @ (right - normal @ start)
            covariance = basis @ inner @ basis.T
        else:
            covariance = np.linalg.pinv(normal, rcond=1e-10)
            x = covariance @ right
        solved = np.linalg.lstsq(design.T, queries.T, rcond=1e-10)[0]
        fixed = np.allclose(design.T @ solved, queries.T, atol=1e-6)
        return fixed, queries @ x, queries @ covariance @ queries.T


def nested(rng, size):
    if size < 3 or rng.random() < 0.3:
        return []
    cuts = np.sort(rng.choice(np.arange(1, size), size=int(rng.integers(1, size - 1)), replace=False))
    first = np.searchsorted(cuts, np.arange(size), side="right")
    return [first]


def over_cells(terms, shape):
    full = np.ones((terms.count, *shape))
    for a, weights in zip(terms.support, terms.weights, strict=True):
        full = full * weights.reshape([terms.count] + [-1 if b == a else 1 for b in range(len(shape))])
    return full.reshape(terms.count, -1)


def random_terms(rng, shape, count=3):
    k = int(rng.integers(1, len(shape) + 1))
    support = tuple(sorted(rng.choice(len(shape), size=k, replace=False).tolist()))
    kinds = [lambda s: rng.integers(0, 2, (count, s)), lambda s: rng.normal(size=(count, s)).round(2)]
    weights = tuple(np.asarray(kinds[int(rng.random() < 0.3)](shape[a]), dtype=float) for a in support)
    return QueryTerms(support, weights, count)


def is_least(design, terms) -> bool:
    """Whether least squares fixes the terms; if so, values and covariance are the oracle's."""
    found = least_squares(design.noisy, terms)
    if found is None:
        return False
    fixed, values, covariance = design.oracle(over_cells(terms, design.shape))
    assert fixed
    np.testing.assert_allclose(found.values, values, rtol=1e-6, atol=1e-6)
    i, j = np.indices((terms.count, terms.count))
    np.testing.assert_allclose(found.covariance(i, j), covariance, rtol=1e-6, atol=1e-8)
    return True


@settings(max_examples=60, deadline=None)
@example(seed=5632492, public=False, residuals=1, laplace=False)  # of which nothing was measured
@example(seed=72, public=False, residuals=0, laplace=False)  # all multiples of the number of records
@given(
    seed=st.integers(0, 2**32),
    public=st.booleans(),
    residuals=st.sampled_from([0, 0, 1, 2, 3]),
    laplace=st.booleans(),
)
def test_one_level_is_generalised_least_squares(seed, public, residuals, laplace) -> None:
    """Values and covariance are those of the whole domain, where every attribute has one level."""
    composition = Composition.PURE if laplace else Composition.ZCDP
    design = Design(
        seed, shape=(3, 2, 4, 1), coarse=False, public=public, residuals=residuals, composition=composition
    )
    terms = random_terms(design.rng, design.shape)
    if not is_least(design, terms):
        # as of what is fixed is said only of multiples of the number of records, 0 among them
        cells = over_cells(terms, design.shape)
        assert not design.oracle(cells)[0] or (cells == cells[:, :1]).all(axis=1).any()


def spelt_out(found, design, count):
    """float64[query, answer]: the weight of every noisy answer, from the influences."""
    weights, starts, at = np.zeros((count, len(design.variances))), [], 0
    for _, _, sizes in design.measured:
        starts.append(at)
        at += int(np.prod(sizes, dtype=int))
    for each in found.influences(range(count)):
        number, mask = each.source
        if number >= 0:
            view, _, sizes = design.measured[number]
            attributes = design.levels.attribute[list(view)].tolist()
            shape = [s if a in each.attributes else 1 for s, a in zip(sizes, attributes, strict=True)]
            cells = np.broadcast_to(each.weights.reshape(count, *shape), (count, *sizes)).reshape(count, -1)
            weights[:, starts[number] : starts[number] + cells.shape[1]] += cells
            assert each.summed == cells.shape[1] // each.weights[0].size
        else:
            order, asked, _, scale = design.residuals[-1 - number]
            masks = Transform(design.shape, order, gaussian=scale.composition is Composition.ZCDP).masks
            masks = masks[asked[masks] > 0]
            (where,) = np.nonzero(masks == mask)
            wide = [a for a, k in enumerate(design.shape) if k > 1]
            inside = [a for bit, a in enumerate(wide) if mask >> bit & 1]
            sizes = [1 if design.shape[a] == 2 else design.shape[a] for a in inside]
            shape = [s if a in each.attributes else 1 for s, a in zip(sizes, inside, strict=True)]
            cells = np.broadcast_to(each.weights.reshape(count, *shape), (count, *sizes))
            weights[:, at + where] += cells.reshape(count, -1)
    return weights


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    public=st.booleans(),
    residuals=st.sampled_from([0, 0, 0, 2]),
    laplace=st.booleans(),
)
def test_any_levels_are_unbiased_with_their_variance(seed, public, residuals, laplace) -> None:
    """The weights h of the answers add up to the query whatever the table, and variance and fourth moment are
    theirs; no less than those of least squares over the whole domain.
    """
    composition = Composition.PURE if laplace else Composition.ZCDP
    kinds = {"public": public, "residuals": residuals, "composition": composition}
    design = Design(seed, shape=(5, 2, 6), views=4, coarse=not residuals, **kinds)
    terms = random_terms(design.rng, design.shape)
    queries = over_cells(terms, design.shape)
    fixed, _, least = design.oracle(queries)
    for found in (least_squares(design.noisy, terms), mixed(design.noisy, terms)):
        if found is None:
            continue
        assert fixed
        weights = spelt_out(found, design, terms.count)
        missing = queries - weights @ design.matrix
        if public:
            np.testing.assert_allclose(missing, missing[:, :1] + 0 * missing, atol=1e-7)
            values = weights @ design.answers + missing[:, 0] * design.total
        else:
            np.testing.assert_allclose(missing, 0, atol=1e-7)
            values = weights @ design.answers
        np.testing.assert_allclose(found.values, values, rtol=1e-6, atol=1e-6)
        i, j = np.indices((terms.count, terms.count))
        np.testing.assert_allclose(
            found.covariance(i, j), (weights * design.variances) @ weights.T, rtol=1e-6, atol=1e-8
        )
        assert (np.diag(least) <= np.diag(found.covariance(i, j)) * (1 + 1e-6) + 1e-8).all()
        rows, factors = np.array([[0, 1], [2, 2]]), np.array([[1.0, -2.0], [0.5, 0.25]])
        sums = np.einsum("mn,mnw->mw", factors, weights[rows])
        np.testing.assert_allclose(
            found.fourth(rows, factors), (sums**4) @ design.variances**2, rtol=1e-6, atol=1e-8
        )


def mixed(noisy, terms):
    return None if noisy.residuals else refined(noisy, terms, noisy.about(terms.support))


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), public=st.booleans())
def test_two_sets_of_queries_covary_as_their_weights(seed, public) -> None:
    design = Design(seed, shape=(4, 2, 3), views=5, public=public)
    one, other = random_terms(design.rng, design.shape), random_terms(design.rng, design.shape)
    found = [least_squares(design.noisy, terms) for terms in (one, other)]
    if None in found:
        return
    h, g = (spelt_out(each, design, 3) for each in found)
    np.testing.assert_allclose(
        cross_covariance(found[0], [0, 1, 2], found[1], [0, 1, 1]),
        ((h * design.variances) * g[[0, 1, 1]]).sum(axis=1),
        rtol=1e-6,
        atol=1e-9,
    )


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), public=st.booleans())
def test_levels_of_one_attribute_are_least_squares(seed, public) -> None:
    """Over one attribute nothing is summed out: the normal equations leave nothing to be gained."""
    design = Design(seed, shape=(7,), views=4, public=public)
    terms = random_terms(design.rng, design.shape)
    assert is_least(design, terms) == design.oracle(over_cells(terms, design.shape))[0]
