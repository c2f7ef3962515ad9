#!/bin/sh
# Runs all tests, in three parts at once: each has control planes of its own, and waits for them
# much of the time. The first part is shown as it runs, the others when all have ended.
# Arguments go to pytest, such as -m server; a part of which they pick nothing is fine.
set -u
cd "$(dirname "$0")/.."

kept=$(mktemp -d)
trap 'rm -rf "$kept"' EXIT

.venv/bin/python -m pytest --ignore=tests/e2e "$@" >"$kept/rest" 2>&1 &
rest=$!
.venv/bin/python -m pytest tests/e2e/test_[l-z]*.py "$@" >"$kept/second" 2>&1 &
second=$!
.venv/bin/python -m pytest tests/e2e/test_[!l-z]*.py "$@"
ended="$?"
echo "tests: tests/e2e, a to k, ended with status $ended; waiting for the others"
wait $second
ended="$ended $?"
wait $rest
ended="$ended $?"
cat "$kept/second" "$kept/rest"
echo "tests: tests/e2e, a to k and l to z, and all others ended with status $ended"
# pytest's 5 says that there was nothing to run.
case $ended in
"5 5 5") exit 1 ;;
esac
for status in $ended; do
	case $status in
	0 | 5) ;;
	*) exit 1 ;;
	esac
done
