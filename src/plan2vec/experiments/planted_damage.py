"""Episodes with damage planted in some of them, for the experiment that counts what an audit finds."""

from collections.abc import Callable
from io import BytesIO
from typing import NamedTuple

import numpy as np

from plan2vec.data import Sequences, make_sequences
from plan2vec.domains import maze
from plan2vec.readers.messages import import_extra

SHARE = 0.1  # of the episodes
KEPT = (0.6, 0.8)  # of a trimmed copy
MIDDLE = (0.3, 0.7)  # where an episode is cut for a splice, as a share of it
NEARLY_ALL = 0.99  # of the recorded steps by two
CODEC, ENLARGED = {"crf": "30"}, 4  # H.264, of pictures this many times as large as the frames, as a camera gives them
FROZEN_SECONDS, SHIFT, DARKENED = 2.0, 0.05, 0.7
GOAL, ARRIVED = np.array((-0.2, 0.18)), 0.02  # of the simulated episodes, metres
FAR_START = 0.45  # metres of way to the goal
SPEED, NOISE, WHITE = 0.018, 2.0, 0.9  # metres a frame; gray levels of the camera's noise; how bright white is
Episode = np.ndarray  # (m, h, w, c) frames


class Damaged(NamedTuple):
    sequences: Sequences
    planted: dict[int, int | None]  # episode that was damaged -> the original, of a copy
    hidden: frozenset[int] = frozenset()  # planted splices whose ends lie within two steps in truth


def split(sequences: Sequences) -> dict[int, Episode]:
    return {int(label): sequences.frames[sequences.sequence == label] for label in np.unique(sequences.sequence)}


def joined(episodes: dict[int, Episode]) -> Sequences:
    labels = np.repeat(list(episodes), [len(one) for one in episodes.values()])
    return make_sequences(np.concatenate(list(episodes.values())), labels)


def plant(sequences: Sequences, kind: str, rate: float, sound: list[int], rng: np.random.Generator) -> Damaged:
    """One kind of damage in a tenth of the episodes, drawn from the sound ones; copies come in addition."""
    episodes = split(sequences)
    chosen = rng.choice(sound, max(2, round(SHARE * len(episodes))) // 2 * 2, replace=False).tolist()
    if kind == "spliced":
        return splice(sequences, chosen, rng)
    if kind in COPIES:
        free = max(episodes) + 1
        copies = {free + k: COPIES[kind](episodes[label], rng) for k, label in enumerate(chosen)}
        return Damaged(joined(episodes | copies), dict(zip(copies, chosen, strict=True)))
    episodes |= {label: CHANGES[kind](episodes[label], rate, rng) for label in chosen}
    return Damaged(joined(episodes), dict.fromkeys(chosen))


def splice(sequences: Sequences, chosen: list[int], rng: np.random.Generator) -> Damaged:
    """Pairs of episodes exchange their ends. No frame occurs twice: nothing but the jump can give a splice away."""
    numbers = {int(label): np.flatnonzero(sequences.sequence == label) for label in np.unique(sequences.sequence)}
    hidden = []
    for pair in zip(chosen[::2], chosen[1::2], strict=True):
        parts = [np.split(numbers[label], [int(rng.uniform(*MIDDLE) * len(numbers[label]))]) for label in pair]
        for label, (head, _), (_, tail) in zip(pair, parts, parts[::-1], strict=True):
            numbers[label] = np.concatenate((head, tail))
            hidden += [label] * within_two_steps(sequences, head[-1], tail[0])
    episodes = {label: sequences.frames[some] for label, some in numbers.items()}
    return Damaged(joined(episodes), dict.fromkeys(chosen), frozenset(hidden))


def within_two_steps(sequences: Sequences, first: int, second: int) -> bool:
    """Whether others get from one frame to the other in two steps: where things are and how the robot's joints stand
    differs by no more than over nearly all recorded steps by two.
    """
    start = np.flatnonzero(sequences.sequence[2:] == sequences.sequence[:-2])
    known = [truth for truth in (sequences.position, sequences.action) if truth is not None]
    return bool(known) and all(
        np.linalg.norm(truth[second] - truth[first])
        <= np.quantile(np.linalg.norm(truth[start + 2] - truth[start], axis=1), NEARLY_ALL) for truth in known)


def trimmed(frames: Episode, rng: np.random.Generator) -> Episode:
    num = int(rng.uniform(*KEPT) * len(frames))
    first = int(rng.integers(len(frames) - num + 1))
    return frames[first : first + num]


def reencoded(frames: Episode, rng: np.random.Generator) -> Episode:
    """Through a real video codec and back, in the size of a camera's pictures."""
    av = import_extra("av")
    file, num = BytesIO(), ENLARGED
    with av.open(file, "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=10, options=CODEC)
        stream.height, stream.width, stream.pix_fmt = num * frames.shape[1], num * frames.shape[2], "yuv420p"
        for frame in np.broadcast_to(frames, (*frames.shape[:3], 3)):
            large = np.ascontiguousarray(frame.repeat(num, axis=0).repeat(num, axis=1))
            container.mux(stream.encode(av.VideoFrame.from_ndarray(large, format="rgb24")))
        container.mux(stream.encode())
    file.seek(0)
    with av.open(file) as container:
        decoded = np.stack([frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)])
    shape = *frames.shape[:2], num, frames.shape[2], num, 3
    return decoded.reshape(shape).mean(axis=(2, 4)).astype(np.uint8)[..., : frames.shape[3]]


def frozen(frames: Episode, rate: float, rng: np.random.Generator) -> Episode:
    """The camera shows one frame for two seconds, and then what is there by then."""
    num = round(FROZEN_SECONDS * rate)
    first = int(rng.integers(len(frames) - num))
    return np.concatenate((frames[:first], np.repeat(frames[first : first + 1], num, axis=0), frames[first + num :]))


def shifted(frames: Episode, rate: float, rng: np.random.Generator) -> Episode:
    """Up, down, left or right; the border is drawn out."""
    axis, sign = int(rng.integers(1, 3)), int(rng.choice((-1, 1)))
    size = frames.shape[axis]
    return frames.take(np.clip(np.arange(size) + sign * round(SHIFT * size), 0, size - 1), axis)


def there_and_back(frames: Episode, rate: float, rng: np.random.Generator) -> Episode:
    """Most of the way, back to the start, and then all of it."""
    turn = int(rng.uniform(*KEPT) * len(frames))
    return np.concatenate((frames[:turn], frames[turn::-1], frames))


COPIES: dict[str, Callable[..., Episode]] = {"copied": lambda frames, rng: frames, "trimmed copy": trimmed,
                                             "re-encoded copy": reencoded}
CHANGES: dict[str, Callable[..., Episode]] = {
    "reversed": lambda frames, rate, rng: frames[::-1], "cut": lambda frames, rate, rng: frames[: len(frames) // 2],
    "frozen": frozen, "shifted": shifted, "darkened": lambda frames, rate, rng: (DARKENED * frames).astype(np.uint8),
    "there and back": there_and_back}


def goal_episodes(room_name: str, num: int, seed: int) -> Sequences:
    """Demonstrations in a room: from anywhere far away to one goal, with swerves, seen by a noisy camera."""
    room, rng, walks = maze.find_room(room_name), np.random.default_rng(seed), list[np.ndarray]()
    while len(walks) < num:
        start = maze.sample_positions(room, 1, rng)
        if maze.geodesic(room_name, start, GOAL[None])[0] >= FAR_START:
            walks.append(walk_to_goal(room, start[0], rng))
    position = np.concatenate(walks)
    gray = WHITE * maze.render(room, position) + rng.normal(0, NOISE, (len(position), maze.PIXELS, maze.PIXELS, 1))
    frames, labels = np.clip(gray, 0, 255).astype(np.uint8), np.repeat(np.arange(num), [len(one) for one in walks])
    return make_sequences(frames, labels, position=position, domain=room_name, source=f"simulated {room_name} episodes")


def walk_to_goal(room: maze.Room, start: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """(m, 2) positions; nobody stands still, and who touches a wall goes straight on."""
    angles = np.linspace(0, 2 * np.pi, 24, endpoint=False)
    speed, swerve, walk = SPEED * rng.uniform(0.8, 1.2), 0.0, [start]
    ways = speed * np.stack((np.cos(angles), np.sin(angles)), axis=1)
    while np.linalg.norm(walk[-1] - GOAL) > ARRIVED:
        options = maze.step(room, np.tile(walk[-1], (len(ways), 1)), ways)
        best = int(maze.geodesic(room.name, options, np.tile(GOAL, (len(ways), 1))).argmin())
        swerve = 0.8 * swerve + rng.normal(0, 0.35)
        turned = angles[best] + swerve
        step = speed * rng.uniform(0.5, 1.3) * np.array((np.cos(turned), np.sin(turned)))
        reached = maze.step(room, walk[-1][None], step[None])[0]
        if np.linalg.norm(reached - walk[-1]) < 0.3 * speed:
            reached, swerve = options[best], 0.0
        walk.append(reached)
    return np.stack(walk)
