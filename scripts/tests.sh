#!/bin/sh
# Runs all tests, in two halves at once: each has control planes of its own, and either waits for
# them much of the time. The first half is shown as it runs, the other when both have ended.
# Arguments go to pytest, such as -m server; a half of which they pick nothing is fine.
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
# pytest's 5 says that there was nothing to run.
case $shown-$others in
0-0 | 0-5 | 5-0) ;;
*) exit 1 ;;
esac
