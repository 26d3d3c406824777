"""The program: one command per call. What a command needs is imported when it is called."""

import dataclasses
import json
import os
import signal
import sys
import threading
from importlib import import_module

from plan2vec.commands.arguments import Bench, Command, Explore, Reproduce, asked_help, parse
from plan2vec.version import __version__

HOME_OF = (  # module in which `run_NAME` does what a command asks
    dict.fromkeys(("demo", "fit", "inspect", "add", "report"), "fitting")
    | dict.fromkeys(("plan", "evaluate", "check", "closures", "relabel"), "asking")
    | dict.fromkeys(("explore", "bench", "reproduce"), "main")
)


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
    from plan2vec.learning import processes
    from plan2vec.learning.training import show_log

    show_log(is_program=True)
    try:
        if processes.asked_size() > 1 and name not in ("fit", "demo"):
            processes.refuse("only `plan2vec fit` and `plan2vec demo` run in several processes; "
                             "start this command without torchrun")
        getattr(import_module(f"plan2vec.commands.{HOME_OF[name]}"), f"run_{name}")(command)
    except processes.OtherProcessError:  # it has said why
        return 2
    return 0


def run_explore(command: Explore) -> None:
    from plan2vec.explorer import explore

    explore(command.run, command.host, command.port, not command.no_browser, command.device, command.encoder)


def run_bench(command: Bench) -> None:
    from plan2vec.bench import run_benchmark
    from plan2vec.bench.publishing import Request
    from plan2vec.commands.answers import print_answer, print_tables

    values = dataclasses.asdict(command)
    as_json = values.pop("json")
    answer = run_benchmark(Request(**values))
    if as_json or "tables" not in answer:
        print_answer(answer, as_json)
    else:
        print_tables(answer)


def run_reproduce(command: Reproduce) -> None:
    from plan2vec.commands.answers import print_tables
    from plan2vec.experiments.reproduce import Request, reproduce

    values = dataclasses.asdict(command)
    del values["json"]
    answer = reproduce(Request(**values))
    if command.json:
        print(json.dumps(answer, allow_nan=False))
    else:
        print_tables(answer)
