"""Whether a mutant is on, for the copy of src that has them all: `_mutant(17)`.

It is loaded at the start of each Python process of the copy, so it imports next to nothing.
MUTANTS names those that are on, also to programs that a test starts. Who comes to a mutant is
recorded: in pytest in a set. A program that a test started has no end that could be relied on, so
it writes at once; MUTANTS_TEST names the file with the number of the test that runs now.
"""

import builtins
import mmap
import os

hits = set()
on = {int(number) for number in os.environ.get("MUTANTS", "").split(",") if number}
_numbers = []


def _in_program(mutant):
    hit = (_running(), mutant)
    if hit not in hits:
        hits.add(hit)
        with open(f"{os.environ['MUTANTS_TEST']}.{os.getpid()}.hits", "a") as file:
            file.write(f"{hit[0]} {mutant}\n")
    return mutant in on


def _running():
    if not _numbers:
        with open(os.environ["MUTANTS_TEST"], "rb") as file:
            _numbers.append(mmap.mmap(file.fileno(), 8, access=mmap.ACCESS_READ))
    return int.from_bytes(_numbers[0][:8], "big")


def _in_pytest(mutant):
    hits.add(mutant)
    return mutant in on


def in_pytest():
    builtins._mutant = _in_pytest


def switch_on(mutant):
    """Here, and in the programs that are started from now on."""
    os.environ["MUTANTS"] = str(mutant)
    on.add(mutant)


if "MUTANTS_TEST" in os.environ:
    builtins._mutant = _in_program
else:
    in_pytest()
