"""CEL as Kubernetes has it for devices: expressions that say whether a device may be chosen.

`compile_expression` gives a Program, or raises CelCompileError. `Program.evaluate` says yes or no
for a device, or raises CelError: kube-scheduler has three answers, and so have its texts.
"""

from fairlead.cel.devices import DeviceInput, device_input
from fairlead.cel.environment import Environment
from fairlead.cel.errors import CelCompileError, CelCostError, CelError, CelEvaluationError
from fairlead.cel.program import COST_LIMIT, KUBE_COST_LIMIT, Program, compile_expression

__all__ = [
    "COST_LIMIT",
    "KUBE_COST_LIMIT",
    "CelCompileError",
    "CelCostError",
    "CelError",
    "CelEvaluationError",
    "DeviceInput",
    "Environment",
    "Program",
    "compile_expression",
    "device_input",
]
