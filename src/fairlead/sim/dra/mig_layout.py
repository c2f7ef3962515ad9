"""What NVIDIA's driver publishes of an H100 80 GB that it divides on demand (DynamicMIG)."""

from fairlead.base.nvidia_devices import MigLayout

_SEVEN = tuple(range(7))
#: In the order of the names of their devices.
H100_LAYOUT = (
    MigLayout("1g.10gb", 19, _SEVEN, 1, 9_984, 16, 1, 1, 1),
    MigLayout("1g.10gb+me", 20, _SEVEN, 1, 9_984, 16, 1, 1, 1, 1),
    MigLayout("1g.20gb", 15, (0, 2, 4, 6), 2, 20_096, 26, 1, 1, 1),
    MigLayout("2g.20gb", 14, (0, 2, 4), 2, 20_096, 32, 2, 2, 2),
    MigLayout("3g.40gb", 9, (0, 4), 4, 40_448, 60, 3, 3, 3),
    MigLayout("4g.40gb", 5, (0,), 4, 40_448, 64, 4, 4, 4),
    MigLayout("7g.80gb", 0, (0,), 8, 81_152, 132, 8, 7, 7, 1),
)
