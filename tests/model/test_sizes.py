import sys

from builders import a_request, pod_term
from fairlead.model.sizes import Kept, weigh


def test_what_is_weighed_is_about_what_it_takes() -> None:
    small, large = (
        a_request(cpu=1),
        a_request(anti_affinity=tuple(pod_term("zone", app=str(n)) for n in range(500))),
    )
    assert weigh(small) < 4096
    names = [f"name-{n}" for n in range(1000)]
    true_bytes = sum(map(sys.getsizeof, names)) + sys.getsizeof(names)
    assert true_bytes / 2 < weigh(names) < 2 * true_bytes
    assert large.weight_bytes > 500 * 200


def test_what_is_kept_stays_within_its_bytes() -> None:
    kept: Kept[int, str] = Kept(10_000)
    for number in range(1000):
        kept.keep(number, "x" * 100, 100)
        assert kept[number] == "x" * 100
        assert kept.bytes <= 10_000
        assert len(kept) * 100 <= kept.bytes
    kept.clear()
    assert (len(kept), kept.bytes) == (0, 0)
