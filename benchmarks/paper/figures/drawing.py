"""Draw all figures and write their captions."""

from __future__ import annotations

import sys

from benchmarks.data import DatasetMissing, load
from benchmarks.paper.figures.balance import LeftFractions, Occupancy
from benchmarks.paper.figures.curves import Appliances, Banknote
from benchmarks.paper.figures.heatmaps import HeatMaps
from benchmarks.paper.figures.style import save, set_style
from benchmarks.paper.figures.theory import TheoryChecks
from benchmarks.paper.fits import Results, run
from benchmarks.paths import FIGURES, RESULTS

TITLES = {
    "appliances-parts": "Appliances, disjoint parts",
    "appliances-all-rows": "Appliances, all rows for each tree",
    "banknote": "Banknote",
    "heatmaps-diprimeexp": "Heat maps of DiPriMeExp",
    "heatmaps-diprimeflip": "Heat maps of DiPriMeFlip",
    "robot-occupancy": "Rows per leaf on Robot",
    "banknote-left-fractions": "Rows in left children on Banknote",
    "theory": "Theorems",
}


def draw_all(data: str | None = None) -> None:
    """Run the missing fits, draw all figures and write their captions.

    Parameters
    ----------
    data : str, optional
        Where the Parquet files are. Figures whose data set cannot be obtained are left out, with a message.
    """
    set_style()
    results = Results(RESULTS / "figures.jsonl")
    captions = {}
    swept = (Appliances(partition=True), Appliances(partition=False, repeats=2), Banknote(),
             HeatMaps("DiPriMeExp"), HeatMaps("DiPriMeFlip"))  # fmt: skip
    for figure in swept:
        fits = figure.fits()
        try:
            if results.missing(fits):
                load(fits[0].data, data)
                print(figure.name, file=sys.stderr)
                run(fits, results, data)
        except DatasetMissing as error:
            print(f"{figure.name} is left out: {error}", file=sys.stderr)
            continue
        save(figure.draw(results), FIGURES / f"{figure.name}.svg")
        captions[figure.name] = figure.caption(results)
    for measured in (Occupancy(data), LeftFractions(data), TheoryChecks()):
        try:
            save(measured.draw(), FIGURES / f"{measured.name}.svg")
        except DatasetMissing as error:
            print(f"{measured.name} is left out: {error}", file=sys.stderr)
            continue
        captions[measured.name] = measured.caption()
    _write_captions(captions)


def _write_captions(captions: dict[str, list[str]]) -> None:
    parts = ["# Figures of the paper, reproduced\n\n`python -m benchmarks.paper figures` writes this report.\n"]
    for name, (first, *rest) in captions.items():
        points = "".join(f"- {line}\n" for line in rest)
        figure = f"## {TITLES[name]}\n\n![{TITLES[name]}](../../docs/figures/{name}.svg)\n\n{first}\n"
        parts.append(figure + (f"\n{points}" if points else ""))
    (RESULTS / "figures.md").write_text("\n".join(parts), encoding="utf-8")
