"""Published attacks against diprime and other libraries: ``python -m benchmarks.attacks``.

Reconstruction of training rows by a constraint solver, membership by likelihood ratios of shadow models, and the
attacks on seeds and positions that break diffprivlib. OR-tools is installed by ``pip install 'diprime[benchmark]'``;
diffprivlib, which needs an old scikit-learn, gets a separate environment. All of it takes about 25 minutes on one core,
``--quick`` one.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.attacks import libraries
from benchmarks.attacks.figure import draw
from benchmarks.attacks.membership import measuring as membership
from benchmarks.attacks.reconstruction import measuring as reconstruction
from benchmarks.attacks.report import Lines, report
from benchmarks.paths import FIGURES, RESULTS
from diprime import PrivacyWarning

PATH = RESULTS / "attacks.json"
QUICK_SCALE = 0.05


def _measured(name: str, lines: Iterator[dict[str, Any]]) -> list[dict[str, Any]]:
    start, kept = time.monotonic(), []
    for line in lines:
        print(json.dumps(line, ensure_ascii=False), flush=True)
        kept.append(line)
    print(f"{name}: {time.monotonic() - start:.0f} s.", flush=True)
    return kept


def main() -> None:
    sections: dict[str, Callable[[argparse.Namespace], Iterator[dict[str, Any]]]] = {
        "reconstruction": lambda options: reconstruction.measure(options.scale, quick=options.quick),
        "membership": lambda options: membership.measure(options.scale, quick=options.quick),
        "libraries": lambda options: libraries.measure(options.scale, with_peers=not options.no_peers),
    }
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, prog="python -m benchmarks.attacks"
    )
    parser.add_argument("--sections", nargs="+", choices=list(sections), default=list(sections), metavar="SECTION")
    parser.add_argument("--quick", action="store_true", help="few epsilons and one small table")
    parser.add_argument("--scale", type=float, help="share of all fits and draws (default: 1, with --quick 0.05)")
    parser.add_argument("--no-peers", action="store_true", help="without diffprivlib and its environment")
    parser.add_argument("--write", action="store_true", help="write the results, the report and the figure")
    parser.add_argument("--report", action="store_true", help="measure nothing; write the report of stored results")
    parser.add_argument("--data", help="the directory of Parquet files (default: see benchmarks.data)")
    options = parser.parse_args()
    if options.scale is None:
        options.scale = QUICK_SCALE if options.quick else 1.0
    if options.data:
        os.environ["DIPRIME_DATA"] = options.data
    warnings.simplefilter("ignore", PrivacyWarning)  # of fits without noise, and with a seed
    kept: Lines = json.loads(PATH.read_text(encoding="utf-8")) if PATH.exists() else {}
    for name in () if options.report else options.sections:
        kept[name] = _measured(name, sections[name](options))
    text = report(kept)
    print(text)
    if options.write or options.report:
        lines = {name: [json.dumps(line, ensure_ascii=False) for line in kept[name]] for name in kept}
        parts = [f'"{name}": [\n' + ",\n".join(lines[name]) + "\n]" for name in lines]
        PATH.write_text("{" + ",\n".join(parts) + "}\n", encoding="utf-8")
        (RESULTS / "attacks.md").write_text(text, encoding="utf-8")
        draw(kept["reconstruction"], FIGURES / "reconstruction.svg")


if __name__ == "__main__":
    main()
