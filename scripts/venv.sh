#!/bin/sh
# Makes the virtual environment .venv with locked packages, on a machine that may lack python3-venv:
#
#   scripts/venv.sh        # everything
#   scripts/venv.sh run    # only what `make run` needs
#
# Does nothing when the lock file has not changed since the last time.
set -eu
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}
level=${1:-dev}
lock=requirements-$level.lock

stamp() { cat "requirements-$1.lock" pyproject.toml scripts/venv.sh | cksum; }
is_made() { [ "$(cat ".venv/.locked-$1" 2>/dev/null)" = "$(stamp "$1")" ]; }

# What everything needs is enough to run, too.
if [ -x .venv/bin/fairlead ] && { is_made "$level" || is_made dev; }; then
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

# The lock names all dependencies, with their hashes: there is nothing to resolve.
install() {
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-compile "$@"
}

# Our own package is used where it lies. Its program finds .venv even if the path has blanks.
link_fairlead() {
    packages=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    echo "$PWD/src" >"$packages/fairlead.pth"
    cat >.venv/bin/fairlead <<END
#!/bin/sh
'''exec' "$PWD/.venv/bin/python" "\$0" "\$@"
' '''
from fairlead.apps.entry import main

main()
END
    chmod +x .venv/bin/fairlead
}

began=$(date +%s)
say() { echo "setup: $*, after $(($(date +%s) - began)) s"; }

rm -f .venv/.locked*
if ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
    echo "setup: making .venv"
    make_venv
    say "made .venv"
fi
echo "setup: installing $(grep -c '^[^ #].*==' "$lock") packages, most of it download"
install --require-hashes -r "$lock"
link_fairlead
say "installed them"

# By all cores at once, and not by each program again where the environment forbids to write.
# The client of Kubernetes is large, and few tests use it.
.venv/bin/python -m compileall -q -j 0 -x 'site-packages/(.*/tests|kubernetes)/' "$packages" src || true
say "compiled them"
stamp "$level" >".venv/.locked-$level"
