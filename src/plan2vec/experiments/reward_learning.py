"""Claim: the learned distance as potential and the map's vectors as observations speed up learning, most so together.

Expected: steps to 90 % success: with the potential fewer than without, from vectors fewer than from pixels; from pixels
without the potential no agent gets there in 20,000 steps. The paper has no such experiment.

A room with real actions: random starts and goals, -1 per step, 0 within 0.02 m of the goal, 50 steps. The agent is
stable-baselines3's DQN: two layers of 256, an update per step, the same settings for all four, no hindsight
relabelling. It sees pictures of 16 x 16 pixels, its own and the difference to the goal's, or the same of their vectors
on a fixed map. The map (8-d, default settings) was fitted to 500 random rollouts of 10 such pictures: 4,500 recorded
steps that are *not* counted below. "Shaped" adds the map's potential to the reward (`plan2vec.DistanceReward`).
Success: 100 episodes after every 1,000 steps, the best action, with probability 0.05 a random one.
"""

from dataclasses import replace
from functools import lru_cache
from types import ModuleType

from plan2vec.experiments.maze_scene import ROOM_TITLES
from plan2vec.model import Model
from plan2vec.pipeline import fit
from plan2vec.results.comparisons import Figures, curve_figure, legend_below
from plan2vec.results.rows import Arrays, Case, Groups, Row, cell, in_order, make_rows, markdown, select, values
from plan2vec.results.settings import Settings, Size, timed

NAME, TITLE = "reward", "The distance as reward, the map as observation: learning to act"
DOMAINS = ("c-maze",)
METHODS = {f"{sees}, {'shaped' if shaped else 'sparse'}": (sees, shaped)  # what the agent sees; is its reward shaped?
           for shaped in (False, True) for sees in ("images", "vectors")}
BLOCKS = ()
NUM_ROLLOUTS = 500  # that the map is fitted to
WANTED = 0.9  # success


def run(settings: Settings) -> Groups:
    for room, seed in settings.scenes(DOMAINS):
        for method in settings.chosen("methods", tuple(METHODS)):
            case = Case(NAME, room, {}, method, seed)
            if settings.lacks(case):
                success, seconds = timed(learn, room, method, seed, settings.size)
                rows = make_rows(case, summary(success), seconds, settings.stamp)
                for steps, share in success.items():
                    rows += make_rows(replace(case, setting={"steps": steps}), {"success": share}, 0.0, settings.stamp)
                yield rows


def learn(room: str, method: str, seed: int, size: Size) -> dict[int, float]:
    """Success by the number of steps taken."""
    agents = import_agents()
    settings = agents.AgentSettings()
    if size.is_smoke:
        settings = agents.AgentSettings(160, 80, updates_per_move=2, steps_before=32, episodes=20)
    return agents.train_agent(room, fit_map(room, seed, size), *METHODS[method], settings, seed)


def summary(success: dict[int, float]) -> dict[str, float | None]:
    """Steps after which the success first was as wanted, None where it never was; and how it all ended."""
    reached, last = next((steps for steps, share in success.items() if share >= WANTED), None), max(success)
    return {"steps_to_90": reached, "success_at_end": success[last], "steps_in_all": last}


@lru_cache(maxsize=8)
def fit_map(room: str, seed: int, size: Size) -> Model:
    """The map of small pictures, once for all agents of a seed."""
    recordings = import_agents().record(room, min(NUM_ROLLOUTS, size.num_rollouts), seed)
    return fit(recordings, replace(size.config, seed=seed), device="cpu")


def import_agents() -> ModuleType:
    try:
        from plan2vec.experiments import reward_agents
    except ModuleNotFoundError as error:
        missing = f"need the extra [rl] ({error.name} is missing)"
        raise ValueError(f"agents that learn by acting {missing}: pip install 'plan2vec[rl]'") from None
    return reward_agents


def table(rows: list[Row]) -> list[str]:
    """A table a room; seeds that never got there have no steps to count."""
    lines = []
    for room in in_order(rows, "domain", DOMAINS):
        part = select(rows, domain=room)
        header = [ROOM_TITLES[room], "environment steps to 90 % success", "seeds that got there",
                  f"success % after {int(values(part, metric='steps_in_all').max()):,} steps"]
        lines += markdown(header, [line(part, method) for method in in_order(part, "method", METHODS)])
    return lines


def line(rows: list[Row], method: str) -> list[str]:
    reached = values(rows, method=method, metric="steps_to_90")
    num_seeds = len(select(rows, method=method, metric="steps_to_90"))
    steps = cell(reached, digits=0) + (", of those that did" if 0 < len(reached) < num_seeds else "")
    at_end = cell(values(rows, method=method, metric="success_at_end"), 100)
    return [method, steps, f"{len(reached)} of {num_seeds}", at_end]


def draw(rows: list[Row], arrays: Arrays) -> Figures:
    shown = [({"xlabel": "environment steps", "title": ROOM_TITLES[room], "ylim": (0, 103)},
              {method: {"domain": room, "method": method, "metric": "success"} for method in METHODS})
             for room in in_order(rows, "domain", DOMAINS)]
    figure, axes = curve_figure(rows, "steps", shown, (max(6.0, 4.5 * len(shown)), 3.6))
    for ax in axes:
        ax.axhline(100 * WANTED, color="0.7", linewidth=1, zorder=0)
    axes[0].set_ylabel("success (%)")
    legend_below(figure, axes[0], 2)
    return {NAME: figure}
