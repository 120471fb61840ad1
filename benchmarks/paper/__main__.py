"""The paper's tables and figures, reproduced: ``python -m benchmarks.paper tables``, ``oddities`` or ``figures``.

All measurements are kept, so that an interrupted run continues where it stopped. Data sets that cannot be obtained are
left out with a message.
"""

from __future__ import annotations

import argparse
import sys

from benchmarks.data import NAMES, Dataset, DatasetMissing, load
from benchmarks.paper import odd_tables, tables
from benchmarks.paper.fits import Results, run
from benchmarks.paths import CACHE, RESULTS

REPEATS = 10


def load_all(names: list[str], directory: str | None) -> list[Dataset]:
    """Return the data sets that can be obtained, and print which cannot."""
    found = []
    for name in names:
        try:
            found.append(load(name, directory))
        except DatasetMissing as error:
            print(f"Left out: {error}", file=sys.stderr)
    return found


def make_tables(options: argparse.Namespace) -> None:
    repeats, place = (1, CACHE / "quick") if options.quick else (REPEATS, RESULTS)
    results = Results(place / "tables.jsonl")
    wanted = {
        data.title: [fit for (method, _), fit in tables.cells(data, repeats).items() if method in options.methods]
        for data in load_all(options.only, options.data)
    }
    if options.again:
        results.forget(fit for fits in wanted.values() for fit in fits)
    for title, fits in wanted.items():
        if results.missing(fits):
            print(title, file=sys.stderr)
            run(fits, results, options.data)
    sets = load_all(list(NAMES), options.data)
    command = "python -m benchmarks.paper tables" + (" --quick" if options.quick else "")
    text = tables.report(sets, results, repeats, command)
    (place / "tables.md").write_text(text, encoding="utf-8")
    print(text)


def show_oddities(options: argparse.Namespace) -> None:
    measured = Results(RESULTS / "tables.jsonl")
    results = Results(RESULTS / "oddities.jsonl")
    sets = load_all(list(NAMES), options.data)
    outside = [(data, method) for data, method, meets in tables.compared(sets, measured, REPEATS) if not meets]
    run(odd_tables.fits(sets, outside, REPEATS), results, options.data)
    text = odd_tables.report(sets, outside, measured, results, REPEATS)
    (RESULTS / "oddities.md").write_text(text, encoding="utf-8")
    print(text)


def draw_figures(options: argparse.Namespace) -> None:
    from benchmarks.paper.figures.drawing import draw_all  # needs matplotlib

    draw_all(options.data)


def _listed(allowed: tuple[str, ...]):
    def parse(text: str) -> list[str]:
        names = text.split(",")
        for name in names:
            if name not in allowed:
                raise argparse.ArgumentTypeError(f"{name!r} is not one of {', '.join(allowed)}")
        return names

    return parse


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m benchmarks.paper")
    commands = parser.add_subparsers(required=True)
    of_tables = commands.add_parser("tables", help="Tables 1 and 2, ten repeats of everything")
    of_tables.set_defaults(run=make_tables)
    of_tables.add_argument("--quick", action="store_true", help="one repeat, kept apart from the results")
    of_tables.add_argument("--only", type=_listed(NAMES), default=list(NAMES), help="data sets, separated by commas")
    of_tables.add_argument("--methods", type=_listed(tables.METHODS), default=list(tables.METHODS))
    of_tables.add_argument("--again", action="store_true", help="measure again; if interrupted, continue without it")
    of_oddities = commands.add_parser("oddities", help="discrepancies of the authors' code")
    of_oddities.set_defaults(run=show_oddities)
    of_figures = commands.add_parser("figures", help="every figure of the paper and its appendix")
    of_figures.set_defaults(run=draw_figures)
    for command in (of_tables, of_oddities, of_figures):
        command.add_argument("--data", help="directory of Parquet files (default: $DIPRIME_DATA or ../shared/data)")
    options = parser.parse_args(arguments)
    options.run(options)


if __name__ == "__main__":
    main()
