"""The sides of a node that can change, and that a rule may look at."""

from enum import IntFlag, auto


class Aspect(IntFlag):
    """A change names its aspects, a rule names those it reads.

    The two meet in two places: shared answers are recomputed only where a rule could have changed
    its mind, and a waiting pod is woken only by what its refusers read.
    """

    PRESENCE = auto()  #: the node came or went
    ALLOCATABLE = auto()
    USAGE = auto()  #: what its pods take
    PORTS = auto()
    PODS = auto()  #: which pods are there, by their labels and terms
    LABELS = auto()
    ANNOTATIONS = auto()
    TAINTS = auto()  #: taints and the cordon
    TRUST = auto()  #: whether we know what is on it
    DEVICES = auto()  #: its GPUs, one by one, and who has them
    IMAGES = auto()  #: container images it has already
    FEATURES = auto()  #: what its kubelet declares to be able to do
    VOLUMES = auto()  #: claims, volumes, storage classes and what else storage is made of
    LOAD = auto()  #: what its GPUs are really doing
    FIGURES = auto()  #: what it costs, draws and emits
    CLAIMS = auto()  #: resource claims, and the devices that drivers publish
    READINGS = auto()  #: readings that the configuration names
    PRICES = auto()  #: what gaps are worth; of no node


NOTHING = Aspect(0)
EVERYTHING = Aspect(sum(Aspect))
