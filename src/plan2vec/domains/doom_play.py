"""What an agent may press in SPTM's mazes, the views of their goals, and random exploration."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from plan2vec.data import Sequences, make_sequences
from plan2vec.domains import doom
from plan2vec.learning.random_streams import Stream, rng_at

ACTIONS = ("forward", "backward", "left", "right", "idle", "turn left", "turn right")
PRESSED = ("MOVE_FORWARD", "MOVE_BACKWARD", "MOVE_LEFT", "MOVE_RIGHT", None, "TURN_LEFT", "TURN_RIGHT")
NUM_BUTTONS = 11  # of default.cfg; those behind `doom.BUTTONS` are never pressed
BLOCKED = 4.0  # gray levels, on average, by which views differ at least where something moves
HELD = 6  # an exploring agent holds a button for at most so many decisions
TURNS = (ACTIONS.index("turn left"), ACTIONS.index("turn right"))
PREFERENCE = np.array([0.40, 0.14, 0.06, 0.06, 0.02, 0.16, 0.16])  # with which it draws the next one


def buttons(action: int) -> list[bool]:
    """Which of the game's buttons are down."""
    pressed = PRESSED[action]
    return [pressed is not None and number == doom.BUTTONS.index(pressed) for number in range(NUM_BUTTONS)]


BUTTONS_OF = [buttons(action) for action in range(len(ACTIONS))]


def find_goal(setup: dict[str, Any], goal: int) -> dict[str, Any]:
    if not 0 <= goal < len(setup["goals"]):
        raise ValueError(f"{setup['folder']} has goals 0 to {len(setup['goals']) - 1}, but {goal} came")
    return setup["goals"][goal]


def goal_view(folder: Path, setup: dict[str, Any], goal: int) -> np.ndarray:
    """(120, 160, 3) the last view of a goal's recording."""
    recording = folder / setup["folder"] / find_goal(setup, goal)["recording"]
    if not recording.is_file():
        raise ValueError(f"{recording} is missing: the goal is given as the last view of this recording")
    with tempfile.TemporaryDirectory(prefix="plan2vec-doom-") as scratch:
        game = doom.start_game(folder, setup, Path(scratch))
        *_, (screen, _, _) = doom.replayed_tics(game, recording)
    return screen.copy()


def explore(folder: Path, maze: str, num_actions: int, seed: int, height: int, width: int) -> Sequences:
    """Random driving from every start map in turn, one sequence each; every button is held for some decisions.

    `action` (n, 1) is the number of the button in ACTIONS that was held from a frame to the next, `position` (n, 2) and
    `heading` (n,) are for evaluation. `num_actions`: of all sequences together.
    """
    folder = Path(folder).resolve()
    setup = doom.find_setup(folder, maze)
    num_maps = len(setup["start_maps"])
    rng, found = rng_at(seed, Stream.EXPLORATION), []
    with tempfile.TemporaryDirectory(prefix="plan2vec-doom-") as scratch:
        for start_map, share in enumerate(np.array_split(np.arange(num_actions), num_maps)):
            game = doom.start_game(folder, setup, Path(scratch), start_map)
            try:
                found.append(_drive_at_random(game, len(share), rng, (height, width)))
            finally:
                game.close()
    frames, places, action = (np.concatenate(parts) for parts in zip(*found, strict=True))
    sequence = np.repeat(np.arange(num_maps), [len(part[0]) for part in found])
    return make_sequences(frames, sequence, position=places[:, :2], heading=places[:, 2], action=action[:, None],
                          source=f"exploration of {maze} (ViZDoom)")


class HeldButtons:
    """Presses buttons at random, each held for up to HELD decisions; where nothing moves it turns away."""

    def __init__(self, rng: np.random.Generator):
        self.rng, self.left, self.pressed, self.before = rng, 0, ACTIONS.index("idle"), np.zeros(0)

    def __call__(self, view: np.ndarray) -> int:
        view = view.astype(np.float32)
        is_blocked = self.pressed not in TURNS and np.shape(self.before) == view.shape and (
            np.abs(view - self.before).mean() < BLOCKED)
        if self.left == 0 or is_blocked:
            self.pressed = int(self.rng.choice(TURNS) if is_blocked else self.rng.choice(len(ACTIONS), p=PREFERENCE))
            self.left = int(self.rng.integers(1, HELD + 1)) + 2 * is_blocked
        self.left, self.before = self.left - 1, view
        return self.pressed


def _drive_at_random(game: Any, num_actions: int, rng: np.random.Generator,
                     size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Frames (n, h, w, 3), places (n, 3) and actions (n,)."""
    game.set_seed(int(rng.integers(2**31)))
    game.new_episode()
    press, frames, places, actions = HeldButtons(rng), list[np.ndarray](), list[list[float]](), list[int]()
    for _ in range(num_actions):
        state = game.get_state()
        frames.append(doom.shrink(state.screen_buffer, *size))
        places.append([state.game_variables[which] for which in (0, 1, 3)])
        actions.append(press(frames[-1]))
        game.make_action(BUTTONS_OF[actions[-1]], doom.TICS)
    return np.stack(frames), np.array(places), np.array(actions)
