"""Histograms of nodes: which row of the bins a node has, and how many records its codes have."""

import numpy as np
import pytest

from diprime.domain.codes import N_CODES
from diprime.kernels import scoring
from diprime.training.splitting.histograms import EmptyHistograms, NodeHistograms
from tests.candidate_splits import DOMAIN, LAYOUTS, engine_of, random_rows
from tests.encoded_rows import bins_of

pytestmark = pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)


def test_counts_are_the_records_of_a_node_by_code(layout):
    codes, target = random_rows(DOMAIN, layout, 80, 0)
    trees = np.arange(80, dtype=np.uint16) % 4
    engine = engine_of(codes, target, layout, trees, 4)
    for begin, end in ((0, 4), (2, 4)):  # of the whole level, and of its second chunk
        histograms = NodeHistograms(bins_of(engine, begin, end), layout, begin)
        assert histograms.rows(np.arange(begin, end)).tolist() == list(range(end - begin))
        for node in range(begin, end):
            for feature in range(DOMAIN.n_features):
                expected = np.bincount(codes[trees == node, feature], minlength=N_CODES)
                assert histograms.counts(node, feature).tolist() == expected.tolist()


def test_the_kernels_are_given_the_bins_and_how_to_read_them(layout, monkeypatch):
    monkeypatch.setattr(scoring, "BinsView", lambda *arguments: arguments)
    histograms = EmptyHistograms.of(3, layout)
    assert histograms.view == (histograms.bins, layout.n_columns, layout.shift, None)
    values = np.ones_like(histograms.bins)
    wide = NodeHistograms(histograms.bins, layout, 0, values=values)
    assert wide.view == (histograms.bins, layout.n_columns, layout.shift, values)


def test_counts_of_wide_bins_are_the_bins(layout):
    bins = np.arange(2 * 3 * N_CODES * layout.n_columns, dtype=np.uint64).reshape(2, -1) << np.uint64(31)
    wide = NodeHistograms(bins, layout, 5, np.array([1, 0]), np.zeros_like(bins))
    expected = bins[0].reshape(3, N_CODES, -1)[2].sum(axis=1)
    assert wide.counts(6, 2).tolist() == expected.tolist()


def test_one_empty_row_serves_every_node(layout):
    histograms = EmptyHistograms.of(3, layout)
    assert histograms.bins.shape == (1, 3 * N_CODES * layout.n_columns)
    assert not histograms.bins.any()
    assert histograms.rows(np.array([0, 7, 1000])).tolist() == [0, 0, 0]
    assert not histograms.counts(1000, 2).any()
