"""Questions of a fit that tests watch."""


def before_question(monkeypatch, executor, number, happens):
    """Let something happen right before a question of the next fit on a class of executors."""
    ask = executor.ask
    numbers = iter(range(1, 1 << 20))

    def watched(self, question, out=None):
        if next(numbers) == number:
            happens()
        return ask(self, question, out)

    monkeypatch.setattr(executor, "ask", watched)
