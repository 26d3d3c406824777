"""What `plan2vec bench` and `plan2vec reproduce` are asked for: what can be typed, and what runs by it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

Device = Literal["auto", "cpu", "cuda", "mps"]
Name = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")]


@dataclass(frozen=True)
class Request:
    name: Name  # all, or one; a wrong name lists them
    smoke: bool = False  # tiny data, one seed, in seconds, to see that everything runs; no results
    out: Path | None = None  # folder of rows and figures; default in runs/, a temporary one with --smoke
    draw_only: bool = False  # tables and figures from the rows in the folder; nothing is run
    write_docs: bool = False  # join the folder's rows into docs/results and make pages and figures anew
    commit: str | None = None  # written into the rows where the program does not run from a checkout
    device: Device = "auto"  # auto: a GPU where there is one
    json: bool = False  # print the answer as one JSON object


@dataclass(frozen=True)
class BenchRequest(Request):
    """Run a benchmark and print its rows."""

    paths: tuple[Path, ...] = ()  # recordings to fit, of `bench recordings` and `bench same-map`
    doom_data: Path | None = None  # of `bench recordings`: the folder of SPTM's mazes, which are replayed
    mazes: tuple[str, ...] = ()  # of `bench recordings`: these mazes of --doom-data; default all
    joined: bool = False  # of `bench recordings`: all recordings in one fit, where closures between them are false
    dynamics: tuple[str, ...] = ()  # of `bench recordings`: simulators to roll out (pendulum mountain-car)
    encoder: str | None = None  # of `bench recordings`: that of the fits; default as `fit` decides
    seed: int = 0  # the first one
    seeds: int | None = None  # how many, from --seed on; default 1
    sizes: tuple[int, ...] = ()  # numbers of frames; default: the benchmark's own


@dataclass(frozen=True)
class ReproduceRequest(Request):
    """Run the paper's experiments anew: rows, markdown tables with 95 % intervals, figures."""

    seeds: int = 5  # how many
    seed_start: int = 0  # the first of them
    domains: tuple[str, ...] = ()  # only these domains (open, c-maze, rope, street-small ...); default all
    methods: tuple[str, ...] = ()  # only these methods of the experiment; default all
    blocks: tuple[str, ...] = ()  # only these parts of it (of table1: fitted unseen large paper); default all
    street_graph: Path | None = None  # .npz of the real street network (docs/domains.md); default: a generated city's
    env: str | None = None  # of ogbench: only this data set, e.g. pointmaze-giant-stitch-v0
    ogbench_data: Path | None = None  # folder of OGBench's data sets, made where missing; default: in the output folder
    missing_only: bool = False  # leave out what the folder has rows of: continues after a time limit
    rows_only: bool = False  # no tables and figures: for processes side by side that share the folder
    time_limit: float | None = None  # seconds after which no further room, seed or method is begun
    recordings: Path | None = None  # of progress and audit: the robot's frames (.npz); else left out
    doom_data: Path | None = None  # of doom: the folder of SPTM's mazes, or of others like them; else left out
    mazes: tuple[str, ...] = ()  # of doom: these mazes of --doom-data; default all
    # of doom: the folder in whose validation mazes (Val/...) the controller explores; default --doom-data
    doom_explore: Path | None = None
