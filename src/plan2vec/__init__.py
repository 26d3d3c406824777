"""plan2vec: recordings in, metric map and planner out. `pipeline.py` is where to start reading."""

import importlib
import os
from typing import TYPE_CHECKING

# Torch's threads sleep instead of spinning while they wait: never slower, and several times faster where other programs
# share the cores. It is read when torch is first imported, so it has no effect in a program that did that before.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

if TYPE_CHECKING:
    from plan2vec.acting.reward import DistanceReward
    from plan2vec.config import Config, ReadOptions
    from plan2vec.data import Sequences, SuccessRule, make_sequences
    from plan2vec.evaluation import evaluate
    from plan2vec.growing import Grown, add
    from plan2vec.model import Model, load
    from plan2vec.pipeline import fit
    from plan2vec.planner import Plan
    from plan2vec.readers import read
    from plan2vec.version import __version__

__all__ = [
    "Config", "DistanceReward", "Grown", "Model", "Plan", "ReadOptions", "Sequences", "SuccessRule", "__version__",
    "add", "evaluate", "fit", "load", "make_sequences", "read"
]
HOMES = {
    "Config": "config", "DistanceReward": "acting.reward", "Grown": "growing", "Model": "model", "Plan": "planner",
    "ReadOptions": "config", "Sequences": "data", "SuccessRule": "data", "__version__": "version", "add": "growing",
    "evaluate": "evaluation", "fit": "pipeline", "load": "model", "make_sequences": "data", "read": "readers",
}


def __getattr__(name: str) -> object:
    """What is public is imported when it is first asked for, so that `import plan2vec` does not wait for torch."""
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        found = getattr(importlib.import_module(f"plan2vec.{HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        if name != "DistanceReward":
            raise
        raise ImportError(
            f"plan2vec.DistanceReward needs the extra [envs] ({error.name} is missing): pip install 'plan2vec[envs]'"
        ) from None
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__
