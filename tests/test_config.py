"""One place decides what was not given: `settle`, alike from the command line, from Python and through scikit-learn."""

import dataclasses
import io
import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from plan2vec.commands.arguments import parse
from plan2vec.commands.main import main
from plan2vec.config import (
    DEFAULTS,
    MOVING,
    SHIFTING,
    UPDATES,
    ClosureConfig,
    Config,
    EmbeddingConfig,
    LocalMetricConfig,
    from_json,
    keep_decisions,
    preset,
    setting,
    settle,
    to_json,
    with_settings,
)
from plan2vec.data import make_sequences
from plan2vec.domains.maze import simulate
from plan2vec.estimator import Plan2Vec
from plan2vec.pipeline import fit, settled_for

FIXED = simulate("c-maze", 5, 10, 0)
# every pixel changes in every step
NOISE = make_sequences(np.random.default_rng(0).integers(0, 255, (40, 16, 16), np.uint8))
FEW = {
    "local_metric.num_updates": 2, "local_metric.batch_size": 16, "embedding.num_updates": 2
}
TYPED = [part for name, value in FEW.items() for part in (f"--{name.replace('_', '-')}", str(value))]
BRIEF = with_settings(Config(), FEW)


def car():
    """A car's camera looks ahead: sky and ground are almost plain, with an edge here and there, and pass by slowly."""
    column, height = np.arange(400), np.arange(32)[:, None]
    plain = 120 + 50 * np.sin(2 * np.pi * column / 200) + 40 - 2.5 * height  # (32, 400), smooth
    marks = (column + 3 * (height // 8)) % 10 < 2  # clouds, poles and the middle of the road
    seen = (plain + 40 * marks).clip(0, 255).astype(np.uint8)
    return make_sequences(np.stack([seen[:, x : x + 32] for x in range(300)]))


def filmed(grain):
    """A room as a camera sees it: `grain` changes pixels by a few gray levels, and little moves."""
    return replace(FIXED, frames=np.clip(FIXED.frames + grain, 0, 255).astype(np.uint8))


GRAIN = np.random.default_rng(0).integers(-3, 4, FIXED.frames.shape)
NOISY, TAKES = filmed(GRAIN), filmed(GRAIN[FIXED.sequence])  # another grain in every frame, or in every take


def values_of(config, names):
    return {name: setting(config, name) for name in names}


def typed(recordings, folder, *arguments):
    """The configuration that `plan2vec fit` stores for these recordings."""
    np.savez(folder / "some.npz", frames=recordings.frames, sequence=recordings.sequence)
    command = ["fit", str(folder / "some.npz"), "--out", str(folder / "run"), "--device", "cpu", *arguments]
    assert main(command) == 0
    return stored(folder / "run")


def stored(folder):
    values = json.loads((folder / "config.json").read_text())
    values.pop("format_version")
    return from_json(values)


# ---------------------------------------------------------------------------------------------------- what is decided


def test_a_fixed_camera_gets_the_defaults_and_a_moving_one_its_own():
    assert values_of(settle(Config(), FIXED), DEFAULTS) == DEFAULTS
    settled = settle(Config(), NOISE)
    assert values_of(settled, DEFAULTS) == DEFAULTS | MOVING and settled.view == "moving"
    assert settled.encoder == "views" and settled.local_metric.num_updates == 400


def test_where_a_camera_was_moved_between_takes_pictures_are_augmented():
    assert TAKES.background_shifts and not TAKES.camera_moves
    settled = settle(Config(), TAKES)
    assert settled.view == "fixed" and values_of(settled, DEFAULTS) == DEFAULTS | SHIFTING
    assert settle(Config(local_metric=LocalMetricConfig(jitter=0.0)), TAKES).local_metric.jitter == 0
    assert settle(Config(view="fixed"), NOISE).local_metric.jitter == 0  # moving views that the user calls fixed


def test_noise_alone_is_no_moved_camera():
    assert (NOISY.frames[1:] != NOISY.frames[:-1]).mean() > 0.5
    assert not NOISY.background_shifts and not FIXED.background_shifts
    assert values_of(settle(Config(), NOISY), DEFAULTS) == DEFAULTS


def test_what_jpeg_does_to_rendered_frames_moves_no_camera_and_vectors_have_none():
    def stored(frame):
        with io.BytesIO() as file:
            Image.fromarray(frame[:, :, 0]).save(file, "JPEG", quality=75)
            return np.asarray(Image.open(file))

    lossy = make_sequences(np.stack([stored(frame) for frame in FIXED.frames]), FIXED.sequence)
    assert (lossy.frames != FIXED.frames).any() and not lossy.background_shifts
    assert not make_sequences(np.random.default_rng(0).normal(size=(40, 3))).background_shifts


@pytest.mark.parametrize("recordings", [FIXED, NOISE, TAKES])
@pytest.mark.parametrize("name", ["default", "paper"])
def test_after_settling_nothing_is_open_and_nothing_changes_any_more(recordings, name):
    settled = settle(preset(name), recordings)
    assert None not in values_of(settled, [*DEFAULTS, "view", "closures.neighbors"]).values()
    assert settle(settled, recordings) == settle(settled, FIXED) == settled


def test_what_was_given_stays_also_where_it_equals_a_default():
    given = {name: value for name, value in DEFAULTS.items() if MOVING.get(name, value) != value}
    assert len(given) == len(MOVING) == 5
    assert values_of(settle(with_settings(Config(), given), NOISE), given) == given
    some = Config(encoder="resnet18", max_gap=2, seed=3, local_metric=LocalMetricConfig(jitter=0.5, num_updates=10))
    settled = settle(some, NOISE)
    assert (settled.encoder, settled.max_gap, settled.seed) == ("resnet18", 2, 3)
    assert (settled.local_metric.jitter, settled.local_metric.num_updates) == (0.5, 10)
    assert settled.local_metric.far_weight == MOVING["local_metric.far_weight"]


def test_the_papers_settings_stay_as_they_are_whatever_is_recorded():
    config = preset("paper")
    for recordings in (FIXED, NOISE, TAKES):
        settled = settle(config, recordings)
        given = [name for name in DEFAULTS if setting(config, name) is not None]
        assert values_of(settled, given) == values_of(config, given) and settled.view == "fixed" and len(given) >= 5
        assert settled.local_metric == replace(config.local_metric, far_weight=2.0, jitter=0.0)


def test_value_iteration_takes_updates_of_its_own_whatever_is_recorded():
    for recordings in (FIXED, NOISE):
        assert settle(Config(variant="value-iteration"), recordings).embedding.num_updates == 3000


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_more_views_there_are_the_longer_their_metric_is_trained_whatever_the_device(device):
    recordings = [make_sequences(np.resize(NOISE.frames, (num, 16, 16, 1))) for num in (40, 2000, 9000)]
    settled = [settle(Config(view="moving"), some, device) for some in recordings]
    assert tuple(config.local_metric.num_updates for config in settled) == (400, 1200, 1500)
    assert values_of(settled[0], MOVING) == MOVING


@pytest.mark.parametrize("recordings", [FIXED, NOISE])
def test_a_map_to_look_at_keeps_the_distance_that_the_eye_measures_and_any_other_is_l1(recordings):
    assert [settle(Config(dim=dim), recordings).norm_order for dim in (2, 3, 4, None)] == [2.0, 2.0, 1.0, 1.0]
    assert settle(Config(dim=2, norm_order=1.0), recordings).norm_order == 1.0


def test_a_cars_camera_moves():
    recordings = car()
    change = np.abs(np.diff(recordings.frames.astype(int), axis=0)) > 8
    assert 0.1 < change.mean() < 0.25  # little changes from frame to frame,
    assert np.ptp(recordings.frames.astype(int), axis=0).min() > 40  # and everything in the long run
    assert settle(Config(), recordings).view == "moving" and settle(Config(), FIXED).view == "fixed"


# ---------------------------------------------------------------------------------------------------- alike everywhere


def test_eight_dimensions_that_were_asked_for_are_eight_columns_before_a_moving_camera_too():
    assert settle(Config(), NOISE).dim == 32
    vectors = Plan2Vec(dim=8, config=BRIEF, device="cpu").fit_transform(NOISE.frames, sequence=NOISE.sequence)
    assert vectors.shape == (40, 8)
    assert Plan2Vec(config=BRIEF, device="cpu").fit(NOISE.frames, sequence=NOISE.sequence).embedding_.shape == (40, 32)


@pytest.mark.parametrize("view", ["fixed", "moving"])
@pytest.mark.parametrize("recordings", [FIXED, NOISE])
def test_a_view_means_in_python_what_it_means_on_the_command_line(recordings, view):
    command = parse(["fit", "some.npz", "--out", "run", "--view", view])
    settled = settle(Config(view=view), recordings)
    assert settle(command.config, recordings) == settled
    assert values_of(settled, DEFAULTS) == DEFAULTS | (MOVING if view == "moving" else {})


def test_what_is_stored_printed_and_used_is_the_same_from_the_command_line_python_and_scikit_learn(tmp_path, capsys):
    by_command = typed(NOISE, tmp_path, *TYPED)
    said = capsys.readouterr().err.split("defaults change: ")[1].split(" (what")[0]
    by_python = fit(NOISE, BRIEF, tmp_path / "python", device="cpu")
    by_sklearn = Plan2Vec(config=BRIEF, device="cpu").fit(NOISE.frames, sequence=NOISE.sequence).model_
    assert stored(tmp_path / "python") == by_command == by_python.config == by_sklearn.config == settle(BRIEF, NOISE)
    printed = dict(re.findall(r"([\w.]+) \S+ -> (\S+?)(?:,|$)", said))
    usual = settle(replace(BRIEF, view="fixed"), NOISE)
    changed = [name for name in (*DEFAULTS, "view") if setting(usual, name) != setting(by_command, name)]
    assert printed == {name: str(setting(by_command, name)) for name in changed} and "encoder" in printed
    assert by_python.vectors.shape[1] == by_command.dim and by_sklearn.vectors.tobytes() == by_python.vectors.tobytes()


def test_a_typed_setting_stays_even_where_it_equals_the_default(tmp_path, capsys):
    config = typed(NOISE, tmp_path, "--dim", "8", "--encoder=small", *TYPED)
    assert (config.dim, config.encoder, config.max_gap, config.local_metric.jitter) == (8, "small", 3, 0.08)
    said = capsys.readouterr().err
    assert "max_gap 1 -> 3" in said and "dim" not in said.split("defaults change")[1].split("\n")[0]


def test_whether_neighbours_are_searched_exactly_is_decided_once_and_stored(tmp_path, monkeypatch):
    monkeypatch.setattr("plan2vec.config.APPROXIMATE_ABOVE", 39)
    for installed, expected in ((True, "approximate"), (False, "exact")):
        monkeypatch.setattr("plan2vec.pipeline.usearch_installed", lambda installed=installed: installed)
        model = fit(NOISE, BRIEF, tmp_path / expected, device="cpu")
        assert model.config.closures.neighbors == stored(tmp_path / expected).closures.neighbors == expected
        assert ("recall" in model.closure_report) == installed
    monkeypatch.setattr("plan2vec.pipeline.usearch_installed", lambda: True)
    again = fit(NOISE, BRIEF, tmp_path / "exact", device="cpu")  # what the run has decided stays
    assert again.config.closures.neighbors == "exact"


def test_a_run_keeps_its_decisions_and_refuses_other_settings(tmp_path):
    decided = fit(NOISE, BRIEF, tmp_path / "run", device="cpu").config
    assert keep_decisions(BRIEF, decided) == decided == settled_for(NOISE, BRIEF, tmp_path / "run", torch.device("cpu"))
    with pytest.raises(ValueError, match=r"another configuration: dim \(32 there, 8 now\)"):
        fit(NOISE, replace(BRIEF, dim=8), tmp_path / "run", device="cpu")


# ---------------------------------------------------------------------------------------------------- the settings


def leaves(settings, prefix=""):
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        yield from leaves(
            value, f"{prefix}{field.name}."
        ) if dataclasses.is_dataclass(value) else [f"{prefix}{field.name}"]


def test_a_fit_has_at_most_30_settings_and_every_default_is_one():
    names = list(leaves(Config()))
    assert len(names) <= 30, names
    assert set(DEFAULTS) | {"view", "closures.neighbors"} <= set(names) and set(MOVING) <= set(DEFAULTS)
    open_ones = {name for name in names if setting(Config(), name) is None}
    assert open_ones - set(DEFAULTS) == {"view", "closures.neighbors", "radius", "head", "directed", *UPDATES}


def test_a_settled_configuration_survives_json():
    for config in (settle(Config(norm_order=float("inf")), NOISE), settle(preset("paper"), FIXED), Config()):
        assert from_json(json.loads(json.dumps(to_json(config)))) == config


@pytest.mark.parametrize(("config", "words"), [
    (lambda: Config(dim=0), "--dim must be at least 1, but is 0"),
    (lambda: Config(directed=True, head="lp"), "--head must be max-relu or mrn for a directed graph, but is lp"),
    (lambda: Config(closures=ClosureConfig(max_false=1.5)), "--closures.max-false must be a share from 0 to 1"),
    (lambda: Config(embedding=EmbeddingConfig(updates_per_round=0)), "--embedding.updates-per-round must be at least"),
])
def test_impossible_settings_are_refused_by_the_name_they_are_typed_with(config, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        config()
