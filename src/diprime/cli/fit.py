"""Commands that fit models to private data, or preview a fit: ``diprime plan``, ``fit`` and ``search``."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

import diprime
from diprime._util import InputError
from diprime.cli.domain import PASSES
from diprime.cli.models import class_weight_text, summary
from diprime.cli.options import (
    BoostOption,
    BudgetOption,
    ClassWeightOption,
    DaskOption,
    DataPath,
    DataPattern,
    DeltaOption,
    DomainPath,
    EpsilonOption,
    JsonOption,
    LearningRateOption,
    MaxRecordsOption,
    NoInteractionsOption,
    OutputPath,
    PersonOption,
    RoundsOption,
    ScratchOption,
    TryOption,
    boosting_arguments,
    check_person,
    class_weight_arguments,
    read_domain,
    read_settings,
    remaining_budget_text,
)
from diprime.cli.shell import (
    Commands,
    charged_to,
    escape_controls,
    examples,
    print_json,
    print_note,
    progress,
    stderr,
    stdout,
)
from diprime.domain import Domain
from diprime.estimators.models import Model, make_estimator, saved_bytes
from diprime.estimators.parameters import BudgetParameters
from diprime.planning import Plan
from diprime.planning import plan as make_plan
from diprime.privacy.budget import Budget
from diprime.privacy.ledger import Ledger
from diprime.privacy.measures import exact_text, rounded_text
from diprime.sources.data_files import Files, find_files
from diprime.sources.protocol import Roles

MAX_SHARE_OF_MEMORY = 1 / 16
"""Share of the memory above which files are encoded on disk. It is small because compressed files grow when read."""
_USUAL_MEMORY = 8 << 30
_CONNECT_SECONDS = 10

_UNITS = {"epsilon": "ε", "mu^2": "μ²"}

commands = Commands()


@commands.command(
    epilog=examples(
        "diprime plan --rows 30000 --epsilon 1 --domain domain.toml",
        "diprime plan --rows 30000 --epsilon 1 --domain domain.toml --boost --delta 1e-6",
        "diprime plan --rows 30000 --epsilon 1 --domain domain.toml --max-records-per-person 3",
    )
)
def plan(  # noqa: PLR0913 -- the options of a command are arguments
    rows: Annotated[int, typer.Option(min=1, help="Approximate number of rows. If it is private, pass a guess.")],
    epsilon: EpsilonOption,
    domain_path: DomainPath,
    repeats: Annotated[int, typer.Option(min=1, help="Number of simulated fits to each kind of data.")] = 3,
    *,
    boost: BoostOption = False,
    delta: DeltaOption = None,
    rounds: RoundsOption = None,
    learning_rate: LearningRateOption = None,
    no_interactions: NoInteractionsOption = False,
    max_records: MaxRecordsOption = 1,
    as_json: JsonOption = False,
) -> None:
    """Preview a fit, without reading data.

    The size of the model, the budget of each release and the noise are those of the fit. The accuracy comes from fits
    to three kinds of synthetic data. In "simple" data, one feature determines nearly all of the target. In "smooth"
    data, the effects of five features add up. In "rough" data, values are crowded, and pairs of features have effects.
    "Without noise" is a model of the same size, and "without privacy" is the default model with epsilon = inf. The
    differences are orders of magnitude for this number of rows and this budget; they do not show how well your data
    can be predicted. With --max-records-per-person, or a domain that was learnt with --person, people are protected,
    and the simulation assumes that each has --max-records-per-person rows. The cost of a learnt domain is added to
    epsilon. Undeclared ranges and categories are learnt from the synthetic data: numbers from 1 to 1000, ten categories
    per text column and two classes. A fit is charged for them in the same way.
    """
    domain = read_domain(domain_path)
    options = boosting_arguments(boost, delta, rounds, learning_rate, no_interactions)
    if max_records > 1:
        options["max_records_per_group"] = max_records
    with progress("Simulating fits") as advance:
        planned = make_plan(domain, rows, epsilon, repeats=repeats, on_progress=advance, **options)
    if as_json:
        print_json(_plan_content(planned))
        return
    ledger = planned.ledger
    cost = _total_text(ledger)
    if planned.domain_ledger is not None:
        cost += f", including {_total_text(planned.domain_ledger)} for the domain"
    print(f"Fit to about {rows:,} rows with {cost}\n\n{planned.shape}\n")
    if ledger.privacy_unit == "person":
        n_persons = -(-rows // max_records)
        print(f"Privacy unit: {ledger.privacy_unit_text} added or removed; about {n_persons:,} people.\n")
    _print_budget(ledger)
    _print_simulations(planned, repeats)


def _plan_content(planned: Plan) -> dict[str, Any]:
    """Return a plan as plain JSON data."""
    (low, high), (least, most) = planned.noise_cost, planned.privacy_cost
    return {
        **vars(planned.shape),
        "unit": planned.ledger.privacy_unit,
        **_total(planned.ledger),
        "domain_ledger": _total(planned.domain_ledger),
        "measure": planned.measure,
        "simulations": [
            {**vars(made), "noise_cost": made.noise_cost, "privacy_cost": made.privacy_cost}
            for made in planned.simulations
        ],
        "noise_cost": {"least": low, "most": high},
        "privacy_cost": {"least": least, "most": most},
        "no_better_than_guessing": list(planned.no_better_than_guessing),
        "ledger": planned.ledger.to_dict(),
    }


def _print_simulations(planned: Plan, repeats: int) -> None:
    names = ("private", "without noise", "without privacy", "best guess")
    table = Table("kind", *names, title=f"Simulated fits to synthetic data: {planned.measure}")
    for made in planned.simulations:
        scores = (made.private, made.noiseless, made.non_private, made.guess)
        table.add_row(made.kind, *(f"{score:.3f}" for score in scores))
    print()
    stdout().print(table)
    print(f"Simulations of each kind: {repeats}. {planned.conclusion}")


def _total(ledger: Ledger | None) -> dict[str, str]:
    """Return the exact total of a ledger, which is zero without a ledger."""
    if ledger is None:
        return {"epsilon": "0", "delta": "0"}
    return {"epsilon": exact_text(ledger.total), "delta": exact_text(ledger.total_delta)}


def _total_text(ledger: Ledger) -> str:
    delta = f", δ = {rounded_text(ledger.total_delta)}" if ledger.total_delta else ""
    return f"ε = {rounded_text(ledger.total)}{delta}"


def _print_budget(ledger: Ledger) -> None:
    units = {charge.measure.symbol: _UNITS[charge.measure.symbol] for charge in ledger.charges}
    one_unit = len(units) == 1
    table = Table(
        "release", "mechanism", *(units.values() if one_unit else ["cost"]), "share", title="Budget of each release"
    )
    for charge in ledger.charges:
        share = f"{ledger.share(charge):.1%}" if ledger.is_private else "–"
        cost = rounded_text(charge.total, 4)
        shown = cost if one_unit else f"{units[charge.measure.symbol]} = {cost}"
        table.add_row(charge.description, str(charge.mechanism), shown, share)
    stdout().print(table)
    if not one_unit:
        print("Shares refer to the sum of all costs in the same unit.")
    total, delta = rounded_text(ledger.total), rounded_text(ledger.delta)
    meaning = f" At δ = {delta}, this is ε = {total}." if ledger.loss.mu_squared else ""
    sums = {"ε": ledger.loss.epsilon, "μ²": ledger.loss.mu_squared, "δ": ledger.loss.delta}
    print(f"Sum: {', '.join(f'{unit} = {rounded_text(cost)}' for unit, cost in sums.items() if cost)}.{meaning}")


@commands.command(
    epilog=examples(
        "diprime fit people.csv --domain domain.toml --epsilon 1 -o model.diprime",
        "diprime fit people.csv --domain domain.toml --epsilon 1 --boost --delta 1e-6 -o model.diprime",
        "diprime fit people.csv --domain domain.toml --epsilon 1 --budget study.budget -o model.diprime",
        "diprime fit 'data/*.parquet' --domain domain.toml --epsilon 1 --scratch /data/scratch -o model.diprime",
        "diprime fit people.csv --domain domain.toml --epsilon 1 --class-weight balanced -o model.diprime",
        "diprime fit 'data/*.parquet' --domain domain.toml --epsilon 1 --dask tcp://host:8786 -o model.diprime",
        "diprime fit visits.csv --domain domain.toml --epsilon 1 --person patient --max-records-per-person 3 "
        "-o model.diprime",
    )
)
def fit(  # noqa: PLR0913 -- the options of a command are arguments
    data: DataPattern,
    domain_path: DomainPath,
    epsilon: EpsilonOption,
    output: OutputPath,
    *,
    boost: BoostOption = False,
    delta: DeltaOption = None,
    rounds: RoundsOption = None,
    learning_rate: LearningRateOption = None,
    no_interactions: NoInteractionsOption = False,
    class_weight: ClassWeightOption = None,
    budget: BudgetOption = None,
    person: PersonOption = None,
    max_records: MaxRecordsOption = 1,
    scratch: ScratchOption = None,
    dask: DaskOption = None,
    as_json: JsonOption = False,
) -> None:
    """Fit a model to private data, and write it to a file that may be published.

    The model is a forest under epsilon or, with --boost, a boosted model under epsilon and delta. A second model of the
    same people spends epsilon and delta again; --budget adds up the costs. Without --person, each record is protected
    by itself. Columns outside the domain are not read. If a numeric column contains text, the command fails before it
    releases anything; do not publish its message, which states the row. The command needs memory for a batch of rows,
    and about two bytes per value for the encoded records. For large files, the encoded records are on disk, in unnamed
    files that disappear when the command ends. With --dask, the workers of the cluster read the files and keep the
    encoded records in memory.
    """
    domain = read_domain(domain_path)
    paths = find_files([data])
    source = Files(paths)
    check_person(person, max_records)
    target, groups = source.roles(domain, Roles(groups=person))
    options = boosting_arguments(boost, delta, rounds, learning_rate, no_interactions)
    options |= class_weight_arguments(class_weight, domain)
    options |= {"max_records_per_group": max_records, "verbose": int(stderr().is_terminal)}
    model = make_estimator(domain, epsilon, **options)
    if dask is not None and scratch is not None:
        raise InputError(
            "--dask cannot be combined with --scratch, because the workers keep the encoded records in memory."
        )
    with charged_to(budget) as account:
        if dask is not None:
            with _connected(dask) as client:
                from diprime.sources.dask import DaskFiles

                model.fit(DaskFiles(client, source), target, groups=groups)
        else:
            with progress("Reading", PASSES + 1 if not domain.is_complete else 1) as source.advance:
                source.scratch = _scratch_folder(scratch, paths)
                model.fit(source, target, groups=groups)
        content = saved_bytes(model)
        with account.recoverable(model.privacy_, content):
            model.save(output)
    _note_draft(domain, domain_path)
    _print_fitted(model, output, content, as_json=as_json)
    if budget is not None and not as_json:
        print(f"{budget}. {' '.join(remaining_budget_text(Budget.open(budget)))}")


def _print_fitted(
    model: Model, output: Path, content: bytes, *, as_json: bool, chosen: dict[str, Any] | None = None
) -> None:
    """Print the file name of a model, its digest, cost, class weights and selected hyperparameters."""
    digest = sha256(content).hexdigest()
    if as_json:
        setting = {} if chosen is None else {"chosen": chosen}
        print_json({"model": str(output), "sha256": digest, **setting, **summary(model)})
        return
    if chosen is not None:
        print(f"Selected: {', '.join(f'{name} = {value}' for name, value in chosen.items())}.\n")
    print(f"{model.privacy_}\n")
    if weights := class_weight_text(model):
        print(f"{escape_controls(weights)}\n")
    print(f"Written to {output}; its SHA-256 is {digest}.")


def _scratch_folder(given: Path | None, paths: Sequence[Path]) -> Path | None:
    """Return the directory for encoded records, or None to keep them in memory."""
    if given is not None or not are_large(paths):
        return given
    print_note(
        "diprime: the data files are large, so the encoded records are kept in temporary files in "
        f"{usual_scratch()}. Use --scratch to choose another directory."
    )
    return usual_scratch()


def are_large(paths: Sequence[Path]) -> bool:
    """Return whether files are large compared with the memory of this machine."""
    return sum(path.stat().st_size for path in paths) > MAX_SHARE_OF_MEMORY * _memory()


def _memory() -> int:
    """Return the memory of this machine in bytes, or a typical number if it is unknown."""
    if not hasattr(os, "sysconf"):
        return _USUAL_MEMORY
    return int(os.sysconf("SC_PAGE_SIZE")) * int(os.sysconf("SC_PHYS_PAGES"))


def usual_scratch() -> Path:
    """Return the directory for scratch files. /var/tmp is preferred to /tmp, which may be in memory."""
    on_disk = Path("/var/tmp")
    chosen = any(os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP"))
    return on_disk if not chosen and on_disk.is_dir() else Path(tempfile.gettempdir())


@contextmanager
def _connected(address: str) -> Iterator[Any]:
    """Yield a client of the Dask scheduler at an address, and turn errors of the cluster into input errors."""
    try:
        from distributed import Client, Security
    except ImportError:
        raise InputError("--dask requires dask and distributed. Run pip install 'diprime[dask]'.") from None
    security = Security()  # from Dask's configuration
    try:
        asyncio.run(_ping(address, security))
        client = Client(address, security=security, set_as_default=False)
    except Exception:  # noqa: BLE001 -- each protocol has its own errors
        raise InputError(
            f"No Dask scheduler responds at {address}. Pass its address, such as tcp://host:8786."
        ) from None
    with client:
        try:
            yield client
        except RuntimeError as error:
            raise InputError(str(error)) from None


async def _ping(address: str, security: Any) -> None:
    """Raise an error if no scheduler responds. A client would take a minute to give up."""
    from distributed.comm import connect

    comm = await connect(address, timeout=_CONNECT_SECONDS, **security.get_connection_args("client"))
    await comm.close()


def _note_draft(domain: Domain, domain_path: Path) -> None:
    if domain.origin.kind == "inferred":
        print_note(
            f"diprime: {domain_path} is a draft that has not been reviewed. Replace all values that are not "
            'public knowledge, write reviewed_by = "your name" at its top, and fit again.'
        )


@commands.command(
    epilog=examples(
        "diprime search people.csv -d domain.toml -e 3 --try max_depth=1,auto --try balance=0,1 -o model.diprime",
        "diprime search people.csv -d domain.toml -e 3 --boost --try interactions=true,false -o model.diprime",
    )
)
def search(  # noqa: PLR0913 -- the options of a command are arguments
    data: DataPath,
    domain_path: DomainPath,
    epsilon: EpsilonOption,
    output: OutputPath,
    tried: TryOption,
    *,
    boost: BoostOption = False,
    delta: DeltaOption = None,
    class_weight: ClassWeightOption = None,
    person: PersonOption = None,
    max_records: MaxRecordsOption = 1,
    budget: BudgetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Select hyperparameters privately, and write the selected model to a file that may be published.

    The search covers all combinations of the values after --try. It divides the budget among the fits and the
    selection, so the model has more noise than one of 'diprime fit' with the same epsilon. Nothing is released about
    the other combinations.
    """
    domain = read_domain(domain_path)
    source = Files([data])
    check_person(person, max_records)
    target, groups = source.roles(domain, Roles(groups=person))
    options = boosting_arguments(boost, delta) | class_weight_arguments(class_weight, domain)
    model = make_estimator(domain, BudgetParameters.epsilon, **options, max_records_per_group=max_records)
    found = diprime.PrivateSearch(model, read_settings(tried, model), epsilon=epsilon)
    with charged_to(budget) as account:
        with progress("Reading") as source.advance:
            found.fit(source, target, groups=groups)
        content = saved_bytes(found.best_estimator_)
        with account.recoverable(found.privacy_, content):
            found.save(output)
    _note_draft(domain, domain_path)
    _print_fitted(found.best_estimator_, output, content, as_json=as_json, chosen=found.best_params_)
