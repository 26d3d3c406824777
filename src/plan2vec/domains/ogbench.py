"""OGBench's point mazes (Park et al., 2025): the published environments, data sets made anew by the published recipe.

    generate("pointmaze-giant-stitch-v0", Path("data"))      # data/pointmaze-giant-stitch-v0.npz, a million steps

The published files are a download; these have the same form and come from the same environment and rule. A guide that
knows the maze walks to the centre of the next cell on the way to its goal, with Gaussian noise in every action.
*Navigate* episodes are long, and another goal follows each one reached; *stitch* episodes are short and end four cells
away, so that no episode shows a long way. Every episode is a function of the seed and its number alone, so the number
of processes changes nothing. Needs the extra [ogbench]."""

import os
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from plan2vec.domains.children import record_in_children
from plan2vec.files import replacing

MAZES = ("medium", "large", "giant", "teleport")
KINDS = ("navigate", "stitch")
NAMES = tuple(f"pointmaze-{maze}-{kind}-v0" for kind in KINDS for maze in MAZES)
NOISE = 0.5  # standard deviation of what is added to every action
STITCH_CELLS = 4  # between start and goal of a stitch episode
FIELDS = {"observations": np.float32, "actions": np.float32, "terminals": bool, "qpos": np.float32, "qvel": np.float32}

Cell = tuple[int, int]  # row and column of a maze


class Recipe(NamedTuple):
    """The published sizes; each set has a million transitions."""

    name: str
    maze: str
    kind: str
    num_episodes: int
    num_steps: int  # frames of an episode: one more than its transitions


def find_recipe(name: str) -> Recipe:
    if name not in NAMES:
        raise ValueError(f"--env must be one of {', '.join(NAMES)}, but is {name!r}")
    _, maze, kind, _ = name.split("-")
    sizes = (5000, 201) if kind == "stitch" else (500, 2001) if maze == "giant" else (1000, 1001)
    return Recipe(name, maze, kind, *sizes)


def make_environment(name: str, **options: Any) -> Any:
    try:
        import gymnasium
        import ogbench.locomaze  # noqa: F401 - registers the environments
    except ImportError as error:
        raise ValueError(f"OGBench's environments cannot be imported ({error}); "
                         "pip install 'plan2vec[ogbench]'") from None
    return gymnasium.make(f"pointmaze-{find_recipe(name).maze}-v0", **options)


def generate(name: str, folder: Path, seed: int = 0, num_episodes: int | None = None,
             num_workers: int | None = None) -> Path:
    """The data set `name` as a file of `folder`, made by several processes; a file that is there already is kept."""
    path = folder / f"{name}.npz"
    if path.exists():
        return path
    num_episodes = num_episodes or find_recipe(name).num_episodes
    make_environment(name)  # says at once what is missing
    num_workers = min(num_workers or os.cpu_count() or 1, num_episodes)
    folder.mkdir(parents=True, exist_ok=True)
    recorded = (record_episodes(name, seed, range(num_episodes)) if num_workers == 1 else
                record_in_children(["-m", __name__, name, str(seed)], num_episodes, num_workers))
    with replacing(path) as temporary:
        np.savez_compressed(temporary, **recorded)  # type: ignore[arg-type]
    return path


def record_episodes(name: str, seed: int, numbers: range) -> dict[str, np.ndarray]:
    """These episodes of a data set, laid end to end, in OGBench's fields."""
    recipe = find_recipe(name)
    env = make_environment(name, terminate_at_goal=False, max_episode_steps=recipe.num_steps).unwrapped
    guide, recorded = Guide(env), list[tuple]()
    for number in numbers:
        np.random.seed((seed, number))  # noqa: NPY002 - the environment itself draws from numpy's global state
        own_seed = 1_000_003 * seed + number
        env.action_space.seed(own_seed)
        rng = np.random.default_rng(own_seed)
        start = guide.cells[rng.integers(len(guide.cells))]
        goals = guide.goals_from(start, recipe.kind)
        goal = goals[rng.integers(len(goals))]
        observation, _ = env.reset(seed=own_seed, options={"task_info": {"init_ij": start, "goal_ij": goal}})
        for step in range(recipe.num_steps):
            action = np.clip(guide.direction(env.get_xy(), env.cur_goal_xy) + rng.normal(0, NOISE, 2), -1, 1)
            before, (observation, _, _, _, info) = observation, env.step(action)
            if info["success"] and recipe.kind == "navigate":  # another goal follows
                env.set_goal(goal_xy=env.add_noise(env.ij_to_xy(goals[rng.integers(len(goals))])))
            recorded.append((before, action, step == recipe.num_steps - 1, info["prev_qpos"], info["prev_qvel"]))
    columns = zip(*recorded, strict=True)
    return {name: np.array(values, dtype) for (name, dtype), values in zip(FIELDS.items(), columns, strict=True)}


class Guide:
    """Who knows the maze: the way from cell to cell, and which cells are goals."""

    def __init__(self, env: Any):
        self.cells: list[Cell] = [(i, j) for i, j in np.argwhere(env.maze_map == 0).tolist()]
        around = {(i, j): env.maze_map[[i - 1, i + 1, i, i], [j, j, j - 1, j + 1]] != 0 for i, j in self.cells}
        self.crossings = [cell for cell in self.cells  # those that do not only lead straight on
                          if around[cell].tolist() not in ([False, False, True, True], [True, True, False, False])]
        self._locate = env.xy_to_ij
        centre = {cell: np.array(env.ij_to_xy(cell), float) for cell in self.cells}
        self._next_centre = lru_cache(None)(lambda here, goal: env.get_oracle_subgoal(centre[here], centre[goal])[0])
        self._cells_to = lru_cache(None)(lambda goal: env.get_oracle_subgoal(centre[goal], centre[goal])[1])

    def goals_from(self, start: Cell, kind: str) -> list[Cell]:
        if kind == "navigate":
            return self.crossings
        return [cell for cell in self.cells if self._cells_to(start)[cell] == STITCH_CELLS] or [start]

    def direction(self, here: np.ndarray, goal: np.ndarray) -> np.ndarray:
        """(2,) towards the centre of the next cell, of length 1."""
        way = self._next_centre(self._locate(here), self._locate(goal)) - here
        return way / (np.linalg.norm(way) + 1e-6)


if __name__ == "__main__":  # a child of `generate`
    name, seed, first, last, file = sys.argv[1:]
    np.savez(file, **record_episodes(name, int(seed), range(int(first), int(last))))  # type: ignore[arg-type]
