"""What `import coalq` offers."""

from __future__ import annotations

import subprocess
import sys

import pytest

import coalq


def test_every_public_name_is_there_and_listed() -> None:
    assert sorted(coalq.__all__) == dir(coalq)
    for name in coalq.__all__:
        assert getattr(coalq, name).__module__.startswith("coalq."), name


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Coalition'"):
        _ = coalq.Coalition


def test_importing_the_package_loads_neither_celery_nor_sqlalchemy() -> None:
    program = "import sys, coalq; print({'celery', 'sqlalchemy', 'redis', 'numpy'} & set(sys.modules))"

    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    assert printed.strip() == "set()"
