"""Claim: the learned distance as potential and the map's vectors as observations speed up learning, most so together.

Expected: steps to 90 % success: with the potential fewer than without, from vectors fewer than from pixels; from pixels
without the potential no agent gets there in 20,000 steps. The paper has no such experiment.

A room with real actions: random starts and goals, -1 per step, 0 within 0.02 m of the goal, 50 steps. The agent is
stable-baselines3's DQN: two layers of 256, an update per step, the same settings for all four, no hindsight
relabelling. It sees pictures of 16 x 16 pixels, its own and the difference to the goal's, or the same of their vectors
on a fixed map. The map (8-d, default settings) was fitted to 500 random rollouts of 10 such pictures: 4,500 recorded
steps that are *not* counted below. "Shaped" adds the map's potential to the reward (`plan2vec.DistanceReward`).
Success: 100 episodes after every 1,000 steps, the best action, with probability 0.05 a random one."""

from dataclasses import replace
from functools import lru_cache
from types import ModuleType

from plan2vec.experiments.base_scene import Found, SceneExperiment
from plan2vec.experiments.maze_scene import ROOM_TITLES, MazeScene
from plan2vec.model import Model
from plan2vec.pipeline import fit
from plan2vec.results.comparisons import Figures, curve_figure
from plan2vec.results.rows import Arrays, Row, cell, in_order, markdown, select, values

ROOM = "c-maze"
METHODS = {f"{sees}, {'shaped' if shaped else 'sparse'}": (sees, shaped)  # what the agent sees; is its reward shaped?
           for shaped in (False, True) for sees in ("images", "vectors")}
NUM_ROLLOUTS = 500  # that the map is fitted to
WANTED = 0.9  # success


def measure(scene: MazeScene, method: str) -> Found:
    agents = import_agents()
    tiny = {"num_steps": 160, "steps_between": 80, "updates_per_move": 2, "steps_before": 32, "episodes": 20}
    settings = agents.AgentSettings(**(tiny if scene.size.is_smoke else {}))
    success = agents.train_agent(scene.domain, fit_map(scene), *METHODS[method], settings, scene.seed)
    reached, last = next((steps for steps, share in success.items() if share >= WANTED), None), max(success)
    return {"steps": {steps: {"success": share} for steps, share in success.items()}, "steps_to_90": reached,
            "success_at_end": success[last], "steps_in_all": last}


@lru_cache(maxsize=8)
def fit_map(scene: MazeScene) -> Model:
    """The map of small pictures, once for all agents of a seed."""
    recordings = import_agents().record(scene.domain, min(NUM_ROLLOUTS, scene.size.num_rollouts), scene.seed)
    return fit(recordings, replace(scene.size.config, seed=scene.seed), device="cpu")


def import_agents() -> ModuleType:
    try:
        from plan2vec.experiments import reward_agents
    except ModuleNotFoundError as error:
        raise ValueError(f"agents that learn by acting need the extra [rl] ({error.name} is missing): pip install "
                         "'plan2vec[rl]'") from None
    return reward_agents


def table(rows: list[Row]) -> list[str]:
    """Seeds that never got there have no steps to count."""
    body = []
    for method in in_order(rows, "method", METHODS):
        reached, at_end = (values(rows, method=method, metric=metric) for metric in ("steps_to_90", "success_at_end"))
        num_seeds = len(select(rows, method=method, metric="steps_to_90"))
        steps = cell(reached, digits=0) + (", of those that did" if 0 < len(reached) < num_seeds else "")
        body.append([method, steps, f"{len(reached)} of {num_seeds}", cell(at_end, 100)])
    return markdown([ROOM_TITLES[ROOM], "environment steps to 90 % success", "seeds that got there",
                     f"success % after {int(values(rows, metric='steps_in_all').max()):,} steps"], body)


def draw(rows: list[Row], arrays: Arrays) -> Figures:
    lines = {method: {"method": method, "metric": "success"} for method in METHODS}
    shown = [({"xlabel": "environment steps", "title": ROOM_TITLES[ROOM], "ylim": (0, 103)}, lines)]
    yield "", curve_figure(rows, "steps", shown, (6.0, 3.6), 2, level=100 * WANTED)


EXPERIMENT = SceneExperiment("reward", "The distance as reward, the map as observation: learning to act", __doc__,
                             measure, table, draw, (ROOM,), METHODS, kind=MazeScene)
