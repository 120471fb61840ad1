"""An executor like one on a cluster: everything travels as bytes, and every state is lost and rebuilt."""

import pickle

import numpy as np


def shipped(thing):
    return pickle.loads(pickle.dumps(thing))


class ReplayingExecutor:
    """Queries every partition twice: in its state, and after all of its updates are replayed."""

    def __init__(self, states, sizes, threads):
        self.sizes = list(sizes)
        self._first = [shipped(state) for state in states]
        self._states = [shipped(state) for state in states]
        self._updates = [[] for _ in states]
        self._threads = threads

    def apply(self, updates):
        for i, update in enumerate(updates):
            self._states[i] = shipped(update)(self._states[i].copy(), self._threads)
            self._updates[i].append(shipped(update))

    def _replayed(self, i):
        state = self._first[i].copy()
        for update in self._updates[i]:
            state = update(state, self._threads)
        return state

    def sum(self, query, out=None):
        values = []
        for i in range(len(self._states)):
            values.append(shipped(query)(self._states[i], self._threads))
            self._states[i] = shipped(self._replayed(i))
            assert_equal(shipped(query)(self._states[i], self._threads), values[i])
        return shipped(sum(reversed(values[1:]), values[0]))

    def collect(self, query):
        values = []
        for i in range(len(self._states)):
            values.append(shipped(shipped(query)(self._states[i], self._threads)))
            self._states[i] = shipped(self._replayed(i))
            for one, other in zip(shipped(query)(self._states[i], self._threads), values[i], strict=True):
                assert_equal(one, other)
        return values


def assert_equal(one, other):
    np.testing.assert_array_equal(one, other, strict=True)
