"""SPTM's first-person mazes (Savinov, Dosovitskiy and Koltun, 2018) in ViZDoom: replays, exploration, and driving.

The folder holds `setups.json` (per maze its folder, its maps, goals and recordings), `default.cfg` and the mazes. It is
part of the authors' MIT-licensed release (github.com/nsavinov/SPTM); nothing of it is in this package."""

import json
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, chdir, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from plan2vec.data import Sequences, make_sequences
from plan2vec.learning.random_streams import Stream, rng_at

TICS, SECONDS_PER_TIC = 4, 1 / 35  # per frame, for which a button is held
BUTTONS = ("MOVE_LEFT", "MOVE_RIGHT", "ATTACK", "MOVE_FORWARD", "MOVE_BACKWARD", "TURN_LEFT", "TURN_RIGHT")
UNUSED = 4  # buttons of default.cfg behind these

ACTIONS = ("forward", "backward", "left", "right", "idle", "turn left", "turn right")  # what an agent may do
PRESSED = ("MOVE_FORWARD", "MOVE_BACKWARD", "MOVE_LEFT", "MOVE_RIGHT", None, "TURN_LEFT", "TURN_RIGHT")  # the button
BUTTONS_OF = [[button == pressed for button in BUTTONS] + [False] * UNUSED for pressed in PRESSED]  # which are down
BLOCKED = 4.0  # gray levels, on average, by which views differ at least where something moves
HELD = 6  # an exploring agent holds a button for at most so many decisions
TURNS = (ACTIONS.index("turn left"), ACTIONS.index("turn right"))
PREFERENCE = np.array([0.40, 0.14, 0.06, 0.06, 0.02, 0.16, 0.16])  # with which it draws the next one

TIME_LIMIT, IDLE_TICS = 5000, 140  # tics of a drive, and before it
SUCCESS_RADIUS = 63.0  # map units from the goal


def replay(folder: Path, maze: str, height: int = 72, width: int = 96) -> Sequences:
    """The authors' walkthrough of a maze as one sequence in colour, one frame per 4 tics. `position` (n, 2) is x and y
    in map units, `heading` (n,) degrees against the clock, `action` (n, 7) which of `BUTTONS` were down. The authors
    turned with the mouse: a turn counts as a button."""
    setup = find_setup(folder, maze)
    screens, places, pressed = zip(*list(replayed_tics(folder, setup, setup["walkthrough"]))[::TICS], strict=True)
    place, action = np.array(places), np.array(pressed, np.float32)
    turned = (np.diff(place[:, 2], append=place[-1, 2]) + 180) % 360 - 180
    action[:, BUTTONS.index("TURN_LEFT")] = turned > 0
    action[:, BUTTONS.index("TURN_RIGHT")] = turned < 0
    return make_sequences(np.stack([shrink(screen, height, width) for screen in screens]), position=place[:, :2],
                          heading=place[:, 2], action=action, source=f"{maze} (ViZDoom)",
                          time=np.arange(len(place)) * TICS * SECONDS_PER_TIC)


def explore(folder: Path, maze: str, num_actions: int, seed: int, height: int, width: int) -> Sequences:
    """Random driving from every start map in turn, one sequence each; every button is held for some decisions.
    `action` (n, 1) is the number of the button in ACTIONS that was held from a frame to the next, `position` (n, 2) and
    `heading` (n,) are for evaluation. `num_actions`: of all sequences together."""
    setup, rng = find_setup(folder, maze), rng_at(seed, Stream.EXPLORATION)
    sequence = np.sort(np.arange(num_actions) % len(setup["start_maps"]))
    frames, places, action = list[np.ndarray](), list[list[float]](), list[int]()
    for start_map, num in enumerate(np.bincount(sequence, minlength=len(setup["start_maps"])).tolist()):
        with started_game(folder, setup, start_map) as game:
            game.set_seed(int(rng.integers(2**31)))
            game.new_episode()
            press = HeldButtons(rng)
            for _ in range(num):
                screen, here = screen_and_place(game)
                frames.append(shrink(screen, height, width))
                places.append(here)
                action.append(press(frames[-1]))
                game.make_action(BUTTONS_OF[action[-1]], TICS)
    place = np.array(places)
    return make_sequences(np.stack(frames), sequence, position=place[:, :2], heading=place[:, 2],
                          action=np.array(action)[:, None], source=f"exploration of {maze} (ViZDoom)")


class HeldButtons:
    """Presses buttons at random, each held for up to HELD decisions; where nothing moves it turns away."""

    def __init__(self, rng: np.random.Generator):
        self.rng, self.left, self.pressed, self.before = rng, 0, ACTIONS.index("idle"), np.zeros(0)

    def __call__(self, view: np.ndarray) -> int:
        view = view.astype(np.float32)
        is_same = self.before.shape == view.shape and np.abs(view - self.before).mean() < BLOCKED
        is_blocked = is_same and self.pressed not in TURNS
        if self.left == 0 or is_blocked:
            self.pressed = int(self.rng.choice(TURNS) if is_blocked else self.rng.choice(len(ACTIONS), p=PREFERENCE))
            self.left = int(self.rng.integers(1, HELD + 1)) + 2 * is_blocked
        self.left, self.before = self.left - 1, view
        return self.pressed


class DoomMaze:
    """One start and one goal of a maze to drive in: `reset`, then `step` by step; `close` ends the game. A view is
    (120, 160, 3); beside it come position, heading and success, for evaluation."""

    def __init__(self, folder: Path, maze: str, start_map: int, goal: int) -> None:
        setup = find_setup(folder, maze)
        for name, number in (("start maps", start_map), ("goals", goal)):
            if not 0 <= number < (num := len(setup[name.replace(" ", "_")])):
                raise ValueError(f"{maze} has {name} 0 to {num - 1}, but {number} came")
        recording = setup["goals"][goal]["recording"]
        if not (file := folder / setup["folder"] / recording).is_file():
            raise ValueError(f"{file} is missing: the goal is given as the last view of this recording")
        *_, (goal_view, _, _) = replayed_tics(folder, setup, recording)
        self.place, self.goal_view = np.array(setup["goals"][goal]["position"]), goal_view.copy()
        opened = ExitStack()
        self.close, self._game = opened.close, opened.enter_context(started_game(folder, setup, start_map))

    def reset(self, seed: int) -> tuple[np.ndarray, dict[str, Any]]:
        self._game.set_seed(int(np.random.default_rng(seed).integers(2**31)))
        self._game.new_episode()
        for _ in range(IDLE_TICS // TICS):
            self._game.make_action(BUTTONS_OF[ACTIONS.index("idle")], TICS)
        return self._seen()

    def step(self, action: int) -> tuple[np.ndarray, dict[str, Any]]:
        """What is seen after an action of ACTIONS was held for 4 tics."""
        self._game.make_action(BUTTONS_OF[action], TICS)
        return self._seen()

    def _seen(self) -> tuple[np.ndarray, dict[str, Any]]:
        view, (*position, heading) = screen_and_place(self._game)
        arrived = bool(np.linalg.norm(position - self.place) < SUCCESS_RADIUS)
        return view.copy(), {"is_success": arrived, "position": np.array(position), "heading": heading}


def read_setups(folder: Path) -> dict[str, Any]:
    path = Path(folder) / "setups.json"
    if not path.is_file():
        raise ValueError(f"{folder} has no setups.json; give the folder of SPTM's mazes (setups.json, default.cfg, and "
                         "a folder per maze)")
    return json.loads(path.read_text(encoding="utf-8"))


def find_setup(folder: Path, maze: str) -> dict[str, Any]:
    if maze not in (setups := read_setups(folder)):
        raise ValueError(f"{folder / 'setups.json'} knows the mazes {', '.join(setups)}, but {maze!r} came")
    return setups[maze]


def shrink(screen: np.ndarray, height: int, width: int) -> np.ndarray:
    """(height, width, 3) of a screen: what recordings hold, and what an agent is shown."""
    return np.asarray(Image.fromarray(screen).resize((width, height), Image.Resampling.BOX))


@contextmanager
def started_game(folder: Path, setup: dict[str, Any], start_map: int = 0) -> Iterator[Any]:
    """A game of the maze in colour, at one of its start maps. What it writes goes into a temporary folder."""
    try:
        import vizdoom
    except ImportError:
        raise ValueError("ViZDoom is not installed; pip install 'plan2vec[doom]'") from None
    folder, game = Path(folder).resolve(), vizdoom.DoomGame()
    game.load_config(str(folder / "default.cfg"))
    game.set_screen_format(vizdoom.ScreenFormat.RGB24)
    game.set_doom_scenario_path(str(folder / setup["folder"] / setup["wad"]))
    game.set_doom_map(setup["start_maps"][start_map])
    game.set_window_visible(False)
    with tempfile.TemporaryDirectory(prefix="plan2vec-doom-") as scratch:
        with chdir(scratch):  # else it writes into the folder where the user stands
            game.init()
        try:
            yield game
        finally:
            game.close()


def screen_and_place(game: Any) -> tuple[np.ndarray, list[float]]:
    """What the game shows now, and where: (x, y, heading)."""
    state = game.get_state()
    return state.screen_buffer, [state.game_variables[which] for which in (0, 1, 3)]


def replayed_tics(folder: Path, setup: dict[str, Any], recording: str) -> Iterator[tuple]:
    """Screen, (x, y, heading) and buttons of every tic of a recorded episode."""
    with started_game(folder, setup) as game:
        game.replay_episode(str(Path(folder).resolve() / setup["folder"] / recording))
        while not game.is_episode_finished():
            screen, place = screen_and_place(game)
            game.advance_action()
            yield screen, place, game.get_last_action()[: len(BUTTONS)]
