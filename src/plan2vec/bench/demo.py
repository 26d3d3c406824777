"""Claim: the demo's success holds over rooms and seeds, at the default settings and with a 2-d map.

Command: plan2vec bench demo --json     Cost: 5 minutes on one H200, an hour on two CPU cores
Expected (success): C-Maze 1.00, Open 1.00, Table 0.99 or more, C-Maze in 2-d 0.87 to 1.00 by seed; no false edge
anywhere
"""

from dataclasses import replace
from typing import Any

from plan2vec.config import Config
from plan2vec.domains.maze import simulate
from plan2vec.evaluation import evaluate
from plan2vec.pipeline import fit
from plan2vec.results.rows import Case, Row, Stamp, make_rows, markdown, values
from plan2vec.results.stamp import commit

CASES = (("c-maze", 8), ("open", 8), ("table", 8), ("c-maze", 2))  # room, dimensions of the map
METRICS = ("success", "success_graph", "spearman_true", "embedding_error", "local_accuracy", "false_edge_share",
           "largest_component_share")


def run(seed: int, seeds: int = 5, num_rollouts: int = 1000, config: Config = Config(), device: str = "auto") -> dict:
    """Rows for every case and seed from `seed` on, and a table of their means with the range over seeds."""
    rows: list[Row] = []
    for room, dim in CASES:
        for number in range(seed, seed + seeds):
            settings = replace(config, dim=dim, seed=number)
            card: dict[str, Any] = evaluate(fit(simulate(room, num_rollouts, seed=number), settings, device=device))
            case = Case("demo", room, {"dim": dim, "frames": card["num_frames"]}, "plan2vec", number)
            numbers = {metric: card[metric] for metric in METRICS}
            rows += make_rows(case, numbers, card["seconds"]["total"], Stamp(commit(), card["device"]))
    return {"table": table(rows), "rows": rows}


def table(rows: list[Row]) -> list[str]:
    """Lines of a markdown table: mean (least - greatest) over seeds."""
    lines = []
    for room, dim in CASES:
        samples = [values(rows, domain=room, dim=dim, metric=metric) for metric in METRICS]
        cells = [f"{one.mean():.4f} ({one.min():.4f} - {one.max():.4f})" if len(one) else "-" for one in samples]
        lines.append([room, f"{dim}-d", *cells])
    return markdown(["room", "map", *METRICS], lines)[:-1]
