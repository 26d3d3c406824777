"""First-person walks through the mazes of SPTM (Savinov, Dosovitskiy and Koltun, 2018), replayed in ViZDoom.

The folder holds `setups.json` (per maze its folder, its maps and its recordings), `default.cfg` and the mazes. It is
part of the authors' MIT-licensed release (github.com/nsavinov/SPTM); nothing of it is in this package.
"""

import contextlib
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from plan2vec.data import Sequences, make_sequences

TICS = 4  # per frame: a button is held so long
SECONDS_PER_TIC = 1 / 35
BUTTONS = ("MOVE_LEFT", "MOVE_RIGHT", "ATTACK", "MOVE_FORWARD", "MOVE_BACKWARD", "TURN_LEFT", "TURN_RIGHT")


def replay(folder: Path, maze: str, height: int = 72, width: int = 96) -> Sequences:
    """The authors' walkthrough of a maze as one sequence in colour, one frame per 4 tics.

    `position` (n, 2) is x and y in map units, `heading` (n,) degrees against the clock, `action` (n, 7) which of
    `BUTTONS` were down. The authors turned with the mouse: a turn counts as a button.
    """
    folder = Path(folder).resolve()
    setup = find_setup(folder, maze)
    with tempfile.TemporaryDirectory(prefix="plan2vec-doom-") as scratch:
        game = start_game(folder, setup, Path(scratch))
        kept = list(replayed_tics(game, folder / setup["folder"] / setup["walkthrough"]))[::TICS]
    screens, places, pressed = zip(*kept, strict=True)
    place, action = np.array(places), np.array(pressed, np.float32)
    turned = (np.diff(place[:, 2], append=place[-1, 2]) + 180) % 360 - 180
    action[:, BUTTONS.index("TURN_LEFT")] = turned > 0
    action[:, BUTTONS.index("TURN_RIGHT")] = turned < 0
    return make_sequences(
        np.stack([shrink(screen, height, width) for screen in screens]), position=place[:, :2], heading=place[:, 2],
        action=action, time=np.arange(len(place)) * TICS * SECONDS_PER_TIC, source=f"{maze} (ViZDoom)"
    )


def read_setups(folder: Path) -> dict[str, Any]:
    """What `setups.json` says of every maze."""
    path = Path(folder) / "setups.json"
    if not path.is_file():
        raise ValueError(f"{folder} has no setups.json; give the folder of SPTM's mazes (setups.json, default.cfg, and "
                         "a folder per maze)")
    return json.loads(path.read_text(encoding="utf-8"))


def find_setup(folder: Path, maze: str) -> dict[str, Any]:
    setups = read_setups(folder)
    if maze not in setups:
        raise ValueError(f"{folder / 'setups.json'} knows the mazes {', '.join(setups)}, but {maze!r} came")
    return setups[maze]


def shrink(screen: np.ndarray, height: int, width: int) -> np.ndarray:
    """(height, width, 3) of a screen: what recordings hold, and what an agent is shown."""
    return np.asarray(Image.fromarray(screen).resize((width, height), Image.Resampling.BOX))


def start_game(folder: Path, setup: dict[str, Any], scratch: Path, start_map: int = 0) -> Any:
    """A game of the maze in colour, at one of its start maps; `folder` is absolute. The game writes into `scratch`."""
    try:
        import vizdoom
    except ImportError:
        raise ValueError("ViZDoom is not installed; pip install 'plan2vec[doom]'") from None
    game = vizdoom.DoomGame()
    game.load_config(str(folder / "default.cfg"))
    game.set_screen_format(vizdoom.ScreenFormat.RGB24)
    game.set_doom_scenario_path(str(folder / setup["folder"] / setup["wad"]))
    game.set_doom_map(setup["start_maps"][start_map])
    game.set_window_visible(False)
    with contextlib.chdir(scratch):  # else it writes into the folder where the user stands
        game.init()
    return game


def replayed_tics(game: Any, recording: Path) -> Iterator[tuple[np.ndarray, list[float], list[float]]]:
    """Screen, (x, y, heading) and buttons of every tic of a recorded episode; the game is closed at its end."""
    try:
        game.replay_episode(str(recording))
        while not game.is_episode_finished():
            state = game.get_state()
            x, y, _, heading = state.game_variables
            game.advance_action()
            yield state.screen_buffer, [x, y, heading], game.get_last_action()[: len(BUTTONS)]
    finally:
        game.close()
