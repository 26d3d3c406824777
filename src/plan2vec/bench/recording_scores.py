"""Claim: with default settings a recording that nobody tuned to becomes a graph whose plans can be carried out.

Command: plan2vec bench recordings --paths office1.npz rc_car_laps.npz --doom-data sptm --mazes branching --seeds 3
Cost: seconds, in the rows
Expected: plan_validity at least 0.97 on average, revisit_recall 0.7; with --joined closures between recordings 0.5 %

Every recording is fitted with the defaults, once per seed, and judged by `evaluate`: the reference names the measures.
`--doom-data` replays walks through mazes, `--joined` fits all recordings as one, each with a label of its own, so that
every closure between two of them is false. `--dynamics` rolls out simulators whose steps cannot all be undone:
which hops of a plan are impossible? With `phase` (laps of a loop, in [0, 1)): is the map a ring?"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import chain, pairwise, product
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from plan2vec.bench.measuring import number_table
from plan2vec.config import Config
from plan2vec.data import Sequences, make_sequences, transitions
from plan2vec.domains import doom
from plan2vec.evaluation import evaluate, rank_agreement
from plan2vec.graph.build import edge_rows
from plan2vec.model import Model
from plan2vec.pipeline import fit
from plan2vec.planner import make_plans
from plan2vec.readers import read
from plan2vec.results.rows import Case, Row, make_rows, stamp_of
from plan2vec.validity import SOON, counted_closures

COLUMNS = (
    "plan_validity", "plan_validity_10", "plan_validity_14", "unreachable", "greedy_validity", "revisit_recall",
    "spearman_true", "loop_closures", "false_edge_share", "auprc", "recall_at_99_precision", "recall_at_100_precision",
    "cross_label_share", "closures_within_label", "estimated_false_closures", "reversibility",
    "largest_component_share", "ring_spearman", "ring_false_share", "impossible_hops", "success")
PICTURE = (48, 64)  # height and width of mazes' pictures
MAX_PHASE = 0.1  # of a lap between the ends of a true closure
NUM_PAIRS = 20_000
NUM_ROLLOUTS, LENGTH = 15, 200  # 3,000 frames
NUM_PLANS, MOST_STEPS = 100, 3  # plans whose hops are judged; steps that a hop may take
TOLERANCE = 0.5  # of the median recorded step, in coordinates of unit deviation: so near counts as arrived


class Recording(NamedTuple):
    name: str
    sequences: Sequences
    phase: np.ndarray | None = None  # (n,) laps of a loop, in [0, 1)


def run(seed: int, paths: tuple[Path, ...] = (), seeds: int = 1, config: Config = Config(), device: str = "auto",
        doom_data: Path | None = None, mazes: tuple[str, ...] = (), joined: bool = False,
        dynamics: tuple[str, ...] = (), encoder: str | None = None) -> dict:
    if not (paths or doom_data or dynamics):
        raise ValueError(
            "bench recordings needs --paths (recordings to fit, e.g. --paths office1.npz), --doom-data or --dynamics")
    if mazes and not doom_data:
        raise ValueError("--mazes needs --doom-data, the folder of SPTM's mazes")
    if unknown := set(dynamics) - set(DYNAMICS):
        raise ValueError(f"--dynamics knows {', '.join(DYNAMICS)}, but {unknown.pop()!r} came")
    configs = [replace(config, encoder=encoder or config.encoder, seed=number) for number in range(seed, seed + seeds)]
    given = ((recording, one) for recording in recordings(paths, doom_data, mazes, joined) for one in configs)
    made = ((Recording(name, roll_out(name, one.seed)), one) for name, one in product(dynamics, configs))
    rows = [row for recording, one in chain(given, made) for row in rows_of(recording, one, device)]
    return {"table": number_table(rows, COLUMNS, {"domain": "recording", "method": "method"})[:-1], "rows": rows}


def recordings(paths: tuple[Path, ...], doom_data: Path | None, mazes: tuple[str, ...],
               joined: bool) -> Iterable[Recording]:
    names = mazes or (tuple(doom.read_setups(doom_data)) if doom_data else ())
    each = (Recording(path.stem, read(path), phase_of(path)) for path in paths)
    walks = (Recording(name, doom.replay(doom_data, name, *PICTURE)) for name in names if doom_data)
    return [join([*each, *walks])] if joined else chain(each, walks)


def phase_of(path: Path) -> np.ndarray | None:
    if path.suffix != ".npz":
        return None
    with np.load(path, allow_pickle=False) as file:
        return file.get("phase")


def join(parts: list[Recording]) -> Recording:
    """All recordings as one, with the number of the recording as label."""
    shapes = {part.name: part.sequences.frame_shape for part in parts}
    if len(parts) < 2 or len(set(shapes.values())) > 1:
        told = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise ValueError(f"--joined needs two or more recordings with frames of one shape, but got {told}")
    sequence = np.concatenate([part.sequences.sequence + 10**6 * number for number, part in enumerate(parts)])
    truth = {name: np.concatenate([getattr(part.sequences, name) for part in parts]) for name in ("position", "heading")
             if all(getattr(part.sequences, name) is not None for part in parts)}
    label = np.repeat(np.arange(len(parts)), [part.sequences.num_frames for part in parts])
    frames = np.concatenate([part.sequences.frames for part in parts])
    return Recording("+".join(shapes), make_sequences(frames, sequence, label=label, **truth))


def rows_of(recording: Recording, config: Config, device: str) -> list[Row]:
    began = perf_counter()
    model = fit(recording.sequences, config, device=device)
    card = {name: value for name, value in evaluate(model).items() if isinstance(value, int | float) and name != "seed"}
    card |= ring_numbers(model, recording.phase)
    if recording.name in DYNAMICS:
        card |= impossible_hops(recording.name, model)
    method = f"plan2vec, {config.encoder} encoder" if config.encoder else "plan2vec"
    case = Case("recordings", recording.name, {"view": model.config.view}, method, model.config.seed)
    return make_rows(case, card, round(perf_counter() - began, 1), stamp_of(model.device))


def ring_numbers(model: Model, phase: np.ndarray | None) -> dict[str, float]:
    """For laps of one loop: is the map a ring, do distances and closures agree with it?"""
    if phase is None:
        return {}
    first, second = np.random.default_rng(0).integers(len(phase), size=(2, NUM_PAIRS))
    counted = counted_closures(model.graph, model.sequences.sequence, SOON)
    gaps = lap_gap(phase[edge_rows(model.graph)[counted]], phase[model.graph.indices[counted]])
    agreement = rank_agreement(model.distance_between(first, second), lap_gap(phase[first], phase[second]))
    return {"ring_spearman": agreement or 0.0, "ring_closures": len(gaps),
            "ring_false_share": float(np.mean(gaps > MAX_PHASE)) if len(gaps) else 0.0}


def lap_gap(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Share of a lap between two phases, the short way round."""
    gap = np.abs(np.subtract(first, second, dtype=float)) % 1
    return np.minimum(gap, 1 - gap)


class World(NamedTuple):
    """Gymnasium's physics (classic control), written for many states at once; a test compares the two."""
    environment: str
    actions: np.ndarray  # (a,) the grid that is tried
    move: Callable[[np.ndarray, np.ndarray], np.ndarray]  # observations (m, d), actions (m,) -> the next (m, d)


def swing(seen: np.ndarray, torque: np.ndarray) -> np.ndarray:  # (m, 3) cos, sin, speed
    angle, speed = np.arctan2(seen[:, 1], seen[:, 0]), seen[:, 2]
    speed = np.clip(speed + (15 * np.sin(angle) + 3 * torque) * 0.05, -8, 8)
    angle = angle + speed * 0.05
    return np.column_stack((np.cos(angle), np.sin(angle), speed))


def drive(seen: np.ndarray, push: np.ndarray) -> np.ndarray:  # (m, 2) place, speed; 0, 1, 2: left, not at all, right
    place, speed = seen[:, 0], seen[:, 1]
    speed = np.clip(speed + (push - 1) * 0.001 - np.cos(3 * place) * 0.0025, -0.07, 0.07)
    place = np.clip(place + speed, -1.2, 0.6)
    return np.column_stack((place, np.where((place == -1.2) & (speed < 0), 0, speed)))


def balance(seen: np.ndarray, side: np.ndarray) -> np.ndarray:
    """One step of the cart-pole; (place, speed, angle, turn) per row; 0 pushes left, 1 right."""
    place, speed, angle, turn = seen.T
    sine, cosine = np.sin(angle), np.cos(angle)
    pushed = (20 * side - 10 + 0.05 * turn**2 * sine) / 1.1
    turning = (9.8 * sine - cosine * pushed) / (0.5 * (4 / 3 - 0.1 * cosine**2 / 1.1))
    speeding = pushed - 0.05 * turning * cosine / 1.1
    return np.column_stack((place + 0.02 * speed, speed + 0.02 * speeding, angle + 0.02 * turn, turn + 0.02 * turning))


def tumble(seen: np.ndarray, torque: np.ndarray) -> np.ndarray:
    """One step of the acrobot; (cos, sin) of both angles, both turns per row; 0, 1, 2 turn left, not at all, right."""

    def slope(state: np.ndarray) -> np.ndarray:
        upper, lower, turn, bend = state
        inertia, coupling = 3.5 + np.cos(lower), 1.25 + 0.5 * np.cos(lower)
        weight = 4.9 * np.sin(upper + lower)
        load = -0.5 * bend * (bend + 2 * turn) * np.sin(lower) + 14.7 * np.sin(upper) + weight
        pull = torque - 1 + coupling / inertia * load - 0.5 * turn**2 * np.sin(lower) - weight
        bending = pull / (1.25 - coupling**2 / inertia)
        return np.stack((turn, bend, -(coupling * bending + load) / inertia, bending))

    state = np.stack((np.arctan2(seen[:, 1], seen[:, 0]), np.arctan2(seen[:, 3], seen[:, 2]), seen[:, 4], seen[:, 5]))
    first = slope(state)  # Runge and Kutta's four slopes over 0.2 s
    second = slope(state + 0.1 * first)
    third = slope(state + 0.1 * second)
    fourth = slope(state + 0.2 * third)
    upper, lower, turn, bend = state + 0.2 / 6 * (first + 2 * second + 2 * third + fourth)
    turn, bend = np.clip(turn, -4 * np.pi, 4 * np.pi), np.clip(bend, -9 * np.pi, 9 * np.pi)
    return np.column_stack((np.cos(upper), np.sin(upper), np.cos(lower), np.sin(lower), turn, bend))


DYNAMICS = {"pendulum": World("Pendulum-v1", np.linspace(-2, 2, 9), swing),
            "mountain-car": World("MountainCar-v0", np.arange(3.0), drive),
            "cart-pole": World("CartPole-v1", np.arange(2.0), balance),
            "acrobot": World("Acrobot-v1", np.arange(3.0), tumble)}


def roll_out(name: str, seed: int) -> Sequences:
    """Random actions in the simulator itself; the full state is observed. Where an episode ends another one begins."""
    try:
        import gymnasium
    except ImportError:
        raise ValueError("gymnasium is not installed; pip install 'plan2vec[envs]'") from None
    environment: Any = gymnasium.make(DYNAMICS[name].environment, max_episode_steps=10 * LENGTH)
    environment.action_space.seed(seed)
    seen, begins = [], []
    for number in range(NUM_ROLLOUTS * LENGTH):
        over = number % LENGTH == 0
        if over:
            frame = environment.reset(seed=1000 * seed + number // LENGTH)[0]
        else:
            frame, _, over, _, _ = environment.step(environment.action_space.sample())
            frame = environment.reset()[0] if over else frame
        seen.append(frame)
        begins.append(over)
    return make_sequences(np.stack(seen), np.cumsum(begins) - 1, source=f"simulated {name}")


def impossible_hops(name: str, model: Model) -> dict[str, float]:
    """Share of the hops of A* plans that no actions of up to three steps achieve; and that of recorded steps."""
    seen, start = model.sequences.frames.astype(np.float64), transitions(model.sequences.sequence)
    starts, goals = np.random.default_rng(model.config.seed).integers(len(seen), size=(2, NUM_PLANS))
    plans = make_plans(model.graph, model.distance_between, starts, goals, "astar")
    nodes = [plan.nodes for plan in plans if plan.nodes is not None]
    first, second = np.array([hop for path in nodes for hop in pairwise(path)], np.int64).reshape(-1, 2).T
    scale = 1 / seen.std(axis=0)
    tolerance = TOLERANCE * np.median(np.linalg.norm((seen[start + 1] - seen[start]) * scale, axis=1))
    hops, recorded = (1 - achieved(DYNAMICS[name], seen[here], seen[there], scale, tolerance)
                      for here, there in ((first, second), (start, start + 1)))
    return {"impossible_hops": float(hops.mean()) if len(hops) else 0.0, "plans_found": len(nodes) / NUM_PLANS,
            "impossible_recorded_steps": float(recorded.mean())}


def achieved(world: World, first: np.ndarray, second: np.ndarray, scale: np.ndarray, tolerance: float) -> np.ndarray:
    """(m,) bool: some actions of the grid lead from `first` (m, d) to within the tolerance of `second`. None at all is
    allowed too: two frames that show almost one state need no action."""
    done = np.zeros(len(first), bool)
    for part in np.array_split(np.arange(len(first)), max(1, len(first) // 2000)):
        here, which = first[part], part
        for steps in range(MOST_STEPS + 1):
            if steps:
                tried = np.tile(world.actions, len(here))
                here, which = (np.repeat(rows, len(world.actions), axis=0) for rows in (here, which))
                here = world.move(here, tried)
            done[which[np.linalg.norm((here - second[which]) * scale, axis=1) <= tolerance]] = True
    return done
