"""Networks: shapes, the paper's layer lists, and the one border where frames become tensors."""

import importlib
import re
import sys

import numpy as np
import pytest
import torch
from torch import nn

import plan2vec
import plan2vec.data
import plan2vec.learning.encoders
from plan2vec.config import Config, EmbeddingConfig, LocalMetricConfig
from plan2vec.domains.maze import simulate
from plan2vec.learning.encoders import ENCODERS, make_encoder, make_network, make_stacked, standardization
from plan2vec.learning.frame_tensors import FrameTensors, choose_device, copy_to, encode

CPU = torch.device("cpu")
SIZES = [(64, 64, 1), (64, 64, 3), (61, 75, 1), (75, 61, 4)]


def frames(num=5, shape=(64, 64, 1), seed=0):
    return np.random.default_rng(seed).integers(0, 256, (num, *shape), dtype=np.uint8)


def layers(network):
    """(kind, in, out, kernel, stride) of every convolution and linear layer, in order."""
    found = []
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            found.append(("conv", module.in_channels, module.out_channels, module.kernel_size[0], module.stride[0]))
        elif isinstance(module, nn.Linear):
            found.append(("linear", module.in_features, module.out_features))
        elif isinstance(module, nn.BatchNorm2d):
            found.append(("norm", module.num_features))
    return found


# ---------------------------------------------------------------------------------------------------- memory


@pytest.mark.parametrize(
    "given",
    [frames(50, (8, 8, 3)), np.random.default_rng(0).normal(size=(50, 7)).astype(np.float32)],
)
def test_frames_of_a_memory_map_reach_the_device_whole_and_a_part_at_a_time(monkeypatch, tmp_path, given):
    monkeypatch.setattr(plan2vec.data, "CHUNK_BYTES", 7 * given[:1].nbytes)
    np.save(tmp_path / "frames.npy", given)
    parts = []
    monkeypatch.setattr(
        plan2vec.learning.encoders.np, "array", lambda part, array=np.array: parts.append(len(part)) or array(part)
    )
    copied = copy_to(CPU, np.load(tmp_path / "frames.npy", mmap_mode="r"))
    assert np.array_equal(copied.numpy(), given) and copied.numpy().dtype == given.dtype
    assert parts[1:] == [7] * 7 + [1]


class Elsewhere(torch.Tensor):
    """Stands for a tensor on a GPU: only a copy of it can be read by numpy."""

    def __array__(self, *arguments, **options):
        raise TypeError("can't convert a tensor of another device to numpy")

    def cpu(self):
        return self.as_subclass(torch.Tensor)


@pytest.mark.parametrize(
    "numbers",
    [np.array([4, 0, 4]), torch.tensor([4, 0, 4]), torch.tensor([4, 0, 4]).as_subclass(Elsewhere)],
)
def test_frames_too_many_for_a_gpu_are_found_by_numbers_that_lie_there(numbers):
    given = frames(5, (8, 8, 3))
    images = FrameTensors(given, CPU)
    assert images.resident is None
    assert np.array_equal(images(numbers).numpy(), given[[4, 0, 4]].transpose(0, 3, 1, 2) / np.float32(255))


# ---------------------------------------------------------------------------------------------------- shapes


@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.parametrize("shape", SIZES)
def test_every_encoder_turns_images_of_any_size_into_vectors(name, shape):
    if name == "maze-global":
        shape = (63 + shape[0] % 2, 63, shape[2])  # it is slow: the smallest it takes
    given = frames(2, shape)
    vectors = encode(make_encoder(name, given, 7), FrameTensors(given, CPU))
    assert vectors.shape == (2, 7) and vectors.dtype == np.float32
    assert np.isfinite(vectors).all() and not np.array_equal(vectors[0], vectors[1])


@pytest.mark.parametrize("name", ENCODERS)
def test_every_encoder_turns_vectors_into_vectors(name):
    given = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    assert encode(make_encoder(name, given, 7), FrameTensors(given, CPU)).shape == (5, 7)


@pytest.mark.parametrize("shape", [(2, 2, 1), (8, 8, 3), (16, 24, 1), (33, 200, 1), (512, 32, 3), (2, 100, 1)])
def test_the_default_encoder_takes_small_and_long_images(shape):
    given = frames(2, shape)
    assert encode(make_encoder("small", given, 4), FrameTensors(given, CPU)).shape == (2, 4)


@pytest.mark.parametrize(
    ("name", "shape"),
    [("small", (1, 1, 1)), ("small", (1, 200, 1)), ("maze-global", (62, 64, 1))],
)
def test_frames_too_small_for_a_network_are_refused_with_a_remedy(name, shape):
    with pytest.raises(
        ValueError, match=f"network '{name}' is too deep for frames of {shape[0]} x {shape[1]}; .*--encoder mlp"
    ):
        make_network(name, shape, 8)
    assert make_network("mlp", shape, 8)(torch.zeros(2, shape[2], *shape[:2])).shape == (2, 8)  # the remedy works


# ---------------------------------------------------------------------------------------------------- the paper's
# networks


def test_the_mazes_local_metric_has_the_layers_of_the_papers_listing():
    network = make_stacked("stacked", (64, 64, 1))
    assert layers(network) == [
        ("conv", 2, 32, 4, 2), ("norm", 32), ("conv", 32, 64, 4, 2), ("norm", 64), ("conv", 64, 64, 4, 2), ("norm", 64),
        ("conv", 64, 32, 4, 2), ("norm", 32), ("linear", 128, 128), ("linear", 128, 100), ("linear", 100, 1),
    ]
    assert network(torch.zeros(3, 2, 64, 64)).shape == (3, 1) and isinstance(network[-1], nn.Linear)


def test_the_local_metric_of_rope_and_streets_has_the_layers_of_the_papers_listing():
    network = make_stacked("stacked-deep", (64, 64, 1))
    convolutions = [(2, 128, 4, 2), (128, 128, 4, 2)] + [(128, 128, 4, 1)] * 4
    expected = [entry for sizes in convolutions for entry in (("conv", *sizes), ("norm", 128))]
    assert layers(network) == [*expected, ("linear", 512, 128), ("linear", 128, 100), ("linear", 100, 1)]
    assert network(torch.zeros(3, 2, 64, 64)).shape == (3, 1)


def test_the_mazes_global_metric_has_the_layers_of_the_papers_listing():
    network = make_network("maze-global", (64, 64, 1), 2)
    assert layers(network) == [
        ("conv", 1, 128, 7, 1), ("norm", 128), ("conv", 128, 256, 7, 1), ("norm", 256), ("conv", 256, 256, 7, 2),
        ("norm", 256), ("conv", 256, 256, 7, 2), ("norm", 256), ("conv", 256, 256, 7, 2), ("norm", 256),
        ("conv", 256, 256, 2, 1), ("linear", 256, 2)
    ]


def test_only_the_widest_network_stays_out_of_bfloat16():
    frames = np.zeros((2, 64, 64, 1), np.uint8)
    names = ("small", "medium", "views", "maze-global", "resnet18")
    assert [name for name in names if not make_encoder(name, frames, 2).narrow] == ["maze-global"]


@pytest.mark.parametrize(("size", "seen"), [((64, 64), None), ((48, 64), None), ((96, 128), (55, 74)),
                                            ((30, 1000), (11, 370))])
def test_the_network_for_views_looks_at_no_more_than_4096_pixels(size, seen):
    network = make_network("views", (*size, 3), 8)
    assert (network[0].output_size if isinstance(network[0], nn.AdaptiveAvgPool2d) else None) == seen
    assert network(torch.rand(2, 3, *size)).shape == (2, 8)


def test_resnet18_has_the_sizes_of_he_et_al():
    network = make_network("resnet18", (64, 64, 1), 1000)
    found = layers(network)
    assert found[0] == ("conv", 1, 64, 7, 2) and found[-1] == ("linear", 512, 1000)
    assert sum(kind == "conv" and kernel == 3 for kind, *_, kernel, _ in (e for e in found if len(e) == 5)) == 16
    num_parameters = sum(parameter.numel() for parameter in network.parameters())
    # torchvision's count for RGB, less two channels of the first layer
    assert num_parameters == 11_689_512 - 2 * 64 * 49
    assert all(layer.bias is None for layer in network.modules() if isinstance(layer, nn.Conv2d))


def test_a_stacked_network_refuses_what_it_cannot_take():
    with pytest.raises(ValueError, match="is stacked or stacked-deep, but got 'small'"):
        make_stacked("small", (64, 64, 1))
    with pytest.raises(
        ValueError, match=re.escape("needs images, but frames have shape (4,); use the siamese architecture")
    ):
        make_stacked("stacked", (4,))
    with pytest.raises(ValueError, match="'stacked' is too deep for frames of 40 x 40"):
        make_stacked("stacked", (40, 40, 1))


def test_networks_start_in_training_mode_with_fresh_statistics():
    for network in (make_stacked("stacked", (64, 64, 1)), make_network("maze-global", (64, 64, 1), 2)):
        assert all(module.training for module in network.modules())
        norms = [module for module in network.modules() if isinstance(module, nn.BatchNorm2d)]
        assert norms and all(norm.num_batches_tracked == 0 and (norm.running_mean == 0).all() for norm in norms)


# ---------------------------------------------------------------------------------------------------- a user's network


def tiny_network(frame_shape, dim):
    return nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(frame_shape)), dim))


def test_a_users_factory_is_called_with_frame_shape_and_dim():
    network = make_network(f"{__name__}:tiny_network", (3, 5, 2), 4)
    assert layers(network) == [("linear", 30, 4)]


@pytest.mark.parametrize("name", ["no_such_module_anywhere:make", f"{__name__}:no_such_factory"])
def test_a_factory_that_cannot_be_imported_is_refused(name):
    with pytest.raises(ValueError, match=f"encoder {name!r} cannot be imported .*expected module:factory"):
        make_network(name, (8, 8, 1), 4)


@pytest.mark.parametrize("name", [":make", "networks:", "/tmp/networks:make", "networks.py:make()"])
def test_what_is_no_module_and_factory_is_refused(name):
    with pytest.raises(ValueError, match=re.escape(f"encoder {name!r} must be module:factory, two names of Python's")):
        make_network(name, (8, 8, 1), 4)


def other_arguments(frame_shape):
    return nn.Linear(3, 3)


def no_module(frame_shape, dim):
    return "a network"


def all_frozen(frame_shape, dim):
    return tiny_network(frame_shape, dim).requires_grad_(False)


def too_many_numbers(frame_shape, dim):
    return tiny_network(frame_shape, dim + 1)


def for_other_frames(frame_shape, dim):
    return nn.Sequential(nn.Flatten(), nn.Linear(7, dim))


def two_answers(frame_shape, dim):
    return nn.LSTM(frame_shape[0], dim)


@pytest.mark.parametrize(
    ("factory", "shape", "words"),
    [
        ("other_arguments", (8, 8, 1), r"callable as other_arguments\(frame_shape, dim\)"),
        ("ENCODERS", (8, 8, 1), "not callable"),
        ("no_module", (8, 8, 1), "must return an nn.Module, but returns str"),
        ("all_frozen", (8, 8, 1), "no parameter that can be trained"),
        ("too_many_numbers", (8, 8, 1), r"into vectors \[2, 4\], but gives \[2, 5\]"),
        ("for_other_frames", (8, 6, 3), r"cannot take frames of shape \[2, 3, 8, 6\]"),
        ("two_answers", (5,), "but gives tuple"),
    ],
)
def test_a_factory_whose_network_does_not_fit_is_refused(factory, shape, words):
    with pytest.raises(ValueError, match=words):
        make_network(f"{__name__}:{factory}", shape, 4)


def test_trying_a_users_network_changes_neither_its_mode_nor_its_statistics():
    network = make_network(f"{__name__}:with_statistics", (8, 8, 1), 4)
    assert network.training and network[1].num_batches_tracked == 0


def with_statistics(frame_shape, dim):
    return nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64), nn.Linear(64, dim))


MINE = """
from torch import nn
def make(frame_shape, dim):
    shared = nn.Linear(16, 16)
    return nn.Sequential(nn.Flatten(), nn.Linear(64 * 64, 16), shared, nn.ReLU(), shared, nn.Linear(16, dim))
"""


def test_a_network_in_the_working_directory_is_fitted_loaded_and_missed_when_it_is_gone(tmp_path, monkeypatch):
    """Layers may share weights. The installed program does not look in the working directory by itself, so neither does
    this test.
    """
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place not in ("", str(tmp_path))])
    monkeypatch.chdir(tmp_path)
    source = tmp_path / "mine_for_a_test.py"
    source.write_text(MINE)
    config = Config(
        encoder="mine_for_a_test:make", local_metric=LocalMetricConfig(num_updates=5, batch_size=16),
        embedding=EmbeddingConfig(num_updates=5, goals_per_update=8, nodes_per_update=16, goals_per_round=8),
    )
    model = plan2vec.fit(simulate("open", 12, seed=0), config, "run", device="cpu")
    with pytest.raises(ValueError, match="add --encoder mine_for_a_test:make to the command"):  # a run is data, no code
        plan2vec.load("run", device="cpu")
    loaded = plan2vec.load("run", device="cpu", encoder="mine_for_a_test:make")
    assert np.array_equal(loaded.embed(model.sequences.frames[:5]), model.embed(model.sequences.frames[:5]))
    for new_source, words in (
        (MINE.replace("16", "24"), "--encoder's code changed"), (None, "No module named 'mine_for_a_test'")
    ):
        source.write_text(new_source) if new_source else source.unlink()
        del sys.modules["mine_for_a_test"]
        importlib.invalidate_caches()
        with pytest.raises(ValueError, match=words):
            plan2vec.load("run", device="cpu", encoder="mine_for_a_test:make")


def test_an_unknown_network_is_refused():
    names = "small, medium, views, maze-global, resnet18, mlp, frozen or module:factory"
    with pytest.raises(ValueError, match=f"one of {names}, but is 'large'"):
        make_network("large", (64, 64, 1), 8)


# ---------------------------------------------------------------------------------------------------- frames become
# tensors


@pytest.mark.parametrize("channels", [1, 3])
def test_images_are_the_frames_over_255_channels_first(channels):
    given, numbers = frames(6, (4, 5, channels)), np.array([3, 0, 3])
    images = FrameTensors(given, CPU)(numbers)
    assert images.shape == (3, channels, 4, 5) and images.dtype == torch.float32
    for row, number in enumerate(numbers):
        for channel in range(channels):
            for y in range(4):
                for x in range(5):
                    assert images[row, channel, y, x].item() == pytest.approx(
                        given[number, y, x, channel] / 255, abs=1e-7
                    )


def test_vectors_stay_as_they_are_and_memory_maps_are_read(tmp_path):
    given = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
    np.save(tmp_path / "frames.npy", given)
    mapped = np.load(tmp_path / "frames.npy", mmap_mode="r")
    for source in (given, mapped):
        assert np.array_equal(FrameTensors(source, CPU)(np.array([5, 1])).numpy(), given[[5, 1]])


def test_batches_are_all_frames_in_order():
    given = frames(10, (4, 5, 1))
    tensors = FrameTensors(given, CPU)
    parts = list(tensors.batches(4))
    assert [len(part) for part in parts] == [4, 4, 2] and len(tensors) == 10
    assert np.array_equal(np.concatenate(parts), np.arange(10))


def test_encoding_does_not_depend_on_the_batches(monkeypatch):
    given = frames(9, (16, 16, 1))
    encoder = make_encoder("small", given, 4)
    together = encode(encoder, FrameTensors(given, CPU))
    alone = np.concatenate([encode(encoder, FrameTensors(given[i : i + 1], CPU)) for i in range(9)])
    assert np.allclose(together, alone, atol=1e-6) and not encoder.training


# ---------------------------------------------------------------------------------------------------- standardization


def test_standardization_is_mean_and_deviation_a_channel():
    given = frames(50, (4, 5, 3))
    mean, deviation = standardization(given)
    assert mean.shape == deviation.shape == (3, 1, 1)
    assert np.allclose(mean.ravel(), given.mean((0, 1, 2)) / 255, atol=1e-6)
    assert np.allclose(deviation.ravel(), given.std((0, 1, 2)) / 255, atol=1e-6)


def test_standardization_of_vectors_is_a_coordinate_and_a_constant_one_is_left():
    given = np.random.default_rng(0).normal(3, 5, (40, 3)).astype(np.float32)
    given[:, 1] = 8
    mean, deviation = standardization(given)
    assert np.allclose(mean, given.mean(0), atol=1e-5) and deviation[1] == 1
    assert np.allclose(deviation[[0, 2]], given.std(0)[[0, 2]], rtol=1e-5)


def test_many_frames_are_sampled_evenly_for_the_standardization():
    given = np.arange(10_000, dtype=np.float32)[:, None]
    mean, _ = standardization(given)
    assert mean.item() == np.arange(0, 10_000, 5).mean()


@pytest.mark.parametrize("side, num, sampled", [(64, 9000, 2250), (256, 600, 300), (1024, 60, 20)])
def test_the_sample_for_the_standardization_is_bounded_in_bytes(side, num, sampled, monkeypatch):
    border, seen = plan2vec.learning.encoders.as_images, []
    monkeypatch.setattr(plan2vec.learning.encoders, "as_images", lambda some: seen.append(some.shape) or border(some))
    standardization(np.broadcast_to(frames(1, (side, side, 3)), (num, side, side, 3)))
    assert [shape[0] for shape in seen] == [sampled] and 4 * np.prod(seen[0]) <= plan2vec.learning.encoders.SAMPLE_BYTES


def test_the_network_sees_standardized_frames_whatever_the_brightness():
    dark = frames(30, (8, 8, 1)) // 4
    seen = []
    encoder = make_encoder("mlp", dark, 4)
    encoder.network.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    encode(encoder, FrameTensors(dark, CPU))
    assert abs(seen[0].mean().item()) < 1e-4 and seen[0].std(correction=0).item() == pytest.approx(1, abs=1e-4)


# ---------------------------------------------------------------------------------------------------- devices


def test_a_device_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setattr(plan2vec.learning.encoders.torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(plan2vec.learning.encoders.torch.backends.mps, "is_available", lambda: False)
    assert choose_device("auto") == choose_device("cpu") == CPU
    for name in ("cuda", "mps"):
        with pytest.raises(
            ValueError, match=f"device {name} was asked for but this machine has none; use --device auto"
        ):
            choose_device(name)
    for name in ("cuda:1", "gpu"):
        with pytest.raises(
            ValueError, match=f"device must be one of auto, cpu, cuda, mps, but is '{name}'; .* CUDA_VISIBLE_DEVICES"
        ):
            choose_device(name)
