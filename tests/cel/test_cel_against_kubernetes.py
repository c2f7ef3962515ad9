"""Random expressions on random devices: the same answers as Kubernetes' own package."""

import json
import random
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from drawn_expressions import as_device, question
from fairlead.cel import KUBE_COST_LIMIT, CelCompileError, CelError, compile_expression

COUNT = 4000
#: What Kubernetes says where it panics, or fails to convert a value that is right; in ADR 0052.
BUGS = ("internal error: ", "unsupported conversion to ref.Val: ")
#: Kubernetes computes constants when it compiles; here they are errors of evaluation, or fine.
CONSTANTS = "program instantiation failed: "


@pytest.fixture(scope="module")
def device_cel(assets: Path) -> Path:
    """The program that asks k8s.io/dynamic-resource-allocation/cel."""
    return assets / "device-cel"


def _theirs(program: Path, questions: list[dict[str, Any]]) -> list[tuple[str, str]]:
    lines = "".join(f"{json.dumps(each)}\n" for each in questions)
    done = subprocess.run([program], input=lines, capture_output=True, text=True, check=True)
    return [_read(json.loads(line)) for line in done.stdout.splitlines()]


def _read(answer: dict[str, Any]) -> tuple[str, str]:
    if "compile" in answer:
        return "compile", answer["compile"]
    return ("error", answer["error"]) if "error" in answer else ("match", str(answer["match"]))


def _ours(asked: dict[str, Any]) -> tuple[str, str]:
    try:
        program = compile_expression(asked["expression"])
        match = program.evaluate(as_device(asked), cost_limit=KUBE_COST_LIMIT)
    except CelCompileError as error:
        return "compile", str(error)
    except CelError as error:
        return "error", str(error)
    return "match", str(match)


def _differ(theirs: tuple[str, str], ours: tuple[str, str]) -> bool:
    if theirs[1].startswith((*BUGS, CONSTANTS)):
        return False
    if "compile" in (theirs[0], ours[0]):
        return theirs[0] != ours[0]
    return theirs != ours


def test_answers_and_errors_are_those_of_kubernetes(device_cel: Path) -> None:
    draw = random.Random(52)
    questions = [question(draw) for _ in range(COUNT)]
    theirs = _theirs(device_cel, questions)
    ours = [_ours(each) for each in questions]
    kinds = Counter(kind for kind, _ in theirs)
    skipped = sum(text.startswith((*BUGS, CONSTANTS)) for _, text in theirs)

    assert min(kinds["match"], kinds["error"], kinds["compile"]) > COUNT // 8, kinds
    assert skipped < COUNT // 50
    assert [
        (asked["expression"], expected, found)
        for asked, expected, found in zip(questions, theirs, ours, strict=True)
        if _differ(expected, found)
    ] == []


def test_texts_of_single_errors_of_compilation_are_those_of_kubernetes(device_cel: Path) -> None:
    expressions = [
        "1",
        "device.driver == 1",
        "device.nothing",
        "nothing > 1",
        "device.driver.nothing",
        "'a' && true",
        "device.attributes['a'].b.exists(x, x)",
        "'a'.matches('(')",
        "[1, 'a'] == []",
        "quantity(1) == quantity('1')",
        "has(device)",
        "true &&\n  device.driver == 'ä' + 1",
    ]
    device = {"name": "d", "attributes": {}, "capacity": {}}
    asked = [{"expression": text, "driver": "d", "device": device} for text in expressions]
    assert [_ours(each) for each in asked] == _theirs(device_cel, asked)
