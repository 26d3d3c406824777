"""What each hop of a plan rests on: the recording itself, or a closure and how far it is believed."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from plan2vec.graph.suspicious import suspicious_closures
from plan2vec.learning.random_streams import Stream, rng_at
from plan2vec.model import Model
from plan2vec.runs.struck import Pair

BELIEVED = 0.9  # confidence below which a closure is called doubtful


@dataclass(frozen=True)
class Hop:
    kind: str  # recorded, closure, or doubtful: a closure that is hardly believed
    confidence: float | None  # of a closure, where the graph knows it

    @property
    def doubt(self) -> float:
        """Orders hops: 0 of a recorded one, 1 of a closure that is believed or of which nothing is known, 2 at most."""
        return 0 if self.kind == "recorded" else 2 - (1 if self.confidence is None else self.confidence)

    @property
    def arrow(self) -> str:
        """Below the frame that the hop leaves: a dashed arrow is a closure."""
        sure = "" if self.confidence is None else f" {self.confidence:.0%}"
        return " \u2192" if self.kind == "recorded" else f" \u21e2{sure}"


def hops_of(model: Model, nodes: list[int]) -> list[Hop]:
    """One that claims no more than the recording shows is recorded: one step, or no fewer steps than frames between."""
    known, sequence, hops = model.built.confidence, model.sequences.sequence, []
    for low, high in (sorted(pair) for pair in pairwise(nodes)):
        length = max(float(model.graph[low, high]), float(model.graph[high, low]))
        one_step = model.places[high - 1] == model.places[low]
        if sequence[low] == sequence[high] and (one_step or length >= high - low - 1e-3):
            hops.append(Hop("recorded", None))
            continue
        confidence = None if known is None else round(float(known[low, high]), 4) or None  # 0: not stored
        hops.append(Hop("closure" if confidence is None or confidence >= BELIEVED else "doubtful", confidence))
    return hops


def count_words(hops: Sequence[Hop]) -> str:
    """"5 hops: 1 recorded, 4 closures, 3 doubtful", for a plan's line and caption."""
    kinds = [hop.kind for hop in hops]
    num_closures, num_doubtful = len(kinds) - kinds.count("recorded"), kinds.count("doubtful")
    words = f"{len(kinds)} {'hop' if len(kinds) == 1 else 'hops'}: {len(kinds) - num_closures} recorded"
    words += f", {num_closures} {'closure' if num_closures == 1 else 'closures'}"
    return words + (f", {num_doubtful} doubtful" if num_doubtful else "")


def doubted_closures(model: Model, num: int, stream: int = Stream.PICTURES, num_sources: int = 32) -> list[dict]:
    """The `num` closures most worth a look, as `suspicious_closures` describes them."""
    rng = rng_at(model.config.seed, stream)
    return suspicious_closures(model.graph, model.sequences.sequence, num, rng, num_sources, model.built.confidence)


def unjudged(closures: list[dict], judged: set[Pair]) -> list[dict]:
    return [closure for closure in closures if (closure["first"], closure["second"]) not in judged]
