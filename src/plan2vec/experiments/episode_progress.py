"""Claim: the map tells finished episodes from half-done and failed ones by what it sees in single frames; a clock,
pixels and a VAE tell less. Time-contrastive vectors order the frames within an episode better, and ends less clearly.

Expected: on unseen episodes VOC at least 0.85, tau at least 0.8, gap at least 0.3; in simulators a correlation with the
true distance left of at least 0.95.

A fifth of the episodes is held out, in simulators a tenth. Goals are the ends of the fitted ones (`plan2vec progress
--goals LAST`). Of every held-out success three failures are made: the first half alone, and the first half followed by
the first half of another episode (both half done), and the episode backwards (failed). Where positions are known, a
recorded episode that ends nearer to where episodes start than to where they end is a failure itself. The end of an
episode of which nothing is known counts as 0.
`voc`: rank correlation of progress with time within the successes, their mean. A clock has 1: it sees no frame.
`tau`: Kendall's, over pairs of episodes of different outcome, by progress at the end; a tie counts for neither.
`gap`, `gap_half`: final progress of successes less that of the failed, and of the half-done, on average.
`unknown`: share of the successes' frames without a number.
`correlation`: in simulators, of progress to one given goal with the true distance left (-1 x Pearson's), over all
held-out frames, from the one farthest from the goal on.
Every method measures a distance to the nearest goal, in units of its own median recorded step; only ours refuses
episodes that start within 2 steps of a goal. `map distance` asks the map instead of the graph. `elapsed time` is a
clock that knows how long a fitted episode takes. Not blind: how frames enter the graph, what is off the map, goals and
smoothing were chosen on seeds 0 to 2 of g1-bottle; its rows are of seeds from 10 on."""

import sys
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np

from plan2vec.baselines import Scorer, VectorScorer
from plan2vec.baselines.registry import baseline_trainers
from plan2vec.data import Sequences, make_sequences, training_frames, transitions
from plan2vec.datasets.progress_files import LAST, choose_goals
from plan2vec.domains import maze, rope
from plan2vec.evaluation import rank_agreement
from plan2vec.experiments.base_scene import Found, Scene, mean_or_none
from plan2vec.learning.random_streams import Stream, rng_at
from plan2vec.model import Model
from plan2vec.pipeline import fit
from plan2vec.progress import LEAST_LEFT, progress_curve, steps_left
from plan2vec.readers import read
from plan2vec.results.comparisons import by_domain, by_method, by_metric, compare
from plan2vec.results.experiment import Experiment, Settings
from plan2vec.results.rows import Groups, Lines, Row, parts_of
from plan2vec.search.shortest_paths import distances_from

ROBOT, STAND_IN = "g1-bottle", "made-up"  # the latter is the domain of a smoke run
SIMULATED = {"rope": "rope", "open": "Open", "table": "Table", "c-maze": "C-Maze"}
DOMAINS = (ROBOT, *SIMULATED, STAND_IN)
METHODS = ("plan2vec", "map distance", "elapsed time", "pixels", "contrastive", "VAE")
OURS = ("plan2vec", "map distance")
HELD_OUT = 0.2  # share of the episodes
MAZE_SIZE, ROPE_SIZE = (400, 10), (8, 400)  # rollouts of a maze and their frames; sequences and drags of the rope
SUCCESS, HALF, FAILED = 2, 1, 0
SHOWN = (("voc", "VOC", 1, 2), ("tau", "tau", 1, 2), ("gap", "gap, failed", 1, 2), ("gap_half", "gap, half done", 1, 2),
         ("unknown", "unknown frames, %", 100, 1))


class Fitted(Scene):
    """One recording and one seed: model, held-out frames, distances. A later call goes on in the run folder."""

    def __init__(self, domain: str, seed: int, settings: Settings, sequences: Sequences):
        super().__init__(domain, seed, settings)
        self.sequences, self.folder = sequences, settings.arrays.parent / "runs" / f"{domain}-{seed}"
        self.held_out = HELD_OUT / 2 if domain in SIMULATED else HELD_OUT
        self.kept = training_frames(sequences.sequence, self.held_out, rng_at(seed, Stream.HOLDOUT))

    @cached_property
    def model(self) -> Model:
        config = replace(self.size.config, seed=self.seed, holdout=self.held_out)
        return fit(self.sequences, config, self.folder, self.device.type)

    def left_by(self, method: str, goals: np.ndarray, frames: np.ndarray) -> np.ndarray:
        """(m,) what a method says is left from frames (m,) to the nearest goal, in its own recorded steps."""
        if method == "plan2vec":
            return steps_left(self.model, self.sequences.frames[frames], goals)
        distance, first = self.scorer(method).on(self.sequences.frames), transitions(self.sequences.sequence)
        first = first[self.kept[first]]
        step = 1.0 if method == "map distance" else float(np.median(distance(first, first + 1)))
        return np.min([distance(frames, np.full(len(frames), goal)) for goal in goals], axis=0) / step

    def scorer(self, method: str) -> Scorer:
        model, config = self.model, self.model.config
        if method == "map distance":
            return VectorScorer(model.embedding, model.device)
        known = make_sequences(self.sequences.frames[self.kept], self.sequences.sequence[self.kept])
        trainers = baseline_trainers(known, lambda: model.local_metric, config.encoder, config.dim,
                                     self.size.shorten, config.seed, model.device)
        return trainers[f"VAE {config.dim}-d" if method == "VAE" else method]()


def run(settings: Settings) -> Groups:
    for seed in settings.seeds:
        if settings.size.is_smoke:
            yield from Fitted(STAND_IN, seed, settings, stand_in(seed)).measured(settings, METHODS, outcome_scores)
            continue
        for domain, path in robot_recordings(settings).items() if settings.chosen("domains", (ROBOT,)) else ():
            yield from Fitted(domain, seed, settings, read(path)).measured(settings, METHODS, outcome_scores)
        for domain in settings.chosen("domains", SIMULATED):
            made = rope.simulate(*ROPE_SIZE, seed) if domain == rope.NAME else maze.simulate(domain, *MAZE_SIZE, seed)
            yield from Fitted(domain, seed, settings, made).measured(settings, (*OURS, "pixels"), true_scores)


def robot_recordings(settings: Settings) -> dict[str, Path]:
    """By the domain, which is named after the file; none, and said so, where no file was given."""
    if settings.asked.recordings is not None:
        return {settings.asked.recordings.stem.replace("_", "-"): settings.asked.recordings}
    print(f"{ROBOT} is left out: its frames are not part of the program; give them by --recordings PATH "
          "(docs/domains.md says where they come from)", file=sys.stderr)
    return {}


def stand_in(seed: int, num_episodes: int = 8, num_frames: int = 20) -> Sequences:
    """In every episode a dark block goes from one random place to another."""
    share = np.linspace(0, 1, num_frames)[:, None]
    ends = np.random.default_rng(seed).uniform(0.2, 0.8, (2, num_episodes, 1, 2))
    position = (ends[0] * (1 - share) + ends[1] * share).reshape(-1, 2)
    pixel = (np.arange(64) + 0.5) / 64
    across, down = (np.abs(pixel - position[:, axis, None]) < 0.08 for axis in (0, 1))
    frames = np.where(across[:, None, :] & down[:, :, None], 60, 200).astype(np.uint8)
    sequence = np.repeat(np.arange(num_episodes), num_frames)
    return make_sequences(frames, sequence, position=position, source="made-up frames")


def episode_frames(sequence: np.ndarray, chosen: np.ndarray) -> list[np.ndarray]:
    """Frame numbers of every episode that lies in the chosen frames (n,) bool."""
    return [np.flatnonzero(sequence == label) for label in np.unique(sequence[chosen])]


def failed_in_truth(sequences: Sequences) -> set[int]:
    """Episodes whose end lies, by position, nearer to where episodes start (the median) than to where they end."""
    if sequences.position is None:
        return set()
    episodes = episode_frames(sequences.sequence, np.ones(len(sequences), bool))
    first, last = (sequences.position[[frames[end] for frames in episodes]] for end in (0, -1))
    from_start, from_end = (np.linalg.norm(last - np.median(place, axis=0), axis=1) for place in (first, last))
    return set(np.unique(sequences.sequence)[from_start < from_end].tolist())


def make_trials(sequences: Sequences, held_out: np.ndarray) -> tuple[list[np.ndarray], list[int]]:
    """The frames of every trial in order, and what became of it."""
    failed, recorded = failed_in_truth(sequences), episode_frames(sequences.sequence, held_out)
    trials = [frames for frames in recorded if sequences.sequence[frames[0]] in failed]
    good = [frames for frames in recorded if sequences.sequence[frames[0]] not in failed]
    outcomes = [FAILED] * len(trials) + [SUCCESS, HALF, HALF, FAILED] * len(good)
    for frames, other in zip(good, good[1:] + good[:1], strict=True):
        half, again = frames[: len(frames) // 2], other[: len(other) // 2]
        trials += [frames, half, np.concatenate((half, again)), frames[::-1]]
    return trials, outcomes


def outcome_scores(fitted: Fitted, method: str) -> Found:
    sequences, unseen = fitted.sequences, np.flatnonzero(~fitted.kept)
    trials, outcomes = make_trials(sequences, ~fitted.kept)
    if method == "elapsed time":
        usual = np.median(np.unique(sequences.sequence[fitted.kept], return_counts=True)[1]) - 1
        curves = [np.clip(np.arange(len(frames)) / usual, 0, 1) for frames in trials]
    else:
        left = np.full(len(sequences), np.nan)
        left[unseen] = fitted.left_by(method, choose_goals(fitted.model, LAST).numbers, unseen)
        curves = [progress_curve(left[frames], LEAST_LEFT if method in OURS else 0.0) for frames in trials]
    return scores(outcomes, curves)


def scores(outcomes: list[int], curves: list[np.ndarray]) -> dict[str, float | None]:
    outcome = np.array(outcomes)
    final = np.array([next(iter(curve[np.isfinite(curve)][::-1]), 0.0) for curve in curves])  # 0 where nothing is known
    good = [curve for curve, one in zip(curves, outcomes, strict=True) if one == SUCCESS]
    known = [(curve[some], some) for curve in good if (some := np.isfinite(curve)).sum() >= 3]
    order = np.array([rank_agreement(curve, np.flatnonzero(some)) or 0.0 for curve, some in known])  # 0 of a flat one
    success, half, failed = (final[outcome == k].mean() if k in outcomes else np.nan for k in (SUCCESS, HALF, FAILED))
    first, second = np.triu_indices(len(outcome), 1)
    apart = np.sign(outcome[first] - outcome[second])
    agrees = apart * np.sign(final[first] - final[second])
    return {"voc": mean_or_none(order), "tau": mean_or_none(agrees[apart != 0]), "gap": success - failed,
            "gap_half": success - half, "final_success": success, "final_half": half, "final_failed": failed,
            "unknown": float(np.isnan(np.concatenate(good)).mean()) if good else None, "episodes": len(good)}


def true_scores(fitted: Fitted, method: str) -> Found:
    """Progress of all held-out frames to one goal, each as if its episode had started at the farthest of them."""
    sequence, unseen = fitted.sequences.sequence, np.flatnonzero(~fitted.kept)
    goal = rng_at(fitted.seed, Stream.PROGRESS_GOAL).choice(np.flatnonzero(fitted.kept))
    if fitted.domain == rope.NAME:  # the fewest moves that a hand could make between recorded states
        truth = distances_from(rope.true_moves(fitted.sequences).graph(), np.array([goal]))[0, unseen]
    else:  # metres around walls
        place = np.asarray(fitted.sequences.position)
        truth = maze.geodesic(fitted.domain, place[unseen], np.tile(place[goal], (len(unseen), 1)))
    left = fitted.left_by(method, np.array([goal]), unseen)
    farthest = left[int(np.argmax(np.where(np.isfinite(truth) & np.isfinite(left), truth, -1)))]
    parts = np.split(left, np.flatnonzero(np.diff(sequence[unseen])) + 1)  # by episode
    curve = np.concatenate([progress_curve(np.append([farthest, np.nan], part), 0.0)[2:] for part in parts])
    known = np.isfinite(curve) & np.isfinite(truth)
    return {"correlation": -np.corrcoef(curve[known], truth[known])[0, 1], "unknown": np.isnan(curve).mean()}


def table(rows: list[Row]) -> Lines:
    recorded, simulated = ([row for row in rows if (row["domain"] in SIMULATED) == kind] for kind in (False, True))
    for (domain,), some in parts_of(recorded, domain=()):
        yield from compare(some, domain, by_method(some, METHODS), by_metric(SHOWN))
    if columns := by_domain(simulated, SIMULATED, (("correlation", "correlation", 1, 3),)):
        yield from compare(simulated, "simulators", by_method(simulated, METHODS), columns)


EXPERIMENT = Experiment("progress", "Progress of unseen episodes", __doc__, run, table, None, DOMAINS, METHODS)
