"""An executor like one on a cluster: everything travels as bytes, and every state is lost and made anew."""

import pickle

import numpy as np


def shipped(thing):
    return pickle.loads(pickle.dumps(thing))


class ReplayingExecutor:
    """Asks every partition twice: as its state is, and after all of its steps are replayed."""

    def __init__(self, states, sizes, threads):
        self.sizes = list(sizes)
        self._first = [shipped(state) for state in states]
        self._states = [shipped(state) for state in states]
        self._steps = [[] for _ in states]
        self._threads = threads

    def advance(self, steps):
        for i, step in enumerate(steps):
            self._states[i] = shipped(step)(self._states[i].copy(), self._threads)
            self._steps[i].append(shipped(step))

    def _replayed(self, i):
        state = self._first[i].copy()
        for step in self._steps[i]:
            state = step(state, self._threads)
        return state

    def ask(self, question, out=None):
        answers = []
        for i in range(len(self._states)):
            answers.append(shipped(question)(self._states[i], self._threads))
            self._states[i] = shipped(self._replayed(i))
            assert_equal(shipped(question)(self._states[i], self._threads), answers[i])
        return shipped(sum(reversed(answers[1:]), answers[0]))


def assert_equal(one, other):
    np.testing.assert_array_equal(one, other, strict=True)
