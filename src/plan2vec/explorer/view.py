"""What the address of the page keeps, so that a link reproduces the view. (The zoom is kept by the browser alone.)"""

from dataclasses import asdict, dataclass
from urllib.parse import parse_qs

from plan2vec.planner import METHODS

COLORS = ("sequence", "time", "distance", "component", "position")
NUM_AXES = {"2-d": 2, "3-d": 3, "graph": 2}  # principal components, or a layout by distances on the graph
PANELS = ("methods", "neighbours", "closures")
LONGEST = 40  # characters of a frame's name


@dataclass(frozen=True)
class View:
    """Start and goal as typed (frame number or sequence:index), and how they are shown."""

    start: str = ""
    goal: str = ""
    method: str = "greedy"
    color: str = "sequence"
    axes: str = "2-d"
    panel: str = PANELS[0]


def from_query(query: str, default: View, colors: tuple[str, ...] = COLORS) -> tuple[View, str]:
    """The view that an address asks for, and a complaint about what it asks for wrongly."""
    try:
        asked = {name: values[-1] for name, values in parse_qs(query.lstrip("?"), max_num_fields=20).items()}
    except ValueError:
        return default, "The address asks for too much; the usual view is shown."
    allowed = {"method": METHODS, "color": colors, "axes": tuple(NUM_AXES), "panel": PANELS}
    wrong = [name for name, choices in allowed.items() if name in asked and asked[name] not in choices]
    wrong += [name for name in ("start", "goal") if len(asked.get(name, "")) > LONGEST]
    good = {name: asked[name] for name in asdict(default) if name in asked and name not in wrong}
    complaint = f"The address asks for an unknown {' and '.join(wrong)}; the usual one is shown." if wrong else ""
    return View(**(asdict(default) | good)), complaint
