"""The commands that fit models to private data: ``diprime fit`` and ``search``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import diprime
from diprime.cli.boosting_options import (
    BoostOption,
    DeltaOption,
    LearningRateOption,
    NoInteractionsOption,
    RoundsOption,
    estimator_options,
)
from diprime.cli.budget_options import BudgetOption, charged_to, left_in_words
from diprime.cli.class_weight_options import ClassWeightOption, class_weight_arguments
from diprime.cli.dask_files import DaskFiles, DaskOption, check_options, connected
from diprime.cli.data_files import DataFile, InputError, read_domain, target_column
from diprime.cli.learning import PASSES
from diprime.cli.model_facts import class_weight_text, summary
from diprime.cli.options import (
    DataPath,
    DataPattern,
    DomainPath,
    EpsilonOption,
    JsonOption,
    OutputPath,
    ScratchOption,
    check_folder,
)
from diprime.cli.outputs import Commands
from diprime.cli.person_options import MaxRecordsOption, PersonOption, check_person
from diprime.cli.record_files import RecordBatches, are_large, find_files, usual_scratch
from diprime.cli.setting_options import TryOption, read_settings
from diprime.cli.shell import escape_controls, examples, print_json, print_note, progress, stderr
from diprime.domain import Domain
from diprime.estimators.models import Model, estimator
from diprime.estimators.parameters import EPSILON
from diprime.privacy.budget import Budget

commands = Commands()


@commands.command(
    epilog=examples(
        "diprime fit people.csv --domain domain.toml --epsilon 1 -o model.diprime",
        "diprime fit people.csv --domain domain.toml --epsilon 1 --boost --delta 1e-6 -o model.diprime",
        "diprime fit people.csv --domain domain.toml --epsilon 1 --budget study.budget -o model.diprime",
        "diprime fit 'data/*.parquet' --domain domain.toml --epsilon 1 --scratch /data/scratch -o model.diprime",
        "diprime fit people.csv --domain domain.toml --epsilon 1 --class-weight balanced -o model.diprime",
        "diprime fit 'data/*.parquet' --domain domain.toml --epsilon 1 --dask tcp://host:8786 -o model.diprime",
        "diprime fit visits.csv --domain domain.toml --epsilon 1 --person patient --max-records 3 -o model.diprime",
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

    It is a forest under epsilon or, with --boost, a boosted model under epsilon and delta. Both are
    spent each time: a second model of the same people spends them again, and --budget adds it up. Without --person,
    every record is taken to be a person of its own. Columns that neither the domain nor --person names are not read. A
    number that cannot be read is an error, for you who hold the data; nothing is released then. Memory: about two bytes
    for each value of the table, plus a batch of rows. For large files, these bytes are on a disk, in files without a
    name that are gone when the command ends. With --dask, each file is read by a worker of the cluster, in whose memory
    its codes stay.
    """
    check_folder(output)
    domain = read_domain(domain_path)
    paths = find_files([data])
    file = DataFile(paths[0])
    persons = check_person(file, domain, person, max_records)
    target = target_column(file, domain, persons)
    options = estimator_options(boost, delta, rounds, learning_rate, no_interactions)
    options |= class_weight_arguments(class_weight, domain)
    options |= {"max_records_per_group": max_records, "verbose": int(stderr().is_terminal)}
    model = estimator(domain, epsilon, **options)
    if dask is not None:
        check_options(persons, scratch)
        with charged_to(budget), connected(dask) as client:
            model._fit_distributed(DaskFiles(client, paths, target, domain.columns))
    else:
        with charged_to(budget), progress("Reading") as advance:
            passes = PASSES + 1 if domain.is_open else 1
            batches = RecordBatches(
                file, domain, target, lambda share: advance(share / passes), persons, others=paths[1:]
            )
            model.fit_batches(batches, scratch=_scratch_folder(scratch, paths, persons))
    _note_draft(domain, domain_path)
    model.save(output)
    if as_json:
        print_json({"model": str(output), **summary(model)})
    else:
        print(f"{_facts(model)}\n\nWritten to {output}.")
        if budget is not None:
            print(f"{budget}. {' '.join(left_in_words(Budget.open(budget)))}")


def _facts(model: Model) -> str:
    """Return in words what a model has cost and, if its classes have weights, which."""
    weights = class_weight_text(model)
    return f"{model.privacy_}\n\n{escape_controls(weights)}" if weights else str(model.privacy_)


def _scratch_folder(given: Path | None, paths: Sequence[Path], persons: Sequence[str]) -> Path | None:
    """Return the folder for encoded values, or None if they are kept in memory, as those of persons are."""
    if given is not None and persons:
        raise InputError(
            "--scratch cannot have --person, because the records of each person are chosen in memory; leave out "
            "--scratch."
        )
    if given is not None or persons or not are_large(paths):
        return given
    print_note(
        f"diprime: the data are large, so that their codes are kept in files without a name in {usual_scratch()}; "
        "choose another folder with --scratch."
    )
    return usual_scratch()


def _note_draft(domain: Domain, domain_path: Path) -> None:
    if domain.origin.kind == "read":
        print_note(
            f"diprime: {domain_path} is a draft that nobody has reviewed; replace what is not public knowledge, write "
            'reviewed_by = "your name" at its top, and fit again.'
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
    """Choose among settings privately, and write the model of the best one to a file that may be published.

    All combinations of the values are settings. The budget is divided among the fits that are tried, the choice and
    the model, so that a model that was searched for has more noise than one of 'diprime fit' with the same epsilon.
    Nothing is told of the settings that were not chosen.
    """
    check_folder(output)
    domain = read_domain(domain_path)
    file = DataFile(data)
    persons = check_person(file, domain, person, max_records)
    target = target_column(file, domain, persons)
    options = estimator_options(boost, delta, None, None, False) | class_weight_arguments(class_weight, domain)
    model = estimator(domain, EPSILON.default, **options, max_records_per_group=max_records)
    found = diprime.PrivateSearch(model, read_settings(tried, model), epsilon=epsilon)
    with charged_to(budget), progress("Reading") as advance:
        found.fit_batches(RecordBatches(file, domain, target, advance, persons))
    _note_draft(domain, domain_path)
    found.save(output)
    if as_json:
        print_json({"model": str(output), "chosen": found.best_params_, **summary(found.best_estimator_)})
    else:
        chosen = ", ".join(f"{name} = {value}" for name, value in found.best_params_.items())
        print(f"Chosen: {chosen}.\n\n{_facts(found.best_estimator_)}\n\nWritten to {output}.")
