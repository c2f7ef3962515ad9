"""Whatever is asked and whoever comes and goes, the counts equal a look at every pod."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.cluster.pod_index import PodIndex, PodQuery
from fairlead.cluster.work import Work
from fairlead.model.pods import Pod, PodRequest
from fairlead.model.selectors import LabelSelector, PodTerm, Requirement

ROWS = 2
NAMESPACES = st.sampled_from(["a", "b"])
VALUES = st.sampled_from(["x", "y", ""])
LABELS = st.dictionaries(st.sampled_from(["app", "tier"]), VALUES)
OPERATORS = st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"])
LINES = st.builds(
    Requirement,
    st.sampled_from(["app", "tier"]),
    OPERATORS,
    st.lists(VALUES, min_size=1, max_size=3).map(tuple),
)
SELECTORS = st.lists(LINES, max_size=2).map(lambda lines: LabelSelector(tuple(lines)))
TERMS = st.builds(
    PodTerm,
    st.just("zone"),
    st.none() | SELECTORS,
    st.lists(NAMESPACES, max_size=3).map(tuple),
    st.none() | SELECTORS,
)
QUERIES = st.builds(
    PodQuery, st.lists(TERMS, max_size=2).map(tuple), st.booleans(), st.none() | st.just(1)
)
PODS = st.builds(
    Pod,
    namespace=NAMESPACES,
    name=st.just("p"),
    uid=st.sampled_from(["1", "2", "3"]),
    labels=LABELS,
    priority=st.integers(0, 1),
    deleting=st.booleans(),
    request=st.builds(PodRequest, anti_affinity=st.lists(TERMS, max_size=2).map(tuple)),
)
STEPS = st.one_of(
    st.tuples(st.just("ask"), QUERIES),
    st.tuples(st.just("put"), st.tuples(st.integers(0, ROWS - 1), PODS)),
    st.tuples(st.just("take"), st.sampled_from(["1", "2", "3"])),
    st.tuples(st.just("namespace"), st.tuples(NAMESPACES, st.none() | LABELS)),
)


@settings(deadline=None)
@given(st.lists(STEPS, max_size=12), QUERIES, PODS)
def test_counts_follow_the_pods(steps, last, newcomer) -> None:
    index, asked, namespaces = PodIndex(ROWS), {last}, {}
    for step, what in steps:
        if step == "ask":
            index.prepare([what])
            index.count(what)
            asked.add(what)
        elif step == "put":
            index.put(*what)
        elif step == "take":
            index.take(what)
        else:
            index.put_namespace(*what)
            namespaces[what[0]] = what[1] or {}
    for query in asked:
        assert index.count(query).tolist() == counted(query, index, namespaces)
    found = dict(index.existing_anti_affinity(newcomer.namespace, newcomer.labels))
    wanted = existing_anti_affinity(newcomer, index, namespaces)
    assert {term: rows.dense(ROWS).tolist() for term, rows in found.items()} == wanted


def counted(query: PodQuery, index: PodIndex, namespaces: dict) -> list[int]:
    counts = [0] * ROWS
    for row, pod in index.pods.values():
        meant = all(means(term, pod, namespaces) for term in query.terms)
        meant = meant and (query.below is None or pod.priority < query.below)
        counts[row] += meant and (query.leaving_too or not pod.deleting)
    return counts


def existing_anti_affinity(
    newcomer: Pod, index: PodIndex, namespaces: dict
) -> dict[PodTerm, list[int]]:
    held: dict[PodTerm, list[int]] = {}
    for row, pod in index.pods.values():
        for term in pod.request.anti_affinity:
            if means(term, newcomer, namespaces):
                held.setdefault(term, [0] * ROWS)[row] += 1
    return held


def means(term: PodTerm, pod: Pod, namespaces: dict) -> bool:
    return term.means(pod.namespace, pod.labels, namespaces.get(pod.namespace, {}))


def test_room_for_more_rows_keeps_what_was_counted() -> None:
    index = PodIndex(1)
    query = PodQuery((PodTerm("zone", LabelSelector(), ("a",)),))
    index.count(query)
    index.put(0, Pod("a", "p", "1"))
    index.grow(3)
    index.put(2, Pod("a", "q", "2"))
    assert np.array_equal(index.count(query), [1, 0, 1])


def _apart_from(*values: str, namespaces: tuple[str, ...] = ("a",)) -> PodTerm:
    return PodTerm("zone", LabelSelector((Requirement("app", "In", values),)), namespaces)


def test_counts_do_not_pile_up() -> None:
    index = PodIndex(ROWS, bytes_kept=10_000)
    index.put(0, Pod(namespace="a", name="p", uid="1", labels={"app": "0"}))
    for n in range(20):
        index.count(PodQuery((_apart_from(str(n)),)))
    assert 4 < len(index._counts) < 20
    assert index._count_bytes < 11_000
    assert index.count(PodQuery((_apart_from("0"),))).tolist() == [1, 0]
    index.put(1, Pod(namespace="a", name="q", uid="2", labels={"app": "0"}))
    assert index.count(PodQuery((_apart_from("0"),))).tolist() == [1, 1]


def test_a_term_that_names_thousands_is_kept_in_few_places() -> None:
    many = tuple(map(str, range(5000)))
    for term in (_apart_from(*many), _apart_from("7", namespaces=("a", *many))):
        index = PodIndex(ROWS)
        index.put(0, Pod("a", "holder", "1", request=PodRequest(anti_affinity=(term,))))
        assert len(index._held._things) <= 64
        assert [found for found, _ in index.existing_anti_affinity("a", {"app": "7"})] == [term]
        assert not index.existing_anti_affinity("a", {"app": "x"})
        assert not index.existing_anti_affinity("elsewhere", {"app": "7"})


def test_pods_that_come_and_go_leave_no_values_behind() -> None:
    """Numbers of values are used again; a place that is free has the number of a value still."""
    index = PodIndex(ROWS)
    everywhere = PodTerm("zone", LabelSelector(), (), LabelSelector())
    for number in range(3000):
        name = str(number)
        index.put(number % ROWS, Pod(f"of-{name}", "p", name, labels={"app": name}))
        index.take(str(number - 3 - number // 100 % 5))
        index.take(str(number - 5))
        if number % 20 == 0:
            for term in (everywhere, _apart_from(name, namespaces=(f"of-{name}",))):
                query = PodQuery((term,), below=number + 1)  # not asked before
                assert index.count(query).tolist() == counted(query, index, {})
    assert index._table._namespaces.width <= 10
    assert all(column.values.width <= 10 for column in index._table._columns.values())


def test_a_term_on_few_nodes_takes_little_room_and_one_on_many_is_counted_as_well() -> None:
    term = _apart_from("7")
    index = PodIndex(100)
    for row in range(100):
        pod = Pod("a", "p", str(row), request=PodRequest(anti_affinity=(term,)))
        index.put(row, pod)
        ((_, held),) = index.existing_anti_affinity("a", {"app": "7"})
        assert held.rows().tolist() == list(range(row + 1))
    for row in range(100):
        index.take(str(row))
    assert not index.existing_anti_affinity("a", {"app": "7"})
    assert not index._with_anti_affinity


def test_a_count_that_is_new_costs_a_look_at_each_pod_for_each_term() -> None:
    work, terms = Work(), (_apart_from("7"), _apart_from("8"))
    index = PodIndex(ROWS, work=work)
    for uid in "123":
        index.put(0, Pod("a", "p", uid))
    index.count(PodQuery(terms))
    assert (work.asks, work.rows, work.pods) == (2, 6, 3)

    index.count(PodQuery(terms))
    assert (work.asks, work.rows, work.pods) == (2, 6, 3), "it follows the pods"
