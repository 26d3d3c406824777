"""The driver, its guides and the controller, in a world of one picture: a strip that one walks along."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from plan2vec.acting.controller import Controller
from plan2vec.acting.picture_driver import AHEAD, LOOKS, REACH, Driver, GoalItself, RouteGuide, Whereabouts
from plan2vec.acting.steering import (
    Buttons,
    SteeringConfig,
    SteeringNetwork,
    SteeringPairs,
    alike,
    controller_of,
    dead_reckoning,
    train_steering,
)
from plan2vec.data import make_sequences
from plan2vec.experiments.doom_driving import Ways, route
from plan2vec.local_metric import SiameseMetric
from plan2vec.runs.products import load_module, save_module

RIGHT, LEFT, TURN, TURN_BACK = range(4)
NUM_PLACES, PIXELS = 60, 4
CPU = torch.device("cpu")


class Strip:
    """Views along a strip; every button but two does nothing, and beyond the ends is a wall."""

    def __init__(self):
        self.picture = np.random.default_rng(0).integers(0, 256, (12, PIXELS * NUM_PLACES + 16, 3)).astype(np.uint8)
        self.frames = np.stack([self.view(place) for place in range(NUM_PLACES)])
        self.place = 0

    def view(self, place: int) -> np.ndarray:
        return self.picture[:, PIXELS * place : PIXELS * place + 16]

    def press(self, button: int) -> None:
        self.place = min(max(self.place + (button == RIGHT) - (button == LEFT), 0), NUM_PLACES - 1)


class PlaceOf(nn.Module):
    """The true place of every view of the strip, as an encoder that was perfectly learned would have it."""

    def __init__(self, strip: Strip):
        super().__init__()
        self.known = {frame.tobytes(): place for place, frame in enumerate(strip.frames)}

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        pixels = (images * 255).round().to(torch.uint8).permute(0, 2, 3, 1).contiguous().numpy()
        return torch.tensor([[float(self.known.get(view.tobytes(), 1000))] for view in pixels])


class Compare(nn.Module):
    """Right where the goal lies to the right, else left."""

    def __init__(self, places: PlaceOf):
        super().__init__()
        self.places, self.any = places, nn.Parameter(torch.zeros(1))

    def forward(self, images, goals):
        left = (self.places(goals) - self.places(images)).clamp(-5, 5)
        return torch.cat((left, -left, *[torch.full_like(left, -9)] * 2), dim=1)


@pytest.fixture
def strip():
    return Strip()


def model_of(strip: Strip) -> SimpleNamespace:
    vectors = np.arange(NUM_PLACES, dtype=np.float32)[:, None]
    metric = SiameseMetric(PlaceOf(strip))
    return SimpleNamespace(
        sequences=SimpleNamespace(frames=strip.frames), local_metric=metric, local_vectors=vectors, device=CPU,
        distance_between=lambda first, second: np.abs(np.asarray(first) - second).astype(float),
        locate=lambda view: SimpleNamespace(number=int(metric.encoder.known[view.tobytes()])))


def driver_of(strip: Strip, guide) -> Driver:
    controller = Controller(Compare(PlaceOf(strip)), np.arange(4)[:, None])
    return Driver(guide, controller, (TURN, TURN_BACK), seed=0)


def guide_of(strip: Strip, search: str = "map") -> RouteGuide:
    graph = route(np.zeros(NUM_PLACES, int))
    assert graph.nnz == 2 * (NUM_PLACES - 1)
    return RouteGuide(model_of(strip), graph, search)


@pytest.mark.parametrize("search", ["map", "dijkstra"])
def test_the_driver_reaches_the_goal_both_ways_along_the_map(strip, search):
    driver = driver_of(strip, guide_of(strip, search))
    for start, goal in ((3, 50), (55, 8)):
        strip.place = start
        driver.reset(strip.frames[goal])
        for _ in range(2 * abs(goal - start)):
            if strip.place == goal:
                break
            strip.press(driver.act(strip.view(strip.place)))
        assert strip.place == goal
    assert driver.guide.num_touched > 0


def test_waypoints_lie_ahead_within_reach_and_the_last_one_is_the_goal_itself(strip):
    guide = guide_of(strip)
    guide.reset(strip.frames[40])
    known = PlaceOf(strip).known
    assert (REACH, AHEAD) == (3.5, 8.0)
    for place in range(20, 40):
        waypoint = guide.waypoint(strip.view(place))
        assert waypoint is not None and place < known[waypoint.tobytes()] <= min(40, place + 3)


def test_a_view_that_is_like_no_frame_is_lost_and_the_driver_looks_around_then_goes_elsewhere(strip):
    driver = driver_of(strip, guide_of(strip))
    driver.reset(strip.frames[10])
    unknown = [np.random.default_rng(number).integers(0, 256, (12, 16, 3)).astype(np.uint8) for number in range(40)]
    pressed = [driver.act(view) for view in unknown]
    assert driver.target is None
    assert pressed[: LOOKS - 1] == [TURN] * (LOOKS - 1) and set(pressed[LOOKS:]) - {TURN}


def test_one_view_of_another_place_moves_the_belief_nowhere(strip):
    places = Whereabouts(np.arange(NUM_PLACES, dtype=np.float32)[:, None], route(np.zeros(NUM_PLACES, int)))
    seen = [places.see(np.array([float(place)])) for place in (20, 20, 21, 22, 22)]
    assert seen[-1] in (21, 22)
    away = places.see(np.array([50.0]))
    assert away is None or abs(away - 22) <= 4
    assert [places.see(np.array([50.0])) for _ in range(4)][-1] == 50


def test_a_press_that_moves_nothing_is_not_repeated_for_ever(strip):
    driver = driver_of(strip, GoalItself())
    driver.reset(strip.frames[30])
    wall = strip.view(5).copy()
    pressed = {driver.act(wall) for _ in range(8)}
    assert RIGHT in pressed and len(pressed) > 1


def test_who_gets_nowhere_for_long_drives_at_random_for_a_moment(strip):
    driver = driver_of(strip, GoalItself())
    driver.reset(strip.frames[30])
    pressed = []
    for number in range(120):
        pressed.append(driver.act(strip.view(5 + number % 2)))
    assert set(pressed[:30]) == {RIGHT} and set(pressed) != {RIGHT}


def test_the_same_seed_presses_the_same_buttons(strip):
    runs = []
    for _ in range(2):
        driver = driver_of(strip, guide_of(strip))
        driver.reset(strip.frames[40])
        runs.append([driver.act(strip.view(place)) for place in (3, 4, 5, 4, 9, 10)])
    assert runs[0] == runs[1]


# ---------------------------------------------------------------------------------------------------- the controller

BUTTONS = Buttons(pairs=((0, 1), (2, 3), (5, 6)), slide=0.0, first_turns=())


def test_dead_reckoning_follows_the_buttons_and_stops_at_walls():
    action = np.array([0, 0, 5, 5, 2, 0, 1, 4])
    stays = np.array([0, 1, 0, 0, 0, 0, 0, 0], bool)
    pose = dead_reckoning(action, stays, np.arange(8) == 0, BUTTONS)
    turn = 2 * BUTTONS.turn
    assert pose[1].tolist() == [1, 0, 0] and pose[2].tolist() == [1, 0, 0]
    assert pose[4] == pytest.approx([1, 0, turn])
    assert pose[5] == pytest.approx([1 - np.sin(turn), np.cos(turn), turn])  # to the left of where it looks
    assert pose[7] == pytest.approx(pose[5])  # once forward, once back


def test_what_is_left_is_seen_from_the_start_and_undone_by_the_way_back():
    action = np.array([5, 0, 0, 0, 4])
    frames = np.random.default_rng(0).integers(0, 256, (5, 8, 8, 3)).astype(np.uint8)
    pairs = SteeringPairs(make_sequences(frames, action=action[:, None]), BUTTONS, SteeringConfig(max_ahead=3))
    assert pairs.left(np.array([1]), np.array([4]))[0] == pytest.approx([3, 0, 0], abs=1e-6)
    assert pairs.left(np.array([4]), np.array([1]))[0] == pytest.approx([-3, 0, 0], abs=1e-6)
    assert pairs.left(np.array([0]), np.array([1]))[0] == pytest.approx([0, 0, 1])


def test_cells_are_compared_with_those_of_the_other_view_at_every_shift():
    cells = torch.randn(1, 8, 4, 6)
    shifted = torch.roll(cells, 2, dims=3)  # what stood in column x stands in x + 2
    likeness = alike(cells, shifted, 0)
    assert likeness.shape == (1, 11, 4, 6)
    assert (likeness[0, 5 - 2, :, :4] > 0.99).all()


def test_the_controller_learns_to_turn_and_is_read_from_its_file_as_it_was(tmp_path):
    rng = np.random.default_rng(0)
    wall = rng.integers(0, 256, (6, 50, 3)).repeat(4, 0).repeat(4, 1).astype(np.uint8)
    action, place = rng.choice((5, 6), 600).repeat(2), 60
    frames = []
    for pressed in action:
        frames.append(wall[:, place : place + 32])
        place = int(np.clip(place - (4 if pressed == 5 else -4), 0, 160))
    recorded = make_sequences(np.stack(frames), action=action[:, None])
    config = SteeringConfig(num_updates=60, batch_size=32, max_ahead=3, colour=0.0)
    controller = train_steering(recorded, BUTTONS, config, 0, CPU)
    assert isinstance(controller.network, SteeringNetwork)
    start, goal, left = SteeringPairs(recorded, BUTTONS, config).draw(200, rng)
    turned = np.abs(left[:, 2]) > 0.5
    pressed = controller.act(recorded.frames[start[turned]], recorded.frames[goal[turned]])[:, 0]
    assert np.mean(pressed == np.where(left[turned, 2] > 0, 5, 6)) > 0.8
    save_module(tmp_path / "controller.safetensors", controller)
    again = controller_of(SteeringNetwork(recorded.frames[:1], config), BUTTONS)
    load_module(tmp_path / "controller.safetensors", again)
    assert np.array_equal(pressed, again.act(recorded.frames[start[turned]], recorded.frames[goal[turned]])[:, 0])


def test_a_controller_without_recorded_actions_is_refused():
    frames = np.arange(4 * 192, dtype=np.uint8).reshape(4, 8, 8, 3)
    frames[1:, 0] += 9
    with pytest.raises(ValueError, match="learns from recorded actions, but none are there"):
        train_steering(make_sequences(frames), BUTTONS, SteeringConfig(), 0, CPU)


def test_shortest_ways_go_around_what_nobody_walked_through():
    line = np.stack((np.arange(0, 100, 5.0), np.zeros(20)), axis=1)
    detour = np.concatenate((line[:10], line[9] + [[0, 5 * k] for k in range(1, 10)]))
    ways = Ways(detour, 6.0)
    assert ways.shortest(np.zeros(2), np.array([45.0, 45.0]), 3.0) == pytest.approx(45 + 45)
    assert np.isinf(ways.shortest(np.zeros(2), np.array([95.0, 0.0]), 3.0))
