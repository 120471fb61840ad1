"""The command that says what a fit would be like: ``diprime plan``."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.table import Table

from diprime.cli.boosting_options import (
    BoostOption,
    DeltaOption,
    LearningRateOption,
    NoInteractionsOption,
    RoundsOption,
    estimator_options,
)
from diprime.cli.data_files import read_domain
from diprime.cli.options import DomainPath, EpsilonOption, JsonOption
from diprime.cli.outputs import Commands
from diprime.cli.person_options import MaxRecordsOption
from diprime.cli.shell import examples, print_json, progress, stdout
from diprime.planning import Plan
from diprime.planning.plan import PROMISE
from diprime.planning.plan import plan as make_plan
from diprime.privacy.ledger import Ledger
from diprime.privacy.measures import PrivacyLoss, exact_text, rounded_text

commands = Commands()

_TITLE = "How the budget is split"
_REHEARSALS = "Rehearsals on made-up data"
_UNITS = {"epsilon": "ε", "mu^2": "μ²"}


@commands.command(
    epilog=examples(
        "diprime plan --rows 30000 --epsilon 1 --domain domain.toml",
        "diprime plan --rows 30000 --epsilon 1 --domain domain.toml --boost --delta 1e-6",
        "diprime plan --rows 30000 --epsilon 1 --domain domain.toml --max-records 3",
    )
)
def plan(  # noqa: PLR0913 -- the options of a command are arguments
    rows: Annotated[int, typer.Option(min=1, help="About how many rows there are; a guess, if that is private.")],
    epsilon: EpsilonOption,
    domain_path: DomainPath,
    repeats: Annotated[int, typer.Option(min=1, help="How often to rehearse on made-up data.")] = 3,
    *,
    boost: BoostOption = False,
    delta: DeltaOption = None,
    rounds: RoundsOption = None,
    learning_rate: LearningRateOption = None,
    no_interactions: NoInteractionsOption = False,
    max_records: MaxRecordsOption = 1,
    as_json: JsonOption = False,
) -> None:
    """Say what a fit would be like, without touching data.

    Trees, depth, the split of the budget and the noise are what the fit would have. The accuracy is that of
    rehearsals on three kinds of made-up data: simple, where one feature tells nearly all; smooth, where the effects of
    five features add up; and rough, where values are crowded and pairs of features have effects. They tell which order
    of magnitude the cost of noise has at this size and budget, not how well your data can be predicted. With
    --max-records, or a domain that was learnt from persons, persons are protected, and each is taken to have so many of
    the rows. What a learnt domain has cost is added to epsilon. What is open in the domain is learnt from the made-up
    data: numbers from 1 to 1000, text of ten levels, two classes. A fit pays for it likewise.
    """
    domain = read_domain(domain_path)
    options = estimator_options(boost, delta, rounds, learning_rate, no_interactions)
    if max_records > 1:
        options["max_records_per_group"] = max_records
    with progress("Rehearsing") as advance:
        planned = make_plan(domain, rows, epsilon, repeats=repeats, on_progress=advance, **options)
    if as_json:
        print_json(_content(planned))
        return
    ledger = planned.ledger
    print(f"A fit of about {rows:,} rows with {_headline(planned)}\n\n{planned.shape}\n")
    if ledger.unit == "person":
        n_persons = -(-rows // max_records)
        print(f"Protected: {ledger.whole_unit} added or removed; about {n_persons:,} persons.\n")
    _print_budget(ledger)
    _print_rehearsals(planned, repeats)


def _content(planned: Plan) -> dict[str, Any]:
    """Return a plan as plain data, for scripts."""
    low, high = planned.lost_to_noise
    return {
        **vars(planned.shape),
        **_total(planned.ledger),
        "of_domain": _total(planned.of_domain),
        "measure": planned.measure,
        "rehearsals": [{**vars(made), "lost_to_noise": made.lost_to_noise} for made in planned.rehearsals],
        "lost_to_noise": {"least": low, "most": high},
        "ledger": planned.ledger.to_dict(),
    }


def _print_rehearsals(planned: Plan, repeats: int) -> None:
    table = Table("kind", planned.measure, "without noise", "best guess", "noise costs", title=_REHEARSALS)
    for made in planned.rehearsals:
        scores = (made.private, made.noiseless, made.guess, max(made.lost_to_noise, 0.0))
        table.add_row(made.kind, *(f"{score:.3f}" for score in scores))
    print()
    stdout().print(table)
    low, high = planned.lost_to_noise
    print(f"Means of {repeats}. Noise costs from {low:.3f} to {high:.3f} of {planned.measure} there. {PROMISE}")


def _total(ledger: Ledger | None) -> dict[str, str]:
    """Return what a ledger adds up to, exactly; nothing without one."""
    if ledger is None:
        return {"epsilon": "0", "delta": "0"}
    return {"epsilon": exact_text(ledger.total), "delta": exact_text(ledger.total_delta)}


def _headline(planned: Plan) -> str:
    """Return what the whole fit costs, and what of it the domain does."""
    if planned.of_domain is None:
        return _total_text(planned.ledger)
    return f"{_total_text(planned.ledger)}, of which the domain costs {_total_text(planned.of_domain)}"


def _total_text(ledger: Ledger) -> str:
    delta = f", δ = {rounded_text(ledger.total_delta)}" if ledger.total_delta else ""
    return f"ε = {rounded_text(ledger.total)}{delta}"


def _print_budget(ledger: Ledger) -> None:
    units = {charge.measure.symbol: _UNITS[charge.measure.symbol] for charge in ledger.charges}
    one_unit = len(units) == 1
    table = Table("release", "mechanism", *(units.values() if one_unit else ["cost"]), "share", title=_TITLE)
    for charge in ledger.charges:
        share = f"{ledger.share(charge):.1%}" if ledger.is_private else "–"
        cost = rounded_text(charge.total, 4)
        shown = cost if one_unit else f"{units[charge.measure.symbol]} = {cost}"
        table.add_row(charge.what, charge.mechanism, shown, share)
    stdout().print(table)
    if not one_unit:
        print("Shares are of all that is spent in the same unit.")
    total, delta = rounded_text(ledger.total), rounded_text(ledger.delta)
    meaning = f" At δ = {delta} that is ε = {total}." if ledger.loss.mu_squared else ""
    print(f"Sum: {_sum_text(ledger.loss)}.{meaning}")


def _sum_text(loss: PrivacyLoss) -> str:
    sums = {"ε": loss.epsilon, "μ²": loss.mu_squared, "δ": loss.delta}
    return ", ".join(f"{unit} = {rounded_text(cost)}" for unit, cost in sums.items() if cost)
