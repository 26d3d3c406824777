"""Jumps that chance decides are left out of the graph; all other steps, however long, stay."""

import logging

import numpy as np
import pytest
from scipy.sparse import csr_array

from plan2vec.config import Config, EmbeddingConfig, LocalMetricConfig
from plan2vec.data import make_sequences, transitions
from plan2vec.graph.jumps import cut_after, jumps_by_chance, price_risk, soon_by_chance
from plan2vec.pipeline import fit

DOORS = 30.0  # from 0 to DOORS steps leads a corridor; a door at its end throws the walker elsewhere
BRIEF = Config(local_metric=LocalMetricConfig(num_updates=200), embedding=EmbeddingConfig(num_updates=5))
ENDS = np.array([80.0, 160.0, 240.0])


def walks(ends: np.ndarray, num: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """Places (n, 2) on a line, in steps, and sequences: along the corridor, through the door, thirty steps on."""
    rng, places = np.random.default_rng(0), []
    for number in range(num):
        there, onward = np.arange(DOORS + 1), ends[number % len(ends)] + np.arange(30)
        places.append(np.concatenate((there, onward)) + rng.normal(0, 0.05, len(there) + len(onward)))
    line = np.concatenate(places)
    return np.stack((line, 0 * line), axis=1).astype(np.float32), np.repeat(np.arange(num), len(places[0]))


def jumps_of(places: np.ndarray, sequence: np.ndarray) -> np.ndarray:
    return jumps_by_chance(sequence, places, 1, np.ones(len(places), bool))


def test_a_teleporter_that_leads_to_one_of_three_places_is_left_to_chance():
    places, sequence = walks(ENDS)
    jumps = jumps_of(places, sequence)
    assert len(jumps) == 12 and np.allclose(places[jumps, 0], DOORS, atol=0.3)
    lost = np.setdiff1d(transitions(sequence), transitions(cut_after(sequence, jumps)))
    assert (lost == jumps).all() and (np.linalg.norm(places[lost + 1] - places[lost], axis=1) > 20).all()


def test_a_door_that_mostly_leads_to_one_place_leads_there():
    assert len(jumps_of(*walks(ENDS[:1]))) == 0
    places, sequence = walks(ENDS[[0, 0, 0, 1]])
    jumps = jumps_of(places, sequence)
    assert len(jumps) == 3 and np.allclose(places[jumps + 1, 0], ENDS[1], atol=0.3)


def test_walks_without_jumps_and_noise_keep_all_their_steps():
    rng, sequence = np.random.default_rng(0), np.repeat([3, 7], 500)
    for places in (np.cumsum(rng.normal(0, 0.4, (1000, 2)), axis=0), 50 * rng.normal(size=(1000, 2))):
        assert len(jumps_of(places.astype(np.float32), sequence)) == 0


def test_held_out_steps_have_no_say():
    places, sequence = walks(ENDS)
    usable = sequence % len(ENDS) == 0  # those of the first door only
    assert len(jumps_by_chance(sequence, places, 1, usable)) == 0


def test_a_hop_costs_what_its_ends_risk():
    path = csr_array((np.ones(6), ([0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2])), shape=(4, 4))
    priced = price_risk(path, np.array([0, 0, 0.5, 0])).toarray()
    lengths = np.abs(np.subtract.outer(np.arange(4), np.arange(4)))
    lost = np.mean([lengths[node][lengths[node] > 0].mean() for node in np.linspace(0, 3, 8, dtype=int)])
    assert np.allclose(priced, priced.T) and priced[0, 1] == 1
    assert priced[1, 2] == priced[2, 3] == pytest.approx(1 + lost / 4, rel=0.02)


def test_frames_shortly_before_a_jump_are_known_within_their_sequence():
    sequence = np.repeat([0, 1], 5)
    soon = soon_by_chance(sequence, np.array([1, 6]), 3)
    assert np.flatnonzero(soon).tolist() == [0, 1, 5, 6]


def test_a_fit_plans_by_no_hop_that_chance_decides(caplog):
    places, sequence = walks(ENDS, 30)
    with caplog.at_level(logging.INFO, logger="plan2vec"):
        model = fit(make_sequences(places, sequence), BRIEF, device="cpu")
    graph = model.graph.tocoo()
    assert graph.nnz and np.abs(places[graph.row, 0] - places[graph.col, 0]).max() < 20
    assert "30 recorded jumps are left out: where they lead is chance" in caplog.text
