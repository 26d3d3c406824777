"""Claim: several processes make the map that one makes, faster: the scorecard stays within 1 %. Prints the time ratio.

Command: plan2vec bench ranks --json     Cost: two fits of 10,000 frames on the CPU, one thread per process
Expected: largest_difference below 0.01; time_ratio above 1 where two cores are free

Numbers of the scorecard are shares of 1, so the difference is absolute. Rounding alone moves them too: Adam's steps are
as long for a gradient that is nothing but rounding as for a large one.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from plan2vec.domains.maze import simulate
from plan2vec.readers.npz import write_npz
from plan2vec.results.rows import Case, Row, Stamp, make_rows
from plan2vec.results.stamp import commit

METRICS = ("success", "success_graph", "spearman_true", "spearman_graph", "embedding_error", "local_accuracy",
           "false_edge_share")
STAGES = ("local_metric", "graph", "embedding", "vectors")


def run(seed: int, num_rollouts: int = 1000, num_processes: int = 2, options: tuple[str, ...] = ()) -> dict:
    """Rows of one fit in one process and of one in several; `options` are added to both commands."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_npz(folder / "maze.npz", simulate("c-maze", num_rollouts, seed=seed))
        cards = {number: fit_in(number, folder, seed, options) for number in (1, num_processes)}
    return compare(cards, seed)


def fit_in(num_processes: int, folder: Path, seed: int, options: tuple[str, ...]) -> dict[str, Any]:
    """The scorecard of a fit in so many processes, a thread each."""
    torchrun = ("torch.distributed.run", "--standalone", "--nproc-per-node", str(num_processes), "-m")
    command = (sys.executable, "-m", *(torchrun if num_processes > 1 else ()), "plan2vec", "fit",
               str(folder / "maze.npz"), "--out", str(folder / f"run-{num_processes}"), "--seed", str(seed), "--device",
               "cpu", "--json", *options)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    if done.returncode != 0:
        words = f"a fit in {num_processes} process(es) ended with exit code {done.returncode}"
        raise ValueError(f"{words}; its own line stands above")
    return json.loads(done.stdout)


def compare(cards: Mapping[int, dict[str, Any]], seed: int) -> dict:
    """Rows of scorecards and stage times by number of processes, their largest difference, how many times faster."""
    (_, one), (num_processes, several) = cards.items()
    differences = {metric: abs(one[metric] - several[metric]) for metric in METRICS if one[metric] is not None}
    summary = {"largest_difference": max(differences.values()), "time_ratio": _seconds(one) / _seconds(several)}
    ratios = {stage: one["seconds"][stage] / max(several["seconds"][stage], 1e-3) for stage in STAGES}

    def rows_of(number: int, card: dict[str, Any], numbers: dict[str, Any]) -> list[Row]:
        case = Case("ranks", "c-maze", {"ranks": number, "frames": card["num_frames"], "threads": 1}, "plan2vec", seed)
        return make_rows(case, numbers, _seconds(card), Stamp(commit(), card["device"]))

    rows = []
    for number, card in cards.items():
        stages = {f"seconds_{stage}": card["seconds"][stage] for stage in STAGES}
        rows += rows_of(number, card, {metric: card[metric] for metric in METRICS} | stages)
    rows += rows_of(num_processes, several, summary | {f"time_ratio_{stage}": ratio for stage, ratio in ratios.items()})
    return summary | {"differences": differences, "time_ratios": ratios, "rows": rows}


def _seconds(card: dict[str, Any]) -> float:
    """Of the fit, without reading and evaluation, which the first process does alone."""
    return sum(card["seconds"][stage] for stage in STAGES)
