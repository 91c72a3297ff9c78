from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from droidherd.flows.model.graph import ANY, UNKNOWN, Edge, cheapest, leading_to

PLACES = ["a", "b", "c", "d", "e"]
COSTS = st.integers(1, 9).map(float)
EDGES = st.lists(
    st.builds(Edge, st.sampled_from([*PLACES, ANY]), st.sampled_from(PLACES), COSTS), max_size=12, unique=True
)
STARTS = st.sampled_from([*PLACES, UNKNOWN])


def costs_by_relaxing(edges: list[Edge], start: str) -> dict[str, float]:
    """What each place costs from here, found the slow way: relax all edges until nothing changes."""
    costs = {start: 0.0}
    for _ in range(len(PLACES) + 1):
        for place, so_far in list(costs.items()):
            for edge in edges:
                if edge.start in (place, ANY):
                    costs[edge.end] = min(costs.get(edge.end, float("inf")), so_far + edge.cost)
    return costs


@settings(deadline=None)
@given(EDGES, STARTS, st.sampled_from(PLACES))
def test_a_way_is_connected_and_costs_no_more_than_any_other(edges: list[Edge], start: str, goal: str) -> None:
    way = cheapest(edges, start, goal)
    costs = costs_by_relaxing(edges, start)
    assert (goal in costs) is (way is not None)
    if way is None:
        return
    taken = [edges[number] for number in way]
    places = [start, *(edge.end for edge in taken)]
    assert goal == places[-1]
    assert all(edge.start in (place, ANY) for edge, (place, _) in zip(taken, pairwise(places), strict=True))
    assert costs[goal] == sum(edge.cost for edge in taken)
    assert len(set(places)) == len(places), "no place is passed twice"


@settings(deadline=None)
@given(EDGES, STARTS, st.sampled_from(PLACES), st.data())
def test_a_closed_edge_is_not_taken(edges: list[Edge], start: str, goal: str, data: st.DataObject) -> None:
    closed = data.draw(st.sets(st.integers(0, max(0, len(edges) - 1))))
    way = cheapest(edges, start, goal, closed)
    assert not closed & set(way or ())
    open_edges = [edge for number, edge in enumerate(edges) if number not in closed]
    assert (way is None) is (cheapest(open_edges, start, goal) is None)


def test_of_ways_of_equal_cost_the_shorter_is_taken_and_then_the_first() -> None:
    edges = [Edge("a", "b", 1), Edge("b", "c", 1), Edge("a", "c", 2), Edge("a", "c", 2)]
    assert (2,) == cheapest(edges, "a", "c")
    assert () == cheapest(edges, "a", "a")


def test_from_where_nobody_knows_only_edges_from_anywhere_lead_on() -> None:
    assert None is cheapest([Edge("a", "b")], UNKNOWN, "b")
    assert (0, 1) == cheapest([Edge(ANY, "a"), Edge("a", "b")], UNKNOWN, "b")
    assert {"a", ANY} == leading_to([Edge(ANY, "b"), Edge("a", "b"), Edge("b", "a")], "b")
