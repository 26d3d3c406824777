"""What an audit finds in the frames of single episodes: stalls, strange light, views and frames, jumps, ends, lengths.

Every number is compared with what the other episodes of the same recording show. It is a finding beyond Tukey's far
fence: three interquartile ranges above the upper quartile (or below the lower one). So up to a quarter of the episodes
may be bad, and no threshold knows the recording. None of this needs a map."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.ndimage import find_objects, label, maximum_filter, minimum_filter1d

from plan2vec.data import Sequences, change_ahead, chunks
from plan2vec.datasets.prints import Episodes, difference

FENCE = 3.0  # interquartile ranges
LEAST_STILL = 5  # frames: shorter pauses and doubled frames are no finding
FROZEN_SHARE = 0.05  # of the median step's change in pixels: a camera's noise changes more
BLACK, WHITE, SATURATED = 12.0, 250, 0.5  # mean gray; gray of a saturated pixel; share of the pixels others leave
JUMP_WINDOW, JUMP_BLOCKS = 3, 3  # steps before and after, blocks around: where they change, motion is expected
LEAST_JUMP = 0.3  # of the step: less is no jump, however smooth the others are
FAR_STEPS, LASTING = 4.0, 3  # frames nearer to one of another episode are known; frames that must not be
NUM_ALIKE, MOST_ALIKE = 9, 0.6  # other episodes that show where an end lies; the share of them that must agree
MOST_ROUNDS = 6  # of leaving out those with wrong ends
NEIGHBORS = 3  # episodes before and after, over whose view that of an episode is laid
REACH = 0.1  # of the side: the largest shift that is tried
MOST_DIFFERENCE = 20.0  # gray levels: what moves in the scene counts no more than this
LEAST_SHIFT = 0.004  # of the side: a quarter of a pixel of 64
MOST_LEFT = 0.8  # of the difference between two views, once they are shifted over each other: else it is no shift
MOST_FRAMES = 200  # of an episode, for its usual view


@dataclass(frozen=True)
class Finding:
    episode: int  # number, as the recording has it
    kind: str
    first: int  # frames of the episode, counted from 0
    last: int
    words: str
    severity: float  # how many times the fence, 1 or more
    other: tuple[int, int] | None = None  # of a copy: the original episode, and its frame that equals `first`


def fence(values: np.ndarray, least_range: float) -> tuple[float, float]:
    """Below and above these a value is far from the others."""
    low, high = np.quantile(values, (0.25, 0.75))
    spread = FENCE * max(high - low, least_range)
    return float(low - spread), float(high + spread)


def frames_words(first: int, last: int) -> str:
    return f"frame {first}" if first == last else f"frames {first}-{last}"


def find_still(episodes: Episodes, frames: np.ndarray) -> list[Finding]:
    """The longest pause of an episode, where others have none so long: the camera froze, or nothing moved."""
    pixel_change = np.append(change_ahead(frames), np.nan)
    moved = pixel_change[pixel_change > 0]
    frozen_below = FROZEN_SHARE * float(np.median(moved)) if len(moved) else 0.0
    frozen = [_longest_run(pixel_change[episodes.part(k)][:-1] <= frozen_below) for k in range(episodes.num)]
    stalls = [_longest_pause(episodes, k) for k in range(episodes.num)]
    found: list[Finding] = []
    for kind, runs, words in (("frozen", frozen, "no pixel changes in {}: the camera froze"),
                              ("stall", stalls, "nothing moves in {}")):
        length = np.array([stop - first for first, stop in runs])
        limit = max(LEAST_STILL - 1, fence(length, 1.0)[1])
        for k in np.flatnonzero(length > limit):
            first, stop = runs[k]
            if any(one.episode == episodes.label[k] and one.first < stop and first < one.last for one in found):
                continue  # it stalls because the camera froze
            text = words.format(frames_words(first, stop)) + f" ({stop - first + 1} frames; others up to {limit:.0f})"
            found.append(Finding(int(episodes.label[k]), kind, first, stop, text, length[k] / limit))
    return found


def _longest_run(holds: np.ndarray) -> tuple[int, int]:
    """(first, stop) of the longest stretch where it holds; equal where it never does."""
    runs = [run for (run,) in find_objects(label(holds)[0])]
    longest = max(runs, key=lambda run: run.stop - run.start, default=slice(0, 0))
    return longest.start, longest.stop


def _longest_pause(episodes: Episodes, number: int) -> tuple[int, int]:
    """(first, last) frames that all show what the first one shows: slow motion ends a pause."""
    part = episodes.part(number)
    moves = episodes.change[part] > episodes.still_below
    best, first = (0, 0), 0
    for k in range(1, len(moves)):
        away = difference(episodes.prints[part.start + first], episodes.prints[part.start + k])
        if moves[k - 1] or away > episodes.still_below:
            first = k
        elif k - first > best[1] - best[0]:
            best = first, k
    return best


def find_light(episodes: Episodes, sequences: Sequences) -> Iterator[Finding]:
    """Black and overexposed frames; episodes that are darker or brighter than the others."""
    gray = episodes.prints.mean(axis=1)
    white = np.empty(len(gray), np.float32)
    for part in chunks(sequences.frames, len(gray)):
        some = sequences.frames[part]
        white[part] = (some >= WHITE).mean(axis=tuple(range(1, some.ndim)))
    usual, usual_white = float(np.median(gray)), float(np.median(white))
    is_black, is_white = gray < min(BLACK, usual / 2), white > usual_white + SATURATED * (1 - usual_white)
    for part, episode in zip(map(episodes.part, range(episodes.num)), episodes.label.tolist(), strict=True):
        for kind, holds in (("black", is_black[part]), ("overexposed", is_white[part])):
            if holds.any():
                first, stop = _longest_run(holds)
                text = f"{frames_words(first, stop - 1)} are {kind} ({np.count_nonzero(holds)} of {len(holds)} frames)"
                yield Finding(episode, kind, first, stop - 1, text, 1 + 9 * float(holds.mean()))
    level = np.array([np.median(gray[episodes.part(k)]) for k in range(episodes.num)])
    low, high = fence(level, 0.02 * usual)
    for k in np.flatnonzero((level < low) | (level > high)):
        than, bound = ("darker", low) if level[k] < low else ("brighter", high)
        text = f"all frames are {than} than the others' (mean gray {level[k]:.0f}; others {low:.0f} to {high:.0f})"
        severity = 1 + abs(level[k] - bound) / max(high - low, 1e-9)
        yield Finding(int(episodes.label[k]), "off-map", 0, int(episodes.length[k]) - 1, text, severity)


def find_shifts(episodes: Episodes, sequences: Sequences) -> Iterator[Finding]:
    """Episodes in which the camera stood elsewhere; the light does not matter. Cameras are moved between sessions, too.
    So the usual view of an episode is laid over those of the episodes recorded before it and of those after it, and the
    better match counts: what begins with an episode and stays is no finding."""
    views = np.empty((episodes.num, *sequences.frame_shape[:2]), np.float32)  # the median gray of every pixel
    for number, view in enumerate(views):
        frames = sequences.frames[episodes.part(number)]
        view[:] = np.median(frames[:: -(-len(frames) // MOST_FRAMES)].mean(axis=-1, dtype=np.float32), axis=0)
    level = views.mean(axis=(1, 2), keepdims=True)
    views *= np.median(level) / np.maximum(level, 1)
    shifts = np.stack([_shift_of(views, k) for k in range(episodes.num)])
    length = np.linalg.norm(shifts, axis=1)
    limit = fence(length, LEAST_SHIFT * max(views.shape[1:]))[1]
    for k in np.flatnonzero(length > limit):
        down, right = shifts[k]
        words = f"all frames are shifted, {abs(right):.1f} pixels to the {'right' if right > 0 else 'left'} and "
        words += f"{abs(down):.1f} {'down' if down > 0 else 'up'}: the camera moved (others less than {limit:.1f})"
        yield Finding(int(episodes.label[k]), "off-map", 0, int(episodes.length[k]) - 1, words, length[k] / limit)


def _shift_of(views: np.ndarray, number: int) -> np.ndarray:
    """(2,) pixels down and right, against the episodes before or after, whichever match better."""
    before, after = views[max(0, number - NEIGHBORS) : number], views[number + 1 : number + 1 + NEIGHBORS]
    sides = [side for side in (before, after) if len(side) == NEIGHBORS] or [np.delete(views, number, axis=0)]
    matches = [measured_shift(views[number], np.median(side, axis=0)) for side in sides]
    shift, left, unmoved = min(matches, key=lambda match: match[1])
    return shift if left <= MOST_LEFT * unmoved else np.zeros(2)


def measured_shift(view: np.ndarray, reference: np.ndarray) -> tuple[np.ndarray, float, float]:
    """(2,) pixels down and right by which the view lies from the reference; how much they differ then, and unmoved.
    Whole shifts are tried, a parabola lies between."""
    reach = [max(1, round(REACH * size)) for size in view.shape]
    inner = reference[reach[0] : -reach[0], reach[1] : -reach[1]]
    cost = np.empty((2 * reach[0] + 1, 2 * reach[1] + 1))
    for down, right in np.ndindex(cost.shape):
        moved = view[down : down + inner.shape[0], right : right + inner.shape[1]]
        cost[down, right] = np.minimum(np.abs(moved - inner), MOST_DIFFERENCE).mean()
    best = np.unravel_index(int(cost.argmin()), cost.shape)
    shift = np.array([place - far + _vertex(line, int(place))
                      for place, far, line in zip(best, reach, (cost[:, best[1]], cost[best[0]]), strict=True)])
    return shift, float(cost.min()), float(cost[reach[0], reach[1]])


def _vertex(line: np.ndarray, place: int) -> float:
    """How far from the least value the parabola through it and its neighbours has its own."""
    if not 0 < place < len(line) - 1:
        return 0.0
    bend = line[place - 1] - 2 * line[place] + line[place + 1]
    return float((line[place - 1] - line[place + 1]) / (2 * bend)) if bend > 0 else 0.0


def find_strange(episodes: Episodes, near: np.ndarray) -> Iterator[Finding]:
    """Frames like none of another episode; `near` (n,): how much the most similar one of another episode differs."""
    near = near / max(episodes.step, 1e-9)
    lasting = [minimum_filter1d(near[episodes.part(k)], LASTING, mode="constant") for k in range(episodes.num)]
    most = np.array([one.max() for one in lasting])
    limit = max(FAR_STEPS, fence(most, 0.02)[1])
    for k in np.flatnonzero(most > limit):
        first, stop = _longest_run(near[episodes.part(int(k))] > limit)
        text = f"{frames_words(first, stop - 1)} are like no frame of another episode ({most[k]:.1f} steps away; "
        text += f"others up to {limit:.1f})"
        yield Finding(int(episodes.label[k]), "off-map", first, stop - 1, text, most[k] / limit)


def find_jumps(episodes: Episodes, unjoined: np.ndarray) -> Iterator[Finding]:
    """Steps that change what stays as it is before and after, and that no other episode makes (`unjoined`, n)."""
    jumps = [np.sqrt(_unexpected(episodes.prints[part], episodes.grid) * np.maximum(unjoined[part][:-1], 0))
             for part in map(episodes.part, range(episodes.num))]
    most = np.array([one.max(initial=0.0) for one in jumps])
    limit = max(LEAST_JUMP * episodes.step, fence(most, 0.0)[1])
    for k in np.flatnonzero(most > limit):
        first, times = int(jumps[k].argmax()), float(most[k] / max(limit, 1e-9))
        text = f"frames {first} and {first + 1} do not follow from each other: dropped frames or a splice "
        text += f"({times:.1f} times the most that is usual)"
        yield Finding(int(episodes.label[k]), "jump", first, first + 1, text, times)


def _unexpected(prints: np.ndarray, grid: tuple[int, int]) -> np.ndarray:
    """(m - 1,) mean change of the blocks, less what their surroundings change in the steps before and after."""
    change = np.abs(np.diff(prints, axis=0)).reshape(-1, *grid)
    if len(change) <= JUMP_WINDOW:  # too short to know what is expected
        return np.zeros(len(change))
    around = maximum_filter(change, (1, *(min(JUMP_BLOCKS, size) for size in grid))) if grid[0] > 1 else change
    others = (np.arange(2 * JUMP_WINDOW + 1) != JUMP_WINDOW)[:, None, None]  # steps, without the one in the middle
    return np.maximum(change - maximum_filter(around, footprint=others, mode="constant"), 0).mean(axis=(1, 2))


def find_wrong_ends(episodes: Episodes) -> Iterator[Finding]:
    """Episodes that end where others are still on their way. What is found is no longer compared with."""
    looks = []  # for each end: (e,) the frame of every episode that is most like it, and by how much it differs
    for stop in episodes.stop:
        distance = difference(episodes.prints, episodes.prints[stop - 1])
        nearest = np.lexsort((distance, episodes.number))[episodes.first]  # of each episode the first
        looks.append((nearest, distance[nearest]))
    good = np.ones(episodes.num, bool)
    for _ in range(MOST_ROUNDS):  # wrong ends make right ones look wrong: at first the lower half says what is usual
        left, ahead = _ways_left(episodes, looks, good)
        low, middle = np.quantile(left, (0.25, 0.5))
        before, good = good, left <= middle + FENCE * max(1.0, 2 * (middle - low))
        if np.array_equal(before, good):
            break
    limit = fence(left, 1.0)[1]
    for k in np.flatnonzero(left > limit):
        last = int(episodes.length[k]) - 1
        begins = "where others begin" if ahead[k] < 0.25 else "where others are on their way"
        text = f"frame {last}, the last, is {begins}: from there others go on for {left[k]:.0f} frames"
        text += f" (from other ends up to {limit:.0f})"
        yield Finding(int(episodes.label[k]), "wrong-end", max(0, last - 4), last, text, left[k] / limit)


def _ways_left(episodes: Episodes, looks: list[tuple[np.ndarray, np.ndarray]],
               good: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(e,) frames that good episodes go on for where they look like the last frame of each; the share before that."""
    left, ahead = np.empty(episodes.num), np.empty(episodes.num)
    for k, (place, distance) in enumerate(looks):
        others = np.flatnonzero(good & (np.arange(episodes.num) != k))
        alike = others[np.argsort(distance[others])[: max(1, min(NUM_ALIKE, len(others) // 2))]]
        left[k] = np.quantile(episodes.stop[alike] - 1 - place[alike], MOST_ALIKE)
        ahead[k] = np.median((place - episodes.first)[alike] / np.maximum(1, episodes.length[alike] - 1))
    return left, ahead


def find_lengths(episodes: Episodes) -> Iterator[Finding]:
    low, high = np.exp(fence(np.log(episodes.length), 0.1))
    for k in np.flatnonzero((episodes.length < low) | (episodes.length > high)):
        num = int(episodes.length[k])
        text = f"{num} frames, {'fewer' if num < low else 'more'} than the others ({low:.0f} to {high:.0f})"
        yield Finding(int(episodes.label[k]), "length", 0, num - 1, text, max(low / num, num / high))
