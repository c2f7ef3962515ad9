"""GPUs as NVML reports them, queried in a separate process with a time limit.

Every function here takes the library as an object with the names of nvidia-ml-py (`pynvml`), so an
imagined one or a recording can stand in.
"""
