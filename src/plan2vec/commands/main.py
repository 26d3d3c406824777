"""The program: one command per call. What a command needs is imported when it is called."""

import os
import signal
import sys
import threading
from importlib import import_module
from importlib.util import find_spec

from plan2vec.commands.arguments import Command, Explore, asked_help, parse
from plan2vec.results.requests import BenchRequest, ReproduceRequest
from plan2vec.version import __version__

HOMES = {"fitting": ("demo", "fit", "inspect", "add", "report"), "asking": ("plan", "evaluate", "check", "closures"),
         "on_datasets": ("audit", "progress", "export", "relabel"), "driving": ("drive",),
         "main": ("explore", "bench", "reproduce")}
HOME_OF = {name: home for home, names in HOMES.items() for name in names}  # in which `run_NAME` does what it asks


def main(arguments: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _stop)
    try:
        if arguments in (["--version"], ["version"]):
            print(__version__)
        elif (text := asked_help(arguments)) is not None:
            print(text, flush=True)
        else:
            return run_command(arguments[0], parse(arguments))
        return 0
    except BrokenPipeError:  # the reader, `head` for instance, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt as stopped:
        return refuse("interrupted; the same command continues where it was", 143 if stopped.args else 130)
    except (ValueError, OSError) as error:
        return refuse(" ".join(str(error).split()), 2)
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "memory" not in str(error):  # as torch says it
            raise
        return refuse(f"not enough memory ({' '.join(str(error).split())[:200]}); ask for less", 2)


def _stop(*_: object) -> None:
    """A polite kill ends as Ctrl+C does, so that what is half-written is removed."""
    raise KeyboardInterrupt("SIGTERM")


def program() -> None:
    code = main()
    if "WORLD_SIZE" in os.environ:  # under load, torch's threads outlive the interpreter, and the process is aborted
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def refuse(text: str, code: int) -> int:
    print(f"plan2vec: {text}", file=sys.stderr)
    return code


def run_command(name: str, command: Command) -> int:
    if isinstance(command, Explore) and os.environ.get("WORLD_SIZE", "1") == "1":
        run_explore(command)  # prints its address before torch is imported, which takes seconds
        return 0
    from plan2vec.learning import processes
    from plan2vec.learning.gradient_loop import show_log

    show_log(is_program=True)
    try:
        if processes.asked_size() > 1 and name not in ("fit", "demo"):
            processes.refuse("only fit and demo run in several processes; start this command without torchrun")
        getattr(import_module(f"plan2vec.commands.{HOME_OF[name]}"), f"run_{name}")(command)
    except processes.OtherProcessError:  # it has said why
        return 2
    return 0


def run_explore(command: Explore) -> None:
    if find_spec("dash") is None or find_spec("plotly") is None:
        raise ValueError("the explorer needs the extra [explore]: pip install 'plan2vec[explore]'")
    from plan2vec.explorer.server import serve

    serve(command.run, command.device, command.host, command.port, not command.no_browser, command.encoder)


def run_bench(request: BenchRequest) -> None:
    from plan2vec.bench import run_benchmark
    from plan2vec.commands.answers import print_tables

    print_tables(run_benchmark(request), request.json)


def run_reproduce(request: ReproduceRequest) -> None:
    from plan2vec.commands.answers import print_tables
    from plan2vec.experiments.reproduce import reproduce

    print_tables(reproduce(request), request.json)
