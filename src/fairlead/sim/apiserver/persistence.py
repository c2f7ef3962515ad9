"""Saves the store to SQLite, so that a restart goes on where it was.

Writes are gathered and committed a few times a second, each batch in one transaction that also
carries the version: a killed server may lose the last moment, but never keeps half of it.
"""

import asyncio
import contextlib
import sqlite3
from pathlib import Path

from fairlead.sim.apiserver.store import Change, Store

FLUSH_EVERY_S = 0.2
# Versions handed out but not saved before a crash must not be handed out again.
RESTART_GAP = 1_000_000

_TABLES = """
CREATE TABLE IF NOT EXISTS objects (
    resource TEXT NOT NULL, key TEXT NOT NULL, version INTEGER NOT NULL, raw BLOB NOT NULL,
    PRIMARY KEY (resource, key)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
"""

Row = tuple[str, str, int, bytes]


class StateError(Exception):
    """A state file that cannot be used; the text says in one line why."""


def _unusable(path: Path, error: sqlite3.Error) -> StateError:
    if "locked" in str(error):
        return StateError(f"{path} is in use by another server: stop it, or choose another file")
    return StateError(f"{path} holds no saved state ({error}): choose another file")


class StateFile:
    """The SQLite file of one store."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._database = sqlite3.connect(
            path, timeout=1, check_same_thread=False, isolation_level=None
        )
        try:
            self._prepare()
        except sqlite3.Error as error:
            self._database.close()
            raise _unusable(path, error) from error

    def _prepare(self) -> None:
        # One server a file: a second would overwrite the first one's objects.
        self._database.execute("PRAGMA locking_mode=EXCLUSIVE")
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute("PRAGMA synchronous=NORMAL")
        self._database.executescript(_TABLES)
        self._database.execute("REPLACE INTO counters VALUES ('opened', 1)")

    def load(self, history: int) -> Store:
        """The saved store; a new one when nothing was saved."""
        saved = self._database.execute("SELECT value FROM counters WHERE name = 'version'")
        row = saved.fetchone()
        store = Store(row[0] + RESTART_GAP if row else 1, history)
        for resource, key, version, raw in self._database.execute(
            "SELECT resource, key, version, raw FROM objects"
        ):
            store.restore(resource, key, version, raw)
        return store

    def save(self, rows: list[Row], gone: list[tuple[str, str]], version: int) -> None:
        """All of it in one transaction."""
        self._database.execute("BEGIN IMMEDIATE")
        try:
            self._database.executemany("REPLACE INTO objects VALUES (?, ?, ?, ?)", rows)
            self._database.executemany("DELETE FROM objects WHERE resource = ? AND key = ?", gone)
            self._database.execute("REPLACE INTO counters VALUES ('version', ?)", (version,))
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")

    def close(self) -> None:
        self._database.close()


class Saver:
    """Follows a store and saves it behind the writes."""

    def __init__(self, store: Store, file: StateFile) -> None:
        self._store, self._file = store, file
        self._dirty: dict[tuple[str, str], None] = {}
        self._task: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()

    def start(self) -> None:
        self._store.written.append(self.note)
        for collection in self._store.collections():
            self._dirty.update({(collection.name, key): None for key in collection.entries})
        self._task = asyncio.create_task(self._run())

    def note(self, resource: str, change: Change) -> None:
        self._dirty[resource, change.entry.key] = None

    async def stop(self) -> None:
        """Saves what is left; nothing written before this is lost."""
        self._stopping.set()
        if self._task:
            await self._task
        self._file.close()

    async def _run(self) -> None:
        while not self._stopping.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), FLUSH_EVERY_S)
            if self._dirty:
                await asyncio.to_thread(self._file.save, *self._take())

    def _take(self) -> tuple[list[Row], list[tuple[str, str]], int]:
        rows: list[Row] = []
        gone: list[tuple[str, str]] = []
        for resource, key in self._dirty:
            entry = self._store.get(resource, key)
            if entry is None:
                gone.append((resource, key))
            else:
                rows.append((resource, key, entry.version, entry.raw))
        self._dirty.clear()
        return rows, gone, self._store.version
