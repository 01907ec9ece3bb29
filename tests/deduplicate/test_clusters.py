import numpy as np
import pytest

from gristmill.deduplicate import clusters

EMPTY = np.zeros(0, np.float32)


def docs(*numbers: int) -> np.ndarray:
    return np.array([(n, 0) for n in numbers], np.uint64).reshape(-1, 2)


def edges(*triples: tuple[int, int, float]):
    """Batches of one edge each."""
    return lambda: iter([(docs(a), docs(b), np.array([s], np.float32)) for a, b, s in triples])


def test_clusters_are_named_by_their_smallest_member():
    found = clusters.label(edges((5, 9, 0.9), (7, 2, 0.8), (9, 11, 1.0)))
    assert found.doc_id[:, 0].tolist() == [2, 5, 7, 9, 11]
    assert found.doc_id[found.label][:, 0].tolist() == [2, 5, 2, 5, 5]
    assert found.size.tolist() == [2, 3, 2, 3, 3]
    assert found.similarity.tolist() == pytest.approx([0.8, 0.9, 0.8, 1.0, 1.0])


def test_unverified_edges_have_no_similarity():
    assert np.isnan(clusters.label(edges((1, 2, np.nan))).similarity).all()


def test_no_edges_at_all():
    found = clusters.label(lambda: iter([]))
    assert len(found.doc_id) == 0
    found = clusters.reexamine(found, lambda: iter([]), 3, 0.8, 4, lambda rows: pytest.fail("nothing to read"))
    assert len(found.label) == 0


def sets_of(table: dict[int, range], found: clusters.Clusters, read: list[int]):
    def shingles(rows: np.ndarray):
        names = found.doc_id[rows, 0].tolist()
        read.extend(names)
        values = [np.array(table[n], np.uint64) for n in names]
        return np.concatenate([*values, np.zeros(0, np.uint64)]), np.cumsum([0, *map(len, values)]).astype(np.int64)

    return shingles


def test_a_component_over_the_cap_is_looked_at_again_text_by_text():
    # 1..3 are one text, 5..7 another; an unverified bucket joined them all to 1, and 4 is like neither. 8 and 9 are a
    # small cluster that nobody looks at.
    table = {1: range(100), 2: range(2, 100), 3: range(98), 4: range(500, 600), 5: range(200, 300), 6: range(201, 300),
             7: range(200, 299)}
    batches = edges(*((1, n, np.nan) for n in range(2, 8)), (8, 9, np.nan))
    found = clusters.label(batches)
    assert found.size.max() == 7
    read: list[int] = []
    again = clusters.reexamine(found, batches, 5, 0.8, 16, sets_of(table, found, read))
    assert set(read) <= set(table)
    groups: dict[int, list[int]] = {}
    for doc, label in zip(again.doc_id[:, 0].tolist(), again.label.tolist()):
        groups.setdefault(label, []).append(doc)
    assert sorted(groups.values()) == [[1, 2, 3], [5, 6, 7], [8, 9]]
    assert (again.reexamined, again.cut) == (1, 4)
    assert again.similarity[again.doc_id[:, 0] == 2] == pytest.approx(0.98)


def test_a_true_cluster_over_the_cap_stays_whole():
    table = {n: range(n, 400 + n) for n in range(1, 40)}
    batches = edges(*((n, n + 1, 0.99) for n in range(1, 39)))
    found = clusters.label(batches)
    again = clusters.reexamine(found, batches, 10, 0.8, 16, sets_of(table, found, []))
    assert np.array_equal(again.label, found.label)
    assert again.cut == 0


def test_pieces_of_edges_do_not_show(monkeypatch):
    table = {n: range(n * 10, n * 10 + 100) for n in range(1, 60)}
    batches = edges(*((1, n, np.nan) for n in range(2, 60)))
    found = clusters.label(batches)
    want = clusters.reexamine(found, batches, 10, 0.8, 256, sets_of(table, found, []))
    monkeypatch.setattr(clusters, "PIECE", 3)
    got = clusters.reexamine(found, batches, 10, 0.8, 256, sets_of(table, found, []))
    assert np.array_equal(want.doc_id, got.doc_id)
    assert np.array_equal(want.label, got.label)


def test_candidates_that_their_texts_refuse_are_no_edges():
    batches = edges((1, 2, 0.9), (1, 2, 0.9), (2, 3, 0.79), (4, 5, 0.85), (5, 6, 0.97), (7, 8, 0.8))
    found = clusters.documents(batches)
    one, other = clusters.unsure(found, batches, 0.95)
    assert [(int(found[i, 0]), int(found[j, 0])) for i, j in zip(one, other)] == [(1, 2), (2, 3), (4, 5), (7, 8)]
    exact = np.array([0.91, 0.83, 0.5, 0.79], np.float32)
    got = clusters.label(batches, verified=clusters.Verified(found, 0.95, 0.8, one, other, exact))
    assert got.doc_id[:, 0].tolist() == [1, 2, 3, 5, 6], "4, 7 and 8 are alone"
    assert got.doc_id[got.label][:, 0].tolist() == [1, 1, 1, 5, 5]
    assert got.similarity.tolist() == pytest.approx([0.91, 0.91, 0.83, 0.97, 0.97])
    table = {1: range(100), 2: range(5, 100), 3: range(9, 100)}
    again = clusters.reexamine(got, batches, 2, 0.8, 4, sets_of(table, got, []))
    assert again.doc_id[again.label][:, 0].tolist() == [1, 1, 1, 5, 5], "refused edges point outside: they are left out"


def test_the_first_is_the_earliest_fetched_then_the_smallest_record():
    labels = np.array([0, 0, 2, 2, 2])
    when = np.array([5, 3, 7, 7, 9])
    record = docs(1, 2, 9, 4, 1)
    assert clusters.first_of(labels, when, record).tolist() == [1, 1, 3, 3, 3]
    assert len(clusters.first_of(EMPTY.astype(int), EMPTY.astype(int), docs())) == 0
