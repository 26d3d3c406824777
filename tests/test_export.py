"""The graph for other programs: the same nodes, edges and lengths; images along a plan; nothing half-written."""

import csv

import numpy as np
import pytest
from PIL import Image

from plan2vec.commands.main import main
from plan2vec.datasets.export import export
from plan2vec.files import new_folder
from plan2vec.graph.build import closure_entries, edge_rows


def test_graphml_holds_the_graph_as_networkx_reads_it(islands, tmp_path):
    networkx = pytest.importorskip("networkx")
    answer = export(islands, "graphml", tmp_path / "map.graphml")
    found, graph = networkx.read_graphml(tmp_path / "map.graphml"), islands.graph
    assert found.number_of_nodes() == 96 == answer["nodes"] and found.number_of_edges() == graph.nnz == answer["edges"]
    closure = closure_entries(graph, islands.sequences.sequence)
    for edge, (row, column) in enumerate(zip(edge_rows(graph), graph.indices, strict=True)):
        kept = found.edges[f"n{row}", f"n{column}"]
        assert kept["steps"] == pytest.approx(graph.data[edge], rel=1e-5) and kept["closure"] == bool(closure[edge])
    last = found.nodes["n95"]
    assert last == {"episode": 7, "index": 11, "part": int(islands.parts[1][95])}


def test_tables_hold_frames_with_their_vectors_and_hops_with_their_lengths(islands, tmp_path):
    export(islands, "csv", tmp_path / "tables")
    nodes, edges = (list(csv.DictReader((tmp_path / "tables" / f"{name}.csv").read_text().splitlines()))
                    for name in ("nodes", "edges"))
    assert len(nodes) == 96 and len(edges) == islands.graph.nnz
    assert [int(node["episode"]) for node in nodes] == islands.sequences.sequence.tolist()
    vectors = np.array([[float(node["vector_0"]), float(node["vector_1"])] for node in nodes])
    np.testing.assert_allclose(vectors, islands.vectors, rtol=1e-4, atol=1e-4)
    assert sum(float(edge["steps"]) for edge in edges) == pytest.approx(float(islands.graph.sum()), rel=1e-4)


def test_a_topomap_is_the_frames_along_the_shortest_path_numbered_from_the_start(room, tmp_path):
    answer = export(room, "topomap", tmp_path / "topo", "0:0", "0:9")
    plan = room.plan("0:0", "0:9", "dijkstra")
    assert answer["frames"] == plan.nodes and len(plan.nodes) > 1
    assert sorted(path.name for path in (tmp_path / "topo").iterdir()) == sorted(
        f"{place}.png" for place in range(len(plan.nodes)))
    for place, number in enumerate(plan.nodes):
        shown = np.asarray(Image.open(tmp_path / "topo" / f"{place}.png"))
        np.testing.assert_array_equal(shown, room.sequences.frames[number, :, :, 0])


@pytest.mark.parametrize("more, words", [
    (["--format", "topomap"], "needs --start and --goal"), (["--format", "csv", "--goal", "3"], "belong to --format"),
    (["--format", "topomap", "--start", "0", "--goal", "9999"], "must be a frame number"),
    (["--format", "csv", "--out", "taken"], "exists already"),
])
def test_bad_input_is_refused_in_one_line_and_nothing_is_written(more, words, room, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").mkdir()
    out = [] if "--out" in more else ["--out", "new"]
    assert main(["export", str(room.folder), *out, *more, "--device", "cpu"]) == 2
    assert words in capsys.readouterr().err.strip().splitlines()[-1]
    assert [path.name for path in tmp_path.iterdir()] == ["taken"] and not list((tmp_path / "taken").iterdir())


def test_vectors_have_no_topomap_and_no_way_is_said_so(islands, room, tmp_path):
    with pytest.raises(ValueError, match="vectors of shape"):
        export(islands, "topomap", tmp_path / "new", "0", "5")
    parts = room.parts[1]
    if parts.max() > 0:
        ends = [str(np.flatnonzero(parts == part)[0]) for part in (0, 1)]
        with pytest.raises(ValueError, match="there is no way from"):
            export(room, "topomap", tmp_path / "new", *ends)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_export_leaves_nothing_and_what_a_killed_one_left_is_removed(tmp_path):
    left = tmp_path / ".new.999999999.tmp"  # no process has this number
    left.mkdir()
    (left / "0.png").write_text("half")
    with pytest.raises(OSError, match="full"), new_folder(tmp_path / "new"):
        raise OSError("full")
    assert list(tmp_path.iterdir()) == []
    with new_folder(tmp_path / "new") as folder:
        (folder / "0.png").write_text("whole")
    assert [path.name for path in tmp_path.rglob("*")] == ["new", "0.png"]


def test_the_command_says_what_it_wrote(room, tmp_path, capsys):
    typed = ["export", str(room.folder), "--format", "graphml", "--out", str(tmp_path / "map.graphml"), "--json"]
    assert main([*typed, "--device", "cpu"]) == 0
    assert f'"edges": {room.graph.nnz}' in capsys.readouterr().out
