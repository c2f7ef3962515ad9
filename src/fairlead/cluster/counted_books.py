"""Counted resources: how many each pod holds, on which layers, and which nodes have enough left.

What a pod holds is charged when its holding comes, within trials as well, and given back when it
goes. A bound pod keeps what its bind says that it was charged with. When an object comes or
changes, pods that run are charged over several turns, node by node.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fairlead.cluster import counted_gpus
from fairlead.cluster.arrays import NodeMask
from fairlead.cluster.counted_book import CountedBook, CountedCharge
from fairlead.model.counted import CountedMode, CountedResource
from fairlead.model.pods import Pod

if TYPE_CHECKING:
    from fairlead.cluster.cluster import Cluster
    from fairlead.cluster.holdings import Holding


#: Steps of one turn: about 50 ms. To charge a pod takes some, and one more for each layer.
_SLICE = 60_000
_STEPS_OF_POD = 15

#: Pods hold less of the resource than before.
OnReleased = Callable[[str], None]


class CountedBooks:
    """All of them."""

    def __init__(self, cluster: "Cluster", on_released: OnReleased) -> None:
        self._cluster = cluster
        self._on_released = on_released
        self.books: dict[str, CountedBook] = {}
        #: Those that GPUs are charged for, whatever their pods ask.
        self._by_gpu: list[CountedBook] = []
        #: Those for which pods are left that `go_on` has to charge.
        self.partial: dict[str, CountedBook] = {}
        #: By pod, the resources that it is charged for.
        self._names: dict[str, set[str]] = {}
        self._ignored = False

    # -- what there is -----------------------------------------------------------------------

    def put_resource(self, spec: CountedResource) -> CountedBook:
        """It came, or says something else; what runs keeps what it has."""
        before = self.books.get(spec.name)
        book = self.books[spec.name] = CountedBook(spec)
        book.version = before.version + 1 if before else 0
        self._sort()
        if before is not None and _shape(before.spec) == _shape(spec):
            book.adopt(before)  # only numbers are others than before
            if book.uncharged:
                self.partial[spec.name] = book
            return book
        book.earlier = before.earlier | before.charges if before else {}
        book.uncharged = self._nodes_for(book)
        self.partial[spec.name] = book
        self.go_on()
        return book

    def _nodes_for(self, book: CountedBook) -> dict[str, None]:
        """Nodes with layers, or with pods that may be charged, the last ones first."""
        found = dict.fromkeys(self._cluster.row_of if book.spec.layers else ())
        found |= dict.fromkeys(
            held.node
            for uid, held in self._cluster.holdings.items()
            if book.spec.per_gpu or held.pod.counted is not None or uid in book.earlier
        )
        return dict.fromkeys(reversed(found))

    def go_on(self) -> None:
        """Charges some pods that run; until all are, no pod gets any of the resource."""
        left = _SLICE
        for name, book in list(self.partial.items()):
            while book.uncharged and left > 0:
                left -= self._charge_on(book, book.uncharged.popitem()[0])
            if not book.uncharged:
                del self.partial[name]
                book.earlier = {}
                self._on_released(name)

    def _charge_on(self, book: CountedBook, node: str) -> int:
        """Charges the pods of the node; returns how many steps that took."""
        found, pods = self._cluster.node_named(node), self._cluster.held_on(node)
        row = self._cluster.row_of.get(node)
        if found is not None and row is not None:
            book.put_node(row, found.labels)
        for held in pods:
            before = book.earlier.pop(held.pod.uid, None) or book.take(held.pod.uid)
            if before or held.pod.counted is not None or book.spec.per_gpu:
                self._put(book, held, before)
        layers = len(book.layers.covering(row))
        return 1 + layers + len(pods) * (_STEPS_OF_POD + layers)

    def remove_resource(self, name: str) -> None:
        book = self.books.pop(name, None)
        for uid in (*book.charges, *book.earlier) if book else ():
            self._forget(uid, name)
        self.partial.pop(name, None)
        self._sort()

    def _sort(self) -> None:
        self._by_gpu = [book for book in self.books.values() if book.spec.per_gpu]

    def node_changed(self, node: str) -> None:
        """The node came or has other labels or GPUs than before; what takes long, `go_on` does."""
        left = _SLICE
        for name, book in self.books.items():
            if not (book.spec.layers or book.spec.per_gpu) or node in book.uncharged:
                continue
            if left > 0:
                left -= self._charge_on(book, node)
            else:
                book.uncharged[node] = None
                self.partial[name] = book

    def node_gone(self, node: str, row: int) -> None:
        """Its row is free for another node; pods that are still there are on no layer."""
        for book in self.books.values():
            if book.spec.layers or book.spec.per_gpu:
                book.put_node(row, None)
        self.node_changed(node)

    # -- what is held ------------------------------------------------------------------------

    def put(self, held: "Holding") -> None:
        for book in self._concerned(held.pod):
            if held.node not in book.uncharged:
                self._put(book, held)

    def take(self, uid: str) -> None:
        for name in self._names.pop(uid, ()):
            book = self.books.get(name)
            if book is not None and book.take(uid) and not self._cluster.in_trial:
                self._on_released(name)

    def charges(self, pod: Pod) -> bool:
        """Whether the pod may be charged for any resource."""
        return bool(self._concerned(pod))

    def _concerned(self, pod: Pod) -> Sequence[CountedBook]:
        said = pod.counted
        if said is None:
            return self._by_gpu
        names = dict.fromkeys(name for name, *_ in (*said.asked, *said.charged))
        found = [self.books[name] for name in names if name in self.books]
        return [*found, *(book for book in self._by_gpu if book.spec.name not in names)]

    def _put(
        self,
        book: CountedBook,
        held: "Holding",
        before: CountedCharge | None = None,
    ) -> None:
        spec, uid = book.spec, held.pod.uid
        asked, layer = _kept(before) if before and held.assumed else _charged(held, spec.name)
        of_gpus = counted_gpus.charge(self._cluster, held, spec.per_gpu) if spec.per_gpu else 0
        amount = asked + of_gpus
        if not amount:
            self._forget(uid, spec.name)
            return
        keeps = spec.mode is CountedMode.ANY and book.layers.has(layer)
        layers = (layer,) if keeps else book.layers_for(self._cluster.row_of.get(held.node), amount)
        self._cluster.work.terms += len(layers)
        book.add(uid, CountedCharge(amount, asked, layers, held.pod.namespace))
        self._names.setdefault(uid, set()).add(spec.name)

    def _forget(self, uid: str, name: str) -> None:
        names = self._names.get(uid, set())
        names.discard(name)
        if not names:
            self._names.pop(uid, None)

    def charges_of(self, uid: str) -> Iterator[tuple[str, tuple[int, str]]]:
        """What is written with a bind: what the pod asked for, and the layer if it was chosen."""
        for name in self._names.get(uid, ()):
            book = self.books[name]
            charge = book.charge_of(uid)
            if charge is not None and charge.asked:
                chosen = book.spec.mode is CountedMode.ANY and charge.layers
                yield name, (charge.asked, charge.layers[0] if chosen else "")

    # -- what is left ------------------------------------------------------------------------

    def concerns(self, pod: Pod) -> bool:
        """Whether the pod has to wait if too little is left of something."""
        if self._ignored:
            return False
        return pod.counted is not None or (bool(self._by_gpu) and self._gpus_of(pod) > 0)

    def needs(self, pod: Pod) -> Iterator[tuple[CountedBook, int]]:
        """What it needs at least, whatever its node, of resources that exist."""
        asked = dict(pod.counted.asked) if pod.counted else {}
        for book in self._concerned(pod):
            amount = asked.get(book.spec.name, 0)
            gpus = self._gpus_of(pod) if book.spec.per_gpu else 0
            if gpus:
                amount += counted_gpus.least(book.spec.per_gpu, gpus)
            if amount or gpus:
                yield book, amount

    def least_beyond(self, book: CountedBook, pod: Pod) -> int:
        """The least that it needs on GPUs of some model and that is not left."""
        asked, gpus = dict(pod.counted.asked) if pod.counted else {}, self._gpus_of(pod)
        of_gpus = (counted_gpus.part(each, gpus) for _, each in book.spec.per_gpu)
        amounts = {asked.get(book.spec.name, 0) + each for each in of_gpus}
        return min(each for each in amounts if each > (book.free or 0) or each == max(amounts))

    def rows(self, pod: Pod) -> NodeMask | None:
        """Rows where enough is left for the pod; None: all."""
        found: NodeMask | None = None
        asked = dict(pod.counted.asked) if pod.counted else {}
        for book in self._concerned(pod):
            mask = self._rows_of(book, asked.get(book.spec.name, 0), pod)
            if mask is not None:
                found = mask if found is None else found & mask
        return found

    def _rows_of(self, book: CountedBook, asked: int, pod: Pod) -> NodeMask | None:
        gpus = self._gpus_of(pod) if book.spec.per_gpu else 0
        if book.uncharged and (asked or gpus):
            return self._cluster.nodes.none()
        if not gpus:
            return book.rows(self._cluster, asked) if asked else None
        by_row, amounts = book.by_gpu(self._cluster)
        needed = {each: asked + counted_gpus.part(each, gpus) for each in amounts}
        masks = {each: self._with_enough(book, amount) for each, amount in needed.items()}
        if all(mask is None for mask in masks.values()):
            return None
        found = self._cluster.nodes.none()
        for each, mask in masks.items():
            found |= (by_row == each) if mask is None else (by_row == each) & mask
        return found

    def _with_enough(self, book: CountedBook, amount: int) -> NodeMask | None:
        """Rows where so many are left, in all and on their layers; None: all."""
        if not amount:
            return None
        if book.free is not None and amount > book.free:
            return self._cluster.nodes.none()
        return book.rows(self._cluster, amount)

    def _gpus_of(self, pod: Pod) -> int:
        return counted_gpus.gpus_of(self._cluster, pod)

    @contextmanager
    def ignored(self) -> Iterator[None]:
        """As if there were enough of everything."""
        kept, self._ignored = self._ignored, True
        try:
            yield
        finally:
            self._ignored = kept


def _shape(spec: CountedResource) -> tuple[object, ...]:
    """What decides how much pods are charged, and on which layers."""
    where = ((each.name, each.selector, each.label, each.parent) for each in spec.layers)
    return spec.mode, spec.per_gpu, *where


def _charged(held: "Holding", name: str) -> tuple[int, str]:
    """The amount that the pod asked for, and its layer if that was chosen when it was bound."""
    said = held.pod.counted
    if said is None:
        return 0, ""
    if held.assumed:
        return dict(said.asked).get(name, 0), ""
    return next(((n, layer) for each, n, layer in said.charged if each == name), (0, ""))


def _kept(before: CountedCharge) -> tuple[int, str]:
    """The pod keeps its layer where one of several was chosen."""
    return before.asked, before.layers[0] if len(before.layers) == 1 else ""
