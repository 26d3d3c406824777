"""The run folder: resume, save and load, kill."""

import hashlib
import json
import shutil
import sys
from dataclasses import replace

import kill_and_resume
import numpy as np
import pytest

import plan2vec
from plan2vec.config import Config, EmbeddingConfig, LocalMetricConfig, differing, from_json, preset, to_json
from plan2vec.domains.maze import simulate
from plan2vec.runs.folder import PRODUCTS
from plan2vec.runs.products import write_manifest

QUICK = Config(
    local_metric=LocalMetricConfig(num_updates=40, batch_size=32),
    embedding=EmbeddingConfig(num_updates=20, goals_per_update=16, nodes_per_update=32, goals_per_round=32),
)


def digests(folder):
    return {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in PRODUCTS.values()}


@pytest.fixture(scope="module")
def sequences():
    return simulate("c-maze", 30, seed=2)


@pytest.fixture(scope="module")
def whole(sequences, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "run"
    plan2vec.fit(sequences, QUICK, folder, device="cpu")
    return folder


def test_same_seed_same_bytes_and_another_seed_other_bytes(sequences, whole, tmp_path):
    plan2vec.fit(sequences, QUICK, tmp_path / "again", device="cpu")
    plan2vec.fit(sequences, replace(QUICK, seed=1), tmp_path / "other", device="cpu")
    assert digests(tmp_path / "again") == digests(whole)
    assert all(digests(tmp_path / "other")[name] != digest for name, digest in digests(whole).items())


def test_positions_replaced_by_noise_change_no_product(sequences, whole, tmp_path):
    noise = np.random.default_rng(0).normal(size=sequences.position.shape)
    truth = {"position": noise, "heading": noise[:, 0], "label": np.arange(len(noise))}
    plan2vec.fit(replace(sequences, **truth, domain=None), QUICK, tmp_path / "noise", device="cpu")
    assert digests(tmp_path / "noise") == digests(whole)
    kept = plan2vec.load(tmp_path / "noise").sequences
    assert all(np.array_equal(getattr(kept, name), values) for name, values in truth.items())


@pytest.mark.parametrize("lost", PRODUCTS)
def test_a_stage_whose_product_is_lost_is_made_again_with_the_same_bytes(sequences, whole, tmp_path, lost):
    plan2vec.fit(sequences, QUICK, tmp_path / "run", device="cpu")
    (tmp_path / "run" / PRODUCTS[lost]).unlink()
    plan2vec.fit(sequences, QUICK, tmp_path / "run", device="cpu")
    assert digests(tmp_path / "run") == digests(whole)


FIT_ALONE = """
import sys, torch
import plan2vec
from plan2vec.config import Config, EmbeddingConfig, LocalMetricConfig
torch.set_num_threads(1)
block = EmbeddingConfig(num_updates=60, goals_per_update=16, nodes_per_update=32)
config = Config(local_metric=LocalMetricConfig(num_updates=80, batch_size=32), embedding=block)
plan2vec.fit(plan2vec.read(sys.argv[1]), config, sys.argv[3], "cpu", checkpoint_seconds=0.1)
"""


def test_killed_fits_end_with_the_same_bytes():
    answer = kill_and_resume.run(seed=0, num_kills=2, num_rollouts=20, command=(sys.executable, "-c", FIT_ALONE))
    assert answer["num_equal"] == 2
    assert any("killed" in row["left"] for row in answer["rows"])


def test_a_loaded_model_answers_as_the_fitted_one(sequences, whole):
    fitted = plan2vec.fit(sequences, QUICK, device="cpu")
    loaded = plan2vec.load(whole, device="cpu")
    numbers = np.arange(50)
    np.testing.assert_array_equal(loaded.vectors, fitted.vectors)
    np.testing.assert_allclose(loaded.embed(sequences.frames[numbers]), fitted.vectors[numbers], atol=1e-4)
    assert loaded.plan(3, 200, "dijkstra").nodes == fitted.plan(3, 200, "dijkstra").nodes
    assert loaded.local_accuracy == fitted.local_accuracy


def test_a_model_fitted_in_memory_can_be_saved_and_loaded(sequences, whole, tmp_path):
    fitted = plan2vec.fit(sequences, QUICK, device="cpu")
    fitted.save(tmp_path / "saved")
    assert digests(tmp_path / "saved") == digests(whole)
    assert plan2vec.load(tmp_path / "saved", device="cpu").seconds == pytest.approx(fitted.seconds)
    with pytest.raises(ValueError, match="not empty"):
        fitted.save(tmp_path / "saved")


def test_distances_by_number_by_frame_and_by_torch_module_agree(sequences, whole):
    import torch

    from plan2vec.learning.frame_tensors import as_images

    model = plan2vec.load(whole, device="cpu")
    a, b = np.arange(20), np.arange(100, 120)
    by_number = model.distance_between(a, b)
    np.testing.assert_allclose(model.distance(sequences.frames[a], sequences.frames[b]), by_number, rtol=1e-4)
    with torch.no_grad():
        first, second = (model.encoder(as_images(torch.from_numpy(sequences.frames[numbers]))) for numbers in (a, b))
        np.testing.assert_allclose(model.head(first, second).numpy(), by_number, rtol=1e-4)


def test_frames_of_another_size_are_prepared_as_recordings_are_and_what_is_no_image_is_refused(whole):
    model = plan2vec.load(whole, device="cpu")
    larger = np.repeat(np.repeat(model.sequences.frames[:3], 2, axis=1), 2, axis=2)
    np.testing.assert_allclose(model.embed(larger), model.vectors[:3], atol=1e-4)
    with pytest.raises(ValueError, match=r"expected frames of shape \(n, 64, 64, 1\)"):
        model.embed(np.zeros((3, 64, 64, 1), np.float32))


def test_a_folder_of_another_format_version_is_refused(whole, tmp_path):
    shutil.copytree(whole, tmp_path / "run")
    settings = json.loads((tmp_path / "run" / "config.json").read_text()) | {"format_version": 99}
    (tmp_path / "run" / "config.json").write_text(json.dumps(settings))
    write_manifest(tmp_path / "run")  # as a program of that version would have
    with pytest.raises(ValueError, match="run format 99"):
        plan2vec.load(tmp_path / "run")


def test_configurations_survive_json_and_name_what_differs():
    for config in (Config(), preset("paper"), Config(norm_order=float("inf"))):
        assert from_json(to_json(config)) == config
    assert differing(to_json(Config()), to_json(Config(dim=3))) == {"dim": (None, 3)}


def test_a_configuration_that_lacks_a_setting_or_has_an_unknown_one_is_refused():
    lacking, unknown = to_json(Config(dim=3)), to_json(Config(dim=3)) | {"colour": 1}
    del lacking["closures"]
    for values in (lacking, unknown):
        with pytest.raises(ValueError, match=r"the stored configuration does not fit this version .*; fit again"):
            from_json(values)


def test_held_out_frames_have_no_edge_and_are_scored_apart(sequences):
    model = plan2vec.fit(sequences, replace(QUICK, holdout=0.2), device="cpu")
    isolated = np.flatnonzero(np.diff(model.graph.indptr) == 0)
    assert len(np.unique(sequences.sequence[isolated])) == 6  # a fifth of 30 sequences
    card = plan2vec.evaluate(model)
    assert card["num_frames"] == 240 and card["holdout"]["num_frames"] == 60
