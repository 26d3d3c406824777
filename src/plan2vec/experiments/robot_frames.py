"""A robot's frames, which are not part of the program, and made-up ones that stand in for them in smoke runs."""

import sys

import numpy as np

from plan2vec.data import Sequences, make_sequences
from plan2vec.results.experiment import Settings

ROBOT, STAND_IN = "g1-bottle", "made-up"  # the latter is the domain of a smoke run


def robot_domain(settings: Settings) -> str | None:
    """Named after the file; None, and said so, where no file was given."""
    if settings.recordings is None:
        print(f"{ROBOT} is left out: its frames are not part of the program; give them by --recordings PATH "
              "(docs/domains.md says where they come from)", file=sys.stderr)
        return None
    return settings.recordings.stem.replace("_", "-")


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
