#!/bin/sh
# Runs all tests, in two halves at once: each has control planes of its own, and either waits for
# them much of the time. The first half is shown as it runs, the other when both have ended.
set -u
cd "$(dirname "$0")/.."

rest=$(mktemp)
trap 'rm -f "$rest"' EXIT

.venv/bin/python -m pytest --ignore=tests/e2e "$@" >"$rest" 2>&1 &
half=$!
.venv/bin/python -m pytest tests/e2e "$@"
shown=$?
echo "tests: tests/e2e ended with status $shown; waiting for the others"
wait $half
others=$?
cat "$rest"
echo "tests: tests/e2e ended with status $shown, all others with status $others"
[ $shown = 0 ] && [ $others = 0 ]
