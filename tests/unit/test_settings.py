"""Settings from the environment: names, fallbacks, errors, masked secrets."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from coalq.errors import InputError, NotBuiltError
from coalq.settings import Settings, mask_password, split_models


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://:secret@host:6379/0", "redis://:***@host:6379/0"),
        ("postgresql://me:s%40crt@db/coalq?x=1", "postgresql://me:***@db/coalq?x=1"),
        ("redis://host:6379/0?password=secret&db=1", "redis://host:6379/0?password=***&db=1"),
        ("redis://host:6379/0", "redis://host:6379/0"),
        ("sqlite:///some/file.db", "sqlite:///some/file.db"),
    ],
)
def test_a_password_is_never_shown(url: str, shown: str) -> None:
    assert mask_password(url) == shown


def test_a_misspelt_variable_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(InputError, match=r"COALQ_REDIS_ULR: .*did you mean COALQ_REDIS_URL\?"):
        Settings.load({"COALQ_REDIS_ULR": "redis://head"})


def test_a_documented_variable_that_is_not_built_is_refused_by_name() -> None:
    with pytest.raises(NotBuiltError, match="COALQ_METRICS_PORT"):
        Settings.load({"COALQ_METRICS_PORT": "9100"})


def test_an_empty_variable_is_none_and_those_of_others_are_nobodys_business() -> None:
    assert Settings.load({"COALQ_NOTHING": "", "COALQUEUE": "1", "PATH": "/bin"}) == Settings()


@pytest.mark.parametrize("value", ["inf", "nan", "-1", "soon"])
def test_a_time_that_is_none_is_refused_by_name(value: str) -> None:
    with pytest.raises(InputError, match="COALQ_LEASE_S"):
        Settings.load({"COALQ_LEASE_S": value})


@pytest.mark.parametrize(
    ("text", "models"),
    [
        ("one", ("one",)),
        ("one, two three", ("one", "two", "three")),
        ('["a,b", "c"]', ("a,b", "c")),
        ("additive:1,2,4,8", ("additive:1,2,4,8",)),
        ("additive:1,-2,+4,.5,other", ("additive:1,-2,+4,.5", "other")),
        ("pairwise:1,2,4;0-1=3;1-2=-1 threshold:5;1,2,4", ("pairwise:1,2,4;0-1=3;1-2=-1", "threshold:5;1,2,4")),
        ("", ()),
    ],
)
def test_models_are_separated_but_toy_weights_are_not(text: str, models: tuple[str, ...]) -> None:
    assert split_models(text) == models


def test_settings_come_from_the_environment() -> None:
    settings = Settings.load(
        {"COALQ_REDIS_URL": "redis://host", "COALQ_MODELS": "one two", "COALQ_MAX_INFLIGHT": "12", "COALQ_HOME": "/x"}
    )

    assert settings.redis_url == "redis://host"
    assert settings.models == ("one", "two")
    assert settings.max_inflight == 12
    assert not settings.is_embedded
    assert settings.archive_url == f"sqlite:///{Path('/x/archive.db').resolve()}"


def test_empty_variables_count_as_unset() -> None:
    settings = Settings.load({"COALQ_REDIS_URL": "", "COALQ_MODELS": ""})

    assert settings == Settings()
    assert settings.is_embedded


def test_an_error_names_the_variable_and_what_stands_in_it() -> None:
    with pytest.raises(InputError, match=r"COALQ_MAX_INFLIGHT: '0': .*greater than or equal to 1"):
        Settings.load({"COALQ_MAX_INFLIGHT": "0"})


def test_the_openai_variables_are_a_fallback_as_a_pair() -> None:
    pair = {"OPENAI_BASE_URL": "http://host/v1", "OPENAI_API_KEY": "secret"}

    settings = Settings.load(pair)

    assert settings.base_url == "http://host/v1"
    assert settings.api_key is not None
    assert settings.api_key.get_secret_value() == "secret"
    assert "secret" not in repr(settings)


@pytest.mark.parametrize(
    "environment",
    [
        {"OPENAI_API_KEY": "secret"},
        {"OPENAI_API_KEY": "secret", "COALQ_BASE_URL": "http://elsewhere/v1"},
        {"OPENAI_API_KEY": "secret", "OPENAI_BASE_URL": "http://host/v1", "COALQ_BASE_URL": "http://elsewhere/v1"},
    ],
)
def test_a_key_never_goes_to_another_host(environment: dict[str, str]) -> None:
    assert Settings.load(environment).api_key is None


def test_the_readme_lists_every_setting_a_user_can_make() -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in readme.splitlines() if line.startswith("| `COALQ_")]

    listed = {name for row in rows for name in re.findall(r"COALQ_\w+", row)}

    # The embedded stack sets this one itself.
    assert listed == {f"COALQ_{name.upper()}" for name in Settings.model_fields} - {"COALQ_LOCAL_ID"}
