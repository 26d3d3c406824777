"""Claim: after one walkthrough of an unseen maze, an agent led by the map drives to any picture of it.

Expected: success within 5,000 tics at least 90 % on average over the test mazes, at least 80 % in each; paths at most
twice the shortest way; at least 100 decisions per second on one core.

SPTM's task: views of 160 x 120, seven buttons held for 4 tics, success within 63 map units of the goal. Every method
has the same walkthrough and, but for *random*, the same controller, which has explored other mazes only. *SPTM* is
rebuilt, its reachability network trained on the same exploration. *Graph search* plans on our graph by Dijkstra instead
of the map. *Teach and repeat* follows the walkthrough's order. *Controller alone* heads for the goal's picture.
`path_ratio`: driven way of the successes over the shortest one, which is Dijkstra's over true positions of walkthrough
and exploration. `touched_per_decision`: nodes of the graph that planning looked at.
plan2vec and SPTM: 6 trials x 4 start maps x 4 goals per seed; the others 2 trials, first seed.
"""

import sys

import numpy as np

from plan2vec.acting.driver import Driver
from plan2vec.domains import doom
from plan2vec.experiments.base_scene import Found, mean_or_none
from plan2vec.experiments.doom_scene import DoomScene, Episode, drive
from plan2vec.results.comparisons import LOOKS, Figures, by_method, by_metric, compare, legend_below, panels
from plan2vec.results.experiment import Experiment, Settings
from plan2vec.results.rows import Arrays, Groups, Row, in_order, pictured, select

MAIN, OTHERS = ("plan2vec", "SPTM"), ("graph search", "teach and repeat", "controller alone", "random")
METHODS = (*MAIN, *OTHERS)
NUM_TRIALS, FEW_TRIALS = 6, 2
SMOKE_DECISIONS = 20
SHOWN = (("success", "success, %", 100, 1), ("success_2000", "within 2,000 tics, %", 100, 1),
         ("path_ratio", "way / shortest", 1, 2), ("decisions_per_second", "decisions per second", 1, 0),
         ("touched_per_decision", "touched per decision", 1, 1), ("episodes", "episodes", 1, 0))


def run(settings: Settings) -> Groups:
    if settings.doom_data is None:
        print("doom is left out: give the folder of SPTM's mazes by --doom-data FOLDER (docs/control-and-reward.md)",
              file=sys.stderr)
        return
    setups = doom.read_setups(settings.doom_data)
    for maze in settings.mazes:
        doom.find_setup(settings.doom_data, maze)
    mazes = settings.mazes or tuple(setups)
    for domain, seed in settings.scenes(tuple(f"doom/{maze}" for maze in mazes)):
        scene = DoomScene(domain.removeprefix("doom/"), seed, settings, settings.arrays.parent / "runs")
        yield from scene.measured(settings, METHODS if seed == settings.seeds[0] else MAIN, measure)


def measure(scene: DoomScene, method: str) -> Found:
    driver, setup = scene.driver(method), doom.find_setup(scene.folder, scene.maze)
    num_trials = 1 if scene.size.is_smoke else NUM_TRIALS if method in MAIN else FEW_TRIALS
    limit = SMOKE_DECISIONS if scene.size.is_smoke else doom.TIME_LIMIT // doom.TICS
    episodes, ratios = list[Episode](), list[float]()
    for start_map in range(len(setup["start_maps"])):
        for goal in range(len(setup["goals"])):
            environment = doom.DoomMaze(scene.folder, scene.maze, start_map, goal)
            tried = [drive(environment, driver, 1000 * scene.seed + trial, limit) for trial in range(num_trials)]
            environment.close()
            shortest = scene.ways.shortest(tried[0].path[0], environment.place, doom.SUCCESS_RADIUS)
            ratios += [way_length(episode.path) / shortest for episode in tried if episode.arrived]
            episodes += tried
    num = sum(episode.num_decisions for episode in episodes)
    tics = np.array([doom.TICS * episode.num_decisions if episode.arrived else np.inf for episode in episodes])
    touched = driver.guide.num_touched if isinstance(driver, Driver) else 0
    shown = episodes[:: num_trials][:: len(setup["goals"]) + 1]  # every start, each with another goal
    found: Found = {"success": np.isfinite(tics).mean(), "success_2000": (tics <= 2000).mean()}
    found |= {"path_ratio": mean_or_none(np.array([ratio for ratio in ratios if np.isfinite(ratio)])),
              "decisions_per_second": num / sum(episode.seconds for episode in episodes),
              "touched_per_decision": touched / num, "episodes": len(episodes)}
    found |= {"fit_seconds": sum(scene.model.seconds.values())} if method == "plan2vec" else {}
    paths = [np.insert(one.path, 0, number, axis=1) for number, one in enumerate(shown)]
    return found | {"tics": tics, "walk": scene.recordings.position, "path": np.concatenate(paths)}


def way_length(path: np.ndarray) -> float:
    return float(np.linalg.norm(np.diff(path, axis=0), axis=1).sum())


def table(rows: list[Row]) -> list[str]:
    lines = []
    for domain in in_order(rows, "domain"):
        some = select(rows, domain=domain)
        lines += compare(some, domain.removeprefix("doom/"), by_method(some, METHODS), by_metric(SHOWN))
    return lines


def draw(rows: list[Row], arrays: Arrays) -> Figures:
    domains = in_order(rows, "domain")
    kept = {domain: pictured(select(rows, domain=domain), arrays) for domain in domains}
    known = [domain for domain in domains if kept[domain]]
    if not known:
        return {}
    success, axes = panels(len(known), 3.2 * len(known) + 1, 3.4)
    paths, grounds = panels(len(known), 3.2 * len(known) + 1, 3.4)
    for domain, ax, ground in zip(known, axes, grounds, strict=True):
        for look, method in enumerate(METHODS):
            if method in kept[domain]:
                tics = np.sort(kept[domain][method]["tics"])
                color, _, dashes = LOOKS[look]
                share = 100 * np.arange(1, len(tics) + 1) / len(tics)
                ax.step(np.append(tics[np.isfinite(tics)], 5000), np.append(
                    share[np.isfinite(tics)], 100 * np.isfinite(tics).mean()), dashes, color=color, where="post",
                    label=method)
        ax.set(title=domain.removeprefix("doom/"), xlabel="time limit (tics)", xlim=(0, 5000), ylim=(0, 103))
        first = kept[domain].get("plan2vec") or next(iter(kept[domain].values()))
        ground.plot(*first["walk"].T, ".", color="0.8", markersize=2)
        for number in np.unique(first["path"][:, 0]):
            driven = first["path"][first["path"][:, 0] == number, 1:]
            ground.plot(*driven.T, color=LOOKS[int(number) % len(LOOKS)][0])
            ground.plot(*driven[0], "o", color="black", markersize=4)
        ground.set(title=domain.removeprefix("doom/"), aspect="equal", xticks=[], yticks=[])
    axes[0].set_ylabel("success (%)")
    legend_below(success, axes[0], 6)
    return {"": success, "paths": paths}


EXPERIMENT = Experiment("doom", "Driving in SPTM's mazes", __doc__, run, table, draw, (), METHODS)
