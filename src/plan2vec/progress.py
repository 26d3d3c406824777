"""How many steps are left from frames to goals, and what share of an episode's way is done: progress.

Recorded frames that were fitted have their exact distance on the graph. Any other frame enters the graph through the
recorded frames nearest to it. A frame that is near none, or from which no path leads to a goal, has no distance: NaN.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array

from plan2vec.data import slices
from plan2vec.graph.build import joined_nodes
from plan2vec.graph.neighbors import nearest
from plan2vec.learning.frame_tensors import FrameTensors
from plan2vec.local_metric import local_vectors
from plan2vec.search.shortest_paths import distances_from

if TYPE_CHECKING:
    from plan2vec.model import Model

NUM_ENTRIES = 5  # nearest recorded frames through which a frame may enter the graph
FAR = 2.0  # `max_gap`s from which on the local metric says "far": a frame with no nearer one is off the map
LEAST_LEFT = 2.0  # steps: an episode that starts nearer to a goal has no way whose share could be told
GOALS_AT_ONCE = 64  # searched from together, so that memory stays bounded
DISTANCES_AT_ONCE = 2**24  # of unseen frames from all fitted ones


def steps_to_goals(graph: csr_array, goals: np.ndarray, sequence: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(n,), (n,) steps from every recorded frame to the nearest goal, and to that of *another* sequence; or inf."""
    backward, (any_goal, others) = graph.T.tocsr(), np.full((2, graph.shape[0]), np.inf, np.float32)
    for some in (goals[part] for part in slices(len(goals), GOALS_AT_ONCE)):
        left = distances_from(backward, some)  # (goals, n)
        any_goal = np.minimum(any_goal, left.min(axis=0))
        left[sequence[some][:, None] == sequence] = np.inf
        others = np.minimum(others, left.min(axis=0))
    return any_goal, others


def steps_through_nearest(model: "Model", vectors: np.ndarray, left: np.ndarray) -> np.ndarray:
    """(m,) steps left of frames with these local vectors (m, d), by what is left (n,) of the frames nearest to them."""
    fitted, found = joined_nodes(model.graph), np.empty(len(vectors), np.float32)
    known, limit = model.local_vectors[fitted], max(model.radius, FAR * model.config.max_gap)
    for some in slices(len(vectors), max(1, DISTANCES_AT_ONCE // len(fitted))):
        near, away = nearest(known, vectors[some], NUM_ENTRIES, model.device)
        found[some] = (np.where(away <= limit, away, np.inf) + left[fitted[near]]).min(axis=1)
    return found


def steps_left(model: "Model", frames: Any, goals: np.ndarray) -> np.ndarray:
    """(m,) steps from frames, images or numbers (m,), to the nearest goal (frame numbers); NaN: no path is known."""
    left, _ = steps_to_goals(model.graph, goals, model.sequences.sequence)
    if is_numbers(frames):
        found = of_recorded(model, left)[[model.frame_number(number) for number in np.atleast_1d(frames)]]
    else:
        images = FrameTensors(model.prepare(frames), model.device)
        found = steps_through_nearest(model, local_vectors(model.local_metric, images), left)
    return np.where(np.isfinite(found), found, np.nan)


def of_recorded(model: "Model", left: np.ndarray, left_of_fitted: np.ndarray | None = None) -> np.ndarray:
    """(n,) the same of all recorded frames: exact for those on the graph, through the nearest for those held out."""
    found = (left if left_of_fitted is None else left_of_fitted).copy()
    unseen = np.setdiff1d(np.arange(len(left)), joined_nodes(model.graph))
    if len(unseen):
        found[unseen] = steps_through_nearest(model, model.local_vectors[unseen], left)
    return found


def goal_numbers(model: "Model", goals: Any) -> np.ndarray:
    """(g,) fitted frames that stand for goals: numbers, or images as for `embed`; one off the map is refused."""
    fitted = joined_nodes(model.graph)
    if is_numbers(goals):
        numbers = [model.frame_number(number, "goal") for number in np.atleast_1d(goals)]
        images = [model.sequences.frames[number] for number in np.setdiff1d(numbers, fitted)]
        numbers = np.intersect1d(numbers, fitted).tolist()
    else:
        numbers, images = [], list(model.prepare(goals))
    for found in map(model.locate, images):
        if not found.on_map:
            raise ValueError(f"a goal is not on the map: its nearest frame is {found.number}, {found.distance:.1f} "
                             "steps away; name a recorded frame")
        numbers.append(found.number)
    if not numbers:
        raise ValueError("there is no goal; give at least one frame or image")
    return np.unique(numbers)


def is_numbers(frames: Any) -> bool:
    """Whether frames are named by number, one or several; else they are images."""
    if isinstance(frames, np.ndarray):
        return frames.ndim < 2 and frames.dtype.kind in "iu"
    return all(isinstance(one, int | np.integer) for one in (frames if isinstance(frames, list | tuple) else [frames]))


def progress_curve(left: np.ndarray, least: float = LEAST_LEFT) -> np.ndarray:
    """(m,) float32 share of the way, 0 to 1, that is done by the steps left (m,) at an episode's frames, in order. NaN
    where nothing is known, and all along an episode that starts within `least` steps of a goal."""
    smooth = smoothed(left)
    known = smooth[np.isfinite(smooth)]
    if not len(known) or known[0] <= least:
        return np.full(len(left), np.nan, np.float32)
    return np.clip(1 - smooth / known[0], 0, 1).astype(np.float32)


def smoothed(left: np.ndarray) -> np.ndarray:
    """The mean of a frame and both beside it, where known, but at most one step from what it was: jumps stay."""
    smooth = np.array(left, np.float64)
    middle = (smooth[:-2] + smooth[1:-1] + smooth[2:]) / 3
    smooth[1:-1] += np.where(np.isfinite(middle), np.clip(middle - smooth[1:-1], -1, 1), 0)
    return smooth
