"""The library on a machine that lies in a file, for programs that import their NVML by name.

FAIRLEAD_NVML_FILE=machine.json fairlead agent --once --nvml fairlead.sim.nvml.shared:library
"""

import os
from pathlib import Path

from fairlead.sim.nvml.library import FakeNvml
from fairlead.sim.nvml.store import FileStore

library = FakeNvml(FileStore(Path(os.environ["FAIRLEAD_NVML_FILE"])))
