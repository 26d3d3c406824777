"""Claim: an audit finds nine in ten of the damaged episodes and hardly any other; splices of look-alikes may stay
hidden.

Expected: recall and precision of at least 0.9 for every kind of damage.

Damage of one kind at a time is planted in a tenth of the episodes: copies are added, other kinds change an episode.
Planted are only episodes in which nothing is found in the unspoiled recording. *Found*: the episode has a finding of
the expected kind. *False*: another episode has one that it does not have in the unspoiled recording; *known*: one that
it has there, too. Spliced: two episodes exchange their ends, so that no frame occurs twice. A cut may join look-alikes,
so that no eye sees it. These splices have a row of their own: what is known in truth (where things are, how the joints
stand) changes no more there than over 99 % of the recorded steps by two. The simulated episodes go from anywhere in the
C-Maze to one goal, before a noisy camera. The real ones are read from `--recordings` and named after the file, at 5
frames per second. No map is fitted: all these kinds are found in frames. *There and back* needs one: it is fitted to
the spoiled recording. The rules were chosen on seeds below 40; damage that is found in frames was planted with seeds
from 40 on."""

from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from typing import NamedTuple

import numpy as np
from scipy.stats import binomtest

from plan2vec.data import Sequences, frames_ahead, make_sequences
from plan2vec.datasets.audit import Audit, audit
from plan2vec.domains import maze
from plan2vec.experiments.episode_progress import ROBOT, robot_recordings
from plan2vec.pipeline import fit
from plan2vec.readers import read
from plan2vec.readers.refusals import import_extra
from plan2vec.results.experiment import Experiment, Settings, timed
from plan2vec.results.rows import Case, Groups, Lines, Row, in_order, make_rows, markdown, parts_of, select, values

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
    spoiled = [(COPIES | CHANGES)[kind](episodes[label], rate, rng) for label in chosen]
    if kind in COPIES:
        copies = dict(enumerate(spoiled, max(episodes) + 1))
        return Damaged(joined(episodes | copies), dict(zip(copies, chosen, strict=True)))
    return Damaged(joined(episodes | dict(zip(chosen, spoiled, strict=True))), dict.fromkeys(chosen))


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
    """Whether things and joints moved no more from one frame to the other than nearly always over two steps."""
    start = frames_ahead(sequences.sequence, 2)
    known = [truth for truth in (sequences.position, sequences.action) if truth is not None]
    return bool(known) and all(
        np.linalg.norm(truth[second] - truth[first])
        <= np.quantile(np.linalg.norm(truth[start + 2] - truth[start], axis=1), NEARLY_ALL) for truth in known)


def trimmed(frames: Episode, rate: float, rng: np.random.Generator) -> Episode:
    num = int(rng.uniform(*KEPT) * len(frames))
    first = int(rng.integers(len(frames) - num + 1))
    return frames[first : first + num]


def reencoded(frames: Episode, rate: float, rng: np.random.Generator) -> Episode:
    """Through a real video codec and back, in the size of a camera's pictures."""
    av, file, num = import_extra("av"), BytesIO(), ENLARGED
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


Spoil = Callable[[Episode, float, np.random.Generator], Episode]  # frames, frames per second, chance
COPIES: dict[str, Spoil] = {"copied": lambda frames, rate, rng: frames, "trimmed copy": trimmed,
                            "re-encoded copy": reencoded}
CHANGES: dict[str, Spoil] = {
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


_, SIMULATED = DOMAINS = (ROBOT, "c-maze")
BLOCKS, METHODS = ("planted", "map"), ("plan2vec",)
ROBOT_RATE, SIMULATED_RATE = 5.0, 10.0  # frames per second
EXPECTED = {"copied": "duplicate", "trimmed copy": "duplicate", "re-encoded copy": "duplicate",
            "reversed": "wrong-end", "cut": "wrong-end", "spliced": "jump", "frozen": "frozen", "shifted": "off-map",
            "darkened": "off-map", "there and back": "detour"}
FRAMES_ONLY = tuple(EXPECTED)[:-1]
NUM_EPISODES = 60  # simulated


def run(settings: Settings) -> Groups:
    blocks = settings.chosen("blocks", BLOCKS)
    for known, seed in settings.scenes(DOMAINS):
        is_simulated, kinds = known == SIMULATED, FRAMES_ONLY if "planted" in blocks else ()
        kinds += ("there and back",) if is_simulated and "map" in blocks else ()
        for domain, path in {SIMULATED: None}.items() if is_simulated else robot_recordings(settings).items():
            cases = {kind: Case(settings.experiment, domain, {"block": "planted", "damage": kind}, METHODS[0], seed)
                     for kind in kinds if settings.lacks(domain=domain, damage=kind, seed=seed)}
            if cases and path is not None:
                yield from audited(settings, read(path), ROBOT_RATE, cases)
            elif cases:
                num = 12 if settings.size.is_smoke else NUM_EPISODES
                yield from audited(settings, goal_episodes(SIMULATED, num, seed), SIMULATED_RATE, cases)


def audited(settings: Settings, sequences: Sequences, rate: float, cases: dict[str, Case]) -> Groups:
    unspoiled, seconds = timed(audit, sequences)
    clean = {f"findings {kind}": sum(one.kind == kind for one in unspoiled.all_findings)
             for kind in sorted({*EXPECTED.values(), "stall", "length"})}
    case = replace(next(iter(cases.values())), setting={"block": "unspoiled"})
    yield make_rows(case, {"episodes": len(unspoiled.rows)} | clean, seconds, settings.stamp)
    sound = [row.episode for row in unspoiled.rows if not row.findings]
    for kind, case in cases.items():
        rng = np.random.default_rng((case.seed, list(EXPECTED).index(kind)))
        damaged, needs_map = plant(sequences, kind, rate, sound, rng), kind not in FRAMES_ONLY
        model = fit(damaged.sequences, settings.size.config, device=settings.device.type) if needs_map else None
        answer, seconds = timed(audit, damaged.sequences, model)
        yield make_rows(case, counts(damaged, answer, unspoiled, kind), seconds, settings.stamp)


def counts(damaged: Damaged, answer: Audit, unspoiled: Audit, kind: str) -> dict[str, int]:
    """How many were planted, found, and found elsewhere. Of a copy either episode may be named."""
    named, before = ([one for one in audit.all_findings if one.kind == EXPECTED[kind]] for audit in (answer, unspoiled))
    if kind in COPIES:
        pairs = {frozenset((one.episode, one.other[0])) for one in named if one.other}
        right = {copy for copy, original in damaged.planted.items() if frozenset((copy, original)) in pairs}
        wrong = pairs - {frozenset(pair) for pair in damaged.planted.items()}
        return {"planted": len(damaged.planted), "found": len(right), "false": len(wrong), "known": 0}
    flagged, known = ({one.episode for one in some} for some in (named, before))
    elsewhere, seen = flagged - damaged.planted.keys(), damaged.planted.keys() - damaged.hidden
    return {"planted": len(damaged.planted), "found": len(flagged & damaged.planted.keys()), "seen": len(seen),
            "found_seen": len(flagged & seen), "false": len(elsewhere - known), "known": len(elsewhere & known)}


def wilson(num: float, of: float) -> str:
    """ "0.97 (0.83-0.99)": a share and its 95 % interval by Wilson's score."""
    if not of:
        return "-"
    low, high = binomtest(round(num), round(of)).proportion_ci(method="wilson")
    return f"{num / of:.2f} ({low:.2f}-{high:.2f})"


def table(rows: list[Row]) -> Lines:
    for (domain,), part in parts_of(select(rows, block="planted"), domain=()):
        body = []
        for kind, expected in EXPECTED.items():
            planted, found, seen, found_seen, false, known = (
                values(part, damage=kind, metric=metric).sum()
                for metric in ("planted", "found", "seen", "found_seen", "false", "known"))
            if planted:
                body.append([kind, expected, f"{planted:.0f}", wilson(found, planted), wilson(found, found + false),
                             f"{false:.0f}", f"{known:.0f}"])
            if 0 < seen < planted:
                for words, num, right in (("apart", seen, found_seen),
                                          ("within two steps", planted - seen, found - found_seen)):
                    body.append([f"- {kind}, ends {words}", "", f"{num:.0f}", wilson(right, num), "", "", ""])
        clean = select(rows, domain=domain, block="unspoiled")
        head = f"{domain}, {values(clean, metric='episodes').mean():.0f} episodes: damage"
        yield from markdown([head, "finding", "planted", "recall", "precision", "false", "known"], body)
        words = ", ".join(f"{metric.removeprefix('findings ')} {values(clean, metric=metric).mean():.1f}"
                          for metric in in_order(clean, "metric")
                          if metric.startswith("findings") and values(clean, metric=metric).any())
        yield from (f"Findings in the unspoiled recording, per repetition ({len(in_order(clean, 'seed'))}): "
                    f"{words or 'none'}.", "")


EXPERIMENT = Experiment("audit", "Damaged episodes found", __doc__, run, table, None, DOMAINS, METHODS, BLOCKS)
