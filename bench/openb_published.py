"""What is known of the benchmark: percent allocated at 100 % and at 130 % arrived.

Random to FGD are the means of seeds 42 to 51 in the artifact of the paper (USENIX ATC'23); GapPrice
is what the study that found it measured; the bound is a linear program that may refuse pods.
"""

POLICIES = {
    "Random": "Random",
    "DotProduct": "DotProd",
    "GpuClustering": "Clustering",
    "GpuPacking": "Packing",
    "BestFit": "BestFit",
    "FragmentationGradient": "FGD",
    "GapPrice": "GapPrice",
}
_COLUMNS = (*POLICIES, "bound")
_AT_100 = {
    "default": (86.30, 90.62, 91.65, 91.78, 92.86, 95.23, 96.17, 96.91),
    "cpu100": (87.44, 91.73, 92.41, 92.50, 93.26, 95.21, 96.16, 96.87),
    "gpushare40": (84.86, 89.30, 89.76, 89.77, 91.44, 93.96, 94.79, 95.63),
    "gpuspec20": (85.90, 88.29, 89.11, 89.28, 88.46, 94.66, 96.05, 96.91),
    "multigpu20": (86.92, 91.85, 93.34, 93.50, 93.73, 95.53, 96.61, 97.35),
}
_AT_130 = {
    "default": (87.47, 90.85, 91.88, 92.00, 93.08, 95.39, 96.27, 99.88),
    "cpu100": (89.11, 91.96, 92.64, 92.72, 93.44, 95.35, 96.26, 99.88),
    "gpushare40": (86.00, 89.56, 90.02, 90.03, 91.69, 94.15, 94.94, 99.23),
    "gpuspec20": (87.24, 89.97, 92.25, 92.94, 93.30, 94.84, 96.14, 99.88),
    "multigpu20": (88.69, 92.06, 93.56, 93.71, 93.93, 95.65, 96.71, 100.00),
}


def figures(trace: str, policy: str) -> tuple[float, float] | None:
    """At 100 % and 130 %; None for a trace or policy that nobody published."""
    if trace not in _AT_100 or policy not in _COLUMNS:
        return None
    column = _COLUMNS.index(policy)
    return _AT_100[trace][column], _AT_130[trace][column]
