"""Steps of a fit that tests watch."""


def before_step(monkeypatch, executor, number, happens):
    """Let something happen right before a step of the next fit on a class of executors."""
    advance = executor.advance
    numbers = iter(range(1, 1 << 20))

    def watched(self, steps):
        if next(numbers) == number:
            happens()
        return advance(self, steps)

    monkeypatch.setattr(executor, "advance", watched)
