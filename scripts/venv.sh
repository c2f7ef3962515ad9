#!/bin/sh
# Makes the virtual environment .venv with every locked package, on a machine that may lack
# python3-venv. Does nothing when the lock file has not changed since the last time.
set -eu
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}
stamp=.venv/.locked
wanted=$(cat requirements-dev.lock pyproject.toml scripts/venv.sh | cksum)

if [ -x .venv/bin/fairlead ] && [ "$(cat $stamp 2>/dev/null)" = "$wanted" ]; then
    exit 0
fi

if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    echo "setup: Python 3.11 or newer is needed; set PYTHON=/path/to/python3.11 and try again" >&2
    exit 1
fi

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

make_venv() {
    rm -rf .venv
    # Debian ships venv without ensurepip unless python3-venv is there: three ways, cheapest first.
    if "$python" -c 'import ensurepip' 2>/dev/null && "$python" -m venv .venv; then
        return
    fi
    if "$python" -m pip --version >/dev/null 2>&1; then
        echo "setup: python3-venv is missing; using the system's pip instead"
        rm -rf .venv
        "$python" -m venv --without-pip .venv
        "$python" -m pip --python .venv/bin/python install --quiet pip && return
    fi
    if command -v apt-get >/dev/null 2>&1; then
        echo "setup: installing python3-venv with apt-get"
        as_root apt-get update -qq
        as_root apt-get install -y -qq python3-venv
        rm -rf .venv
        "$python" -m venv .venv && return
    fi
    echo "setup: cannot make a virtual environment; install python3-venv (or pip) and try again" >&2
    exit 1
}

rm -f $stamp
if ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
    echo "setup: making .venv (about a minute, most of it download)"
    make_venv
else
    echo "setup: bringing .venv up to date"
fi
.venv/bin/python -m pip install --quiet --require-hashes -r requirements-dev.lock
# Our own package last, and by itself: an editable install cannot carry a hash.
.venv/bin/python -m pip install --quiet --no-deps --no-build-isolation --editable . 2>/dev/null ||
    .venv/bin/python -m pip install --quiet --no-deps --editable .
echo "$wanted" > $stamp
echo "setup: done"
