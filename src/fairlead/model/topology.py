"""The levels of a cluster's topology, such as zone and rack, and the labels that name them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field

from fairlead.model.lazy_dataclass import dataclass

#: The level of single nodes, below all others.
HOSTNAME = "kubernetes.io/hostname"
#: With a number: the level of Volcano's HyperNodes of that tier; 1 is the nearest.
TIER = "topology.volcano.sh/tier-"
#: More levels than this are not used, however many labels there are.
MOST_LEVELS = 24

_REGION_AND_ZONE = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone")
_TIER = "fabric.topograph.run/tier-"
_CLIQUE = "nvidia.com/gpu.clique"

#: Sets of labels that tools and clouds write, the widest level first. Labels that mean the same
#: level stand beside each other; a cluster has one of them.
KNOWN: Mapping[str, tuple[str, ...]] = {
    "Topograph": (
        *(f"{_TIER}{tier}" for tier in range(9, -1, -1)),
        "accelerator.topograph.run/domain",
        "accelerator.topograph.run/sub-domain",
    ),
    "Topograph before 1.0": (
        "network.topology.nvidia.com/core",
        "network.topology.nvidia.com/datacenter",
        "network.topology.nvidia.com/spine",
        "network.topology.nvidia.com/leaf",
        "network.topology.nvidia.com/block",
        "network.topology.nvidia.com/accelerator",
    ),
    "AWS": (
        "topology.k8s.aws/network-node-layer-1",
        "topology.k8s.aws/network-node-layer-2",
        "topology.k8s.aws/network-node-layer-3",
        "topology.k8s.aws/ultraserver-id",
    ),
    "Google Cloud": (
        "cloud.google.com/gce-topology-block",
        "cloud.google.com/gce-topology-subblock",
        "cloud.google.com/gce-topology-host",
    ),
    "Oracle Cloud": (
        "oci.oraclecloud.com/host.network_block_id",
        "oci.oraclecloud.com/host.rack_id",
    ),
    "CoreWeave": ("ds.coreweave.com/nvlink.domain",),
}


@dataclass(frozen=True, slots=True)
class TopologyLevel:
    """One level: a node label, and the name that rules may use for it."""

    label: str
    name: str = ""

    def means(self, word: str) -> bool:
        return word in {self.label, self.name or short(self.label)}


@dataclass(frozen=True, slots=True)
class Topology:
    """Levels from one source, the widest first."""

    levels: tuple[TopologyLevel, ...]
    #: For levels that are no labels, such as those of HyperNodes: domains by node, by level.
    members: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    #: The numbers of levels that are tiers, the widest first.
    tiers: tuple[int, ...] = ()
    #: What is wrong with the objects that describe it.
    problems: tuple[str, ...] = ()

    def label_of(self, word: str) -> str | None:
        """The label of the level that a rule names, by the label or by a name."""
        found = next((level.label for level in self.levels if level.means(word)), None)
        return found or (self._nearest_tier(word) if self.tiers else None)

    def _nearest_tier(self, word: str) -> str | None:
        """A rule allows a tier and those below it, so one that does not exist means the next."""
        prefix, number = word[: len(TIER)], word[len(TIER) :]
        if prefix != TIER or not (number.isdecimal() and len(number) <= 9):
            return None
        return next((f"{TIER}{tier}" for tier in self.tiers if tier <= int(number)), None)

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(level.label for level in self.levels)


#: What labels of nodes show.
NO_LEVELS = Topology(())


def short(label: str) -> str:
    """The name of a level without one of its own."""
    return label.rpartition("/")[2]


def known(used: Callable[[str], bool]) -> list[Topology]:
    """The known sets of labels that nodes have, each with region, zone and clique around it."""
    wide = [label for label in _REGION_AND_ZONE if used(label)]
    narrow = [_CLIQUE] if used(_CLIQUE) else []
    found = [[label for label in labels if used(label)] for labels in KNOWN.values()]
    sets = [labels for labels in found if labels] or [[]]
    return [_of_labels([*wide, *labels, *narrow]) for labels in sets if wide or labels or narrow]


def level_labels() -> list[str]:
    """All labels of known sets."""
    return [*_REGION_AND_ZONE, *(label for labels in KNOWN.values() for label in labels), _CLIQUE]


def levels_for(
    words: Mapping[str, int], sources: Iterable[Topology], domains: Callable[[str], int]
) -> Topology:
    """The levels of the first source that has all that rules name.

    If there is none, the labels that rules name are the levels. Those of groups are below those of
    the groups around them (`words` has how deep each is nested); then fewer domains, wider level.
    """
    wanted = [word for word in words if word not in {HOSTNAME, short(HOSTNAME)}]
    seen: list[Topology] = []
    for source in sources:
        if source.levels and all(map(source.label_of, wanted)):
            return source
        seen.append(source)
    nested: dict[str, int] = {}
    for word in wanted:
        label = _resolved(word, seen)
        nested[label] = min(words[word], nested.get(label, words[word]))
    return _of_labels(sorted(nested, key=lambda label: (nested[label], domains(label), label)))


def _resolved(word: str, sources: Iterable[Topology]) -> str:
    found = (source.label_of(word) for source in sources)
    return next((label for label in found if label), word)


def _of_labels(labels: Sequence[str]) -> Topology:
    return Topology(tuple(TopologyLevel(label) for label in labels[:MOST_LEVELS]))
