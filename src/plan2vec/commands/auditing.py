"""`plan2vec audit`: look through the episodes of a run, or of recordings, which are fitted first."""

import json
from dataclasses import replace
from pathlib import Path

from rich.table import Table

from plan2vec.commands.answers import plain_console, print_answer, say
from plan2vec.commands.arguments import AuditCommand
from plan2vec.commands.asking import unless_read_only
from plan2vec.commands.fitting import announced, read_recordings, settled
from plan2vec.data import Sequences
from plan2vec.datasets.audit import Audit, as_csv, as_json, audit, lerobot_line
from plan2vec.files import write_text
from plan2vec.model import Model, load
from plan2vec.pictures.audit_page import audit_page
from plan2vec.pipeline import fit
from plan2vec.runs.folder import is_run
from plan2vec.runs.resume import refuse_other_folder

PAGE, MARKS = "audit.html", "audit.json"  # of a run; the explorer shows the findings as marks on its timeline


def run_audit(command: AuditCommand) -> None:
    sequences, model = episodes_to_audit(command)
    against = None
    if command.against is not None:
        against = read_recordings(command.against, replace(
            sequences.options, trust_pickle=command.reading.trust_pickle))[0]
    answer = audit(sequences, model, against)
    if command.page is not None:
        write_text(command.page, audit_page(answer, sequences, against))
        say(f"page: {command.page}")
    if model is not None and model.folder is not None:
        with unless_read_only(PAGE):
            if command.page is None:
                write_text(model.folder / PAGE, audit_page(answer, sequences, against))
                say(f"page: {model.folder / PAGE}")
            write_text(model.folder / MARKS, json.dumps(as_json(answer)))
    if command.csv is not None:
        write_text(command.csv, as_csv(answer))
    print_audit(answer, command)


def episodes_to_audit(command: AuditCommand) -> tuple[Sequences, Model | None]:
    """The frames, and the map: of the run, or fitted to the recordings."""
    given = command.recordings
    if is_run(given):
        if command.no_fit or command.out is not None:
            raise ValueError(f"{given} is a run, fitted already; --no-fit and --out are for recordings")
        model = load(given, command.device, command.config.encoder)
        return model.sequences, model
    if command.no_fit:
        return read_recordings(given, command.reading)[0], None
    out = command.out or Path("runs") / f"audit-{given.stem.removeprefix('minari:')}"
    refuse_other_folder(out)
    sequences = read_recordings(given, command.reading)[0]
    if (sequences.sequence == sequences.sequence[0]).all():
        audit(sequences)  # refuses before an hour of fitting what it would refuse after it
    config = settled(command.config, sequences, out, command.device)
    announced(lambda: (sequences, config), out, command.device)
    model = fit(sequences, config, out, command.device, True)
    say(f"run: {out}")
    return model.sequences, model


def print_audit(answer: Audit, command: AuditCommand) -> None:
    if command.json:
        print_answer(as_json(answer), True)
        return
    listed = [row for row in answer.rows if row.findings]
    table = Table("episode", "frames", "kind", "what was found", box=None)
    for row in listed[: command.num]:
        for k, one in enumerate(row.findings):
            table.add_row("" if k else str(row.episode), "" if k else str(row.num_frames), one.kind, one.words)
    if listed:
        plain_console().print(table)
    more = f"; {len(listed) - command.num} more with --num" if len(listed) > command.num else ""
    print(f"{len(listed)} of {len(answer.rows)} episodes have findings{more}. Nothing was deleted.")
    for note in answer.notes:
        say(f"note: {note}")
    if line := lerobot_line(answer):
        print(f"After a look, a copy without {len(answer.broken)} of them:\n{line}")
