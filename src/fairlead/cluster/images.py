"""Which nodes have which container images already."""

import numpy as np

from fairlead.cluster.arrays import PerNode
from fairlead.model.nodes import Image, Node


class ImageIndex:
    """Rows by image. Made when the first rule asks for one; it then follows every node."""

    def __init__(self, nodes: list[Node | None]) -> None:
        self._nodes = nodes
        self._made = False
        self._rows: dict[Image, set[int]] = {}
        self._named: dict[str, set[Image]] = {}

    def has(self, name: str) -> bool:
        """Is the image on any node at all?"""
        self._make()
        return name in self._named

    def sizes_bytes(self, name: str, rows: int) -> PerNode:
        """The image's size on each of so many rows, 0 where it is not."""
        self._make()
        sizes = np.zeros(rows, dtype=np.int64)
        for image in self._named.get(name, ()):
            there = np.fromiter(self._rows[image], dtype=np.intp)
            sizes[there] = np.maximum(sizes[there], image.size_bytes)
        return sizes

    def put(self, row: int, node: Node | None) -> None:
        """Called before the row's node is replaced by this one, or (None) taken away."""
        old = self._nodes[row]
        before, after = old.images if old else (), node.images if node else ()
        if self._made and before != after:
            self._drop(row, before)
            self._add(row, after)

    def _make(self) -> None:
        if not self._made:
            self._made = True
            for row, node in enumerate(self._nodes):
                self._add(row, node.images if node else ())

    def _add(self, row: int, images: tuple[Image, ...]) -> None:
        for image in images:
            rows = self._rows.get(image)
            if rows is None:
                rows = self._rows[image] = set()
                for name in image.names:
                    self._named.setdefault(name, set()).add(image)
            rows.add(row)

    def _drop(self, row: int, images: tuple[Image, ...]) -> None:
        for image in set(images):
            rows = self._rows[image]
            rows.discard(row)
            if not rows:
                del self._rows[image]
                self._forget_names(image)

    def _forget_names(self, image: Image) -> None:
        for name in set(image.names):
            called = self._named[name]
            called.discard(image)
            if not called:
                del self._named[name]
