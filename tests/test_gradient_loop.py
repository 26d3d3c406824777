"""The gradient loop resumes to the same bytes; the journal and the files survive being cut off."""

import logging
import math
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

from plan2vec.files import is_leftover, replacing, write_text
from plan2vec.learning import gradient_loop
from plan2vec.learning.gradient_loop import LOGGER, NUM_LOG_LINES, Journal, schedule, show_log, train
from plan2vec.learning.random_streams import rng_at


class InterruptionError(Exception):
    """Stands for a kill."""


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))


def loss_of(module, stop_at=None):
    """Fit a fixed function; the batch is a function of the update's number alone."""

    def loss_at(update):
        if update == stop_at:
            raise InterruptionError
        inputs = torch.from_numpy(rng_at(5, update).normal(size=(16, 3)).astype(np.float32))
        return (module(inputs)[:, 0] - inputs.square().sum(1)).square().mean()

    return loss_at


def state_bytes(module):
    return {name: tensor.numpy().tobytes() for name, tensor in module.state_dict().items()}


# ---------------------------------------------------------------------------------------------------- the loop


def test_training_lowers_the_loss():
    module = network()
    before = float(loss_of(module)(1000).detach())
    train(module, loss_of(module), 200, 3e-2, "some", Journal())
    assert float(loss_of(module)(1000).detach()) < 0.3 * before and not module.training


@pytest.mark.parametrize("stops", [[0], [1], [17], [39], [3, 4, 20]])
def test_an_interrupted_training_ends_in_the_same_bytes_as_one_that_never_was(tmp_path, stops):
    whole = network()
    train(whole, loss_of(whole), 40, 1e-2, "some", Journal())
    journal = Journal(tmp_path, checkpoint_seconds=0)
    for stop_at in stops:
        module = network()
        with pytest.raises(InterruptionError):
            train(module, loss_of(module, stop_at), 40, 1e-2, "some", journal)
        assert state_bytes(module) != state_bytes(whole)
        assert (tmp_path / "checkpoints" / "some.safetensors").exists() == (stop_at > 0)
    resumed, asked = network(), []
    loss_at = loss_of(resumed)
    train(resumed, lambda update: asked.append(update) or loss_at(update), 40, 1e-2, "some", journal)
    assert asked == list(range(stops[-1], 40))  # nothing is repeated
    assert state_bytes(resumed) == state_bytes(whole)


def test_a_resumed_training_that_was_finished_does_nothing(tmp_path):
    journal, module = Journal(tmp_path, checkpoint_seconds=0), network()
    train(module, loss_of(module), 5, 1e-2, "some", journal)
    again = network()
    train(again, loss_of(again, stop_at=4), 5, 1e-2, "some", journal)
    assert state_bytes(again) == state_bytes(module)


def test_checkpoints_of_stages_do_not_mix_and_rare_ones_are_not_written(tmp_path):
    module = network()
    train(module, loss_of(module), 5, 1e-2, "first", Journal(tmp_path, checkpoint_seconds=0))
    train(module, loss_of(module), 5, 1e-2, "second", Journal(tmp_path, checkpoint_seconds=100))
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["first.safetensors"]


def test_only_parameters_that_want_gradients_move():
    module = network()
    module[0].requires_grad_(False)
    before = state_bytes(module)
    train(module, loss_of(module), 3, 1e-2, "some", Journal())
    after = state_bytes(module)
    assert after["0.weight"] == before["0.weight"] and after["3.weight"] != before["3.weight"]


def test_the_learning_rate_follows_the_schedule(monkeypatch):
    seen = []
    step = torch.optim.Adam.step
    monkeypatch.setattr(torch.optim.Adam, "step", lambda self: seen.append(self.param_groups[0]["lr"]) or step(self))
    module = network()
    train(module, loss_of(module), 50, 0.5, "some", Journal())
    assert seen == [0.5 * schedule(update / 50) for update in range(50)]


def test_the_schedule_warms_up_then_falls_as_half_a_cosine():
    factors = np.array([schedule(progress) for progress in np.linspace(0, 1, 1001)])
    assert 0 < factors[0] < 0.03 and factors[-1] == pytest.approx(0, abs=1e-12)
    assert (np.diff(factors[:45]) > 0).all() and (np.diff(factors[60:]) < 0).all() and (factors <= 1).all()
    assert schedule(0.5) == pytest.approx(0.5) and schedule(0.25) == pytest.approx((1 + math.cos(math.pi / 4)) / 2)


def test_the_random_numbers_of_an_update_depend_on_its_numbers_alone():
    assert rng_at(1, 2, 3).random() == rng_at(1, 2, 3).random()
    drawn = {rng_at(*numbers).random() for numbers in ((1, 2, 3), (1, 2, 4), (1, 3, 2), (2, 1, 3), (1, 2))}
    assert len(drawn) == 5


# ---------------------------------------------------------------------------------------------------- the journal


def test_a_stage_logs_about_a_hundred_losses(tmp_path):
    module = network()
    losses = []
    loss_at = loss_of(module)
    train(module, lambda update: losses.append(loss := loss_at(update)) or loss, 250, 1e-2, "some", Journal(tmp_path))
    records = Journal(tmp_path).records()
    assert [record["update"] for record in records] == list(range(0, 250, 2))
    assert [record["loss"] for record in records] == [round(float(loss.detach()), 6) for loss in losses[::2]]
    assert NUM_LOG_LINES <= len(records) < 2 * NUM_LOG_LINES and {record["stage"] for record in records} == {"some"}


def test_a_cut_line_loses_that_line_only_also_when_more_is_written_after_it(tmp_path):
    journal = Journal(tmp_path)
    for number in range(3):
        journal.record(stage="some", number=number)
    path = tmp_path / "metrics.jsonl"
    whole = path.read_bytes()
    assert [record["number"] for record in journal.records()] == [0, 1, 2]
    last_line = whole[:-1].rindex(b"\n") + 1
    for cut in range(last_line, len(whole)):
        path.write_bytes(whole[:cut])
        expected = [0, 1, 2] if cut == len(whole) - 1 else [0, 1]  # without its end of line a line is still whole
        assert [record["number"] for record in journal.records()] == expected
        journal.record(stage="some", number=3)
        assert [record["number"] for record in journal.records()] == [*expected, 3]


def test_a_journal_without_a_folder_writes_and_reads_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    journal = Journal()
    journal.record(stage="some")
    assert journal.records() == [] and journal.checkpoint("some") is None and list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------------------------------------------- log


def test_what_a_run_says_goes_to_the_log_and_warnings_as_such(caplog, capsys, monkeypatch):
    monkeypatch.setattr(LOGGER, "handlers", [])  # a command in the same process may have added one
    caplog.set_level(logging.INFO, "plan2vec")
    Journal().say("of no run")
    Journal(logs=True).say("radius 2")
    Journal(logs=True).say("warning: two parts")
    said = [(record.levelname, record.message) for record in caplog.records]
    assert said == [("INFO", "radius 2"), ("WARNING", "warning: two parts")]
    assert capsys.readouterr().err == ""


def clear_logger(monkeypatch):
    """As in a program that never configured logging; not in a fixture, because pytest then adds handlers of its own."""
    for name, value in {"handlers": [], "propagate": False, "level": logging.NOTSET, "_cache": {}}.items():
        monkeypatch.setattr(LOGGER, name, value)


def test_progress_shows_the_log_plainly_unless_it_goes_elsewhere(monkeypatch, capsys):
    clear_logger(monkeypatch)
    text = "warning: [two] parts," + 100 * " long"
    for _ in range(2):
        Journal(show_progress=True).say(text)
    assert capsys.readouterr().err == f"{text}\n{text}\n" and len(LOGGER.handlers) == 1
    LOGGER.handlers = [logging.NullHandler()]
    Journal(show_progress=True).say(text)
    assert capsys.readouterr().err == ""
    show_log(is_program=True)
    Journal(show_progress=True).say(text)
    assert capsys.readouterr().err == f"{text}\n"


def test_without_a_terminal_progress_is_a_line_every_30_seconds(monkeypatch, capsys):
    clear_logger(monkeypatch)
    clock = iter([0.0, 10.0, 31.0, 40.0, 62.0, 70.0])
    monkeypatch.setattr(gradient_loop.time, "monotonic", lambda: next(clock))
    with Journal(show_progress=True).bar("embedding", 1500, " updates") as advance:
        for done in (100, 200, 410, 500, 720, 1500):
            advance(done)
    assert capsys.readouterr().err.splitlines() == [
        "embedding 410 of 1,500 updates, about 1.8 minutes left", "embedding 720 of 1,500 updates, about 78 s left"
    ]


# ---------------------------------------------------------------------------------------------------- files


def test_a_file_is_replaced_whole_when_the_block_ends_well(tmp_path):
    path = tmp_path / "new" / "some.txt"
    for text in ("first", "second"):
        write_text(path, text)
        assert path.read_text() == text and os.listdir(path.parent) == ["some.txt"]


def test_an_error_leaves_the_former_file_and_nothing_else(tmp_path):
    path = tmp_path / "some.txt"
    for former in (None, "former"):
        if former:
            path.write_text(former)
        with pytest.raises(InterruptionError), replacing(path) as temporary:
            temporary.write_text("half of it")
            # never half a file in its place
            assert (path.read_text() if former else path.exists()) == (former or False)
            raise InterruptionError
        assert os.listdir(tmp_path) == (["some.txt"] if former else [])
    assert path.read_text() == "former"


def test_the_temporary_file_lies_beside_its_place_and_keeps_the_suffix(tmp_path):
    with replacing(tmp_path / "some.npz") as temporary:
        assert temporary.parent == tmp_path and temporary.suffix == ".npz" and temporary.name.startswith(".")
        temporary.write_bytes(b"1")


def test_what_a_killed_process_left_behind_is_removed_and_nothing_else(tmp_path):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    left, living = (tmp_path / f".some.npz.{process}.tmp.npz" for process in (gone.pid, os.getppid()))
    others = [living, tmp_path / ".hidden", tmp_path / f".other.npz.{gone.pid}.tmp.npz"]
    for path in (left, *others):
        path.write_bytes(b"half")
    assert is_leftover(left, "some.npz") and not any(is_leftover(path, "some.npz") for path in others)
    with replacing(tmp_path / "some.npz") as temporary:
        temporary.write_bytes(b"1")
    assert not left.exists() and all(path.exists() for path in others)
