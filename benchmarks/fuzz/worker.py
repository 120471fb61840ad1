"""One process of the fuzzer: libFuzzer by atheris, guided by the coverage of the library's Python code.

``python -m benchmarks.fuzz.worker KIND FOLDER INPUTS SECONDS``. It reads and writes files in a folder: ``corpus``, what
it has found to reach new code, ``figures.json`` and findings. What is compiled, the kernels and polars, does not guide
it.
"""

from __future__ import annotations

import random
import resource
import sys
from pathlib import Path

MEMORY_BYTES = 4 << 30
TIMEOUT_SECONDS = 120
SEED_SHARE = (
    0.4  # of the changes, of sound files: what has been found is refused, for the most part, and so is its like
)


def main(kind: str, folder: Path, inputs: int, seconds: int) -> None:
    """Fuzz until so many inputs have been tried, or so many seconds have passed; the process ends with that."""
    import atheris

    with atheris.instrument_imports(include=["diprime"], enable_loader_override=False):
        from benchmarks.fuzz.mutators import MUTATORS
        from benchmarks.fuzz.seeds import SEEDS
        from benchmarks.fuzz.targets import MAX_LENGTH, TARGETS
        from benchmarks.fuzz.watch import Watch

    corpus = folder / "corpus"
    corpus.mkdir(exist_ok=True)
    seeds = list(SEEDS[kind]())
    for i, seed in enumerate(seeds):
        (corpus / f"seed-{i}").write_bytes(seed)
    watch = Watch(TARGETS[kind](folder), folder)
    for seed in seeds:  # imports what is imported late
        watch.run(seed)
    watch.figures = type(watch.figures)(findings=watch.figures.findings)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    watch.begin()

    def mutate(data: bytes, max_size: int, seed: int) -> bytes:
        rng = random.Random(seed)
        if rng.random() < SEED_SHARE:
            data = rng.choice(seeds)
        return MUTATORS[kind](bytes(data), max_size, rng, atheris.Mutate)[:max_size]

    options = {"runs": inputs, "max_total_time": seconds, "max_len": MAX_LENGTH, "timeout": TIMEOUT_SECONDS}
    flags = [f"-{name}={value}" for name, value in options.items() if value]
    flags += [
        "-mutate_depth=1",
        "-rss_limit_mb=0",
        f"-artifact_prefix={folder}/",
        "-print_final_stats=0",
        "-verbosity=0",
    ]
    atheris.Setup([sys.argv[0], *flags, str(corpus)], watch.run, custom_mutator=mutate)
    try:
        atheris.Fuzz()
    finally:
        watch.save()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]).resolve(), int(sys.argv[3]), int(sys.argv[4]))
