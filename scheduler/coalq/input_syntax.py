"""Reads YAML and JSON so that a fault is one line that names its place."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, NoReturn

import yaml

from coalq.errors import InputError


def load_json(text: str, *, source: str) -> object:
    """Parse JSON; a key that stands twice is an error instead of silently the last one.

    Raises:
        InputError: Names the source and, for broken syntax, line and column.
    """

    def refuse(constant: str) -> NoReturn:
        raise InputError(f"{source}: {constant} is not a JSON number")

    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        mapping = dict(pairs)
        if len(mapping) < len(pairs):
            doubled = Counter(name for name, _ in pairs).most_common(1)[0][0]
            raise InputError(f"{source}: the key {doubled!r} stands twice in one mapping")
        return mapping

    try:
        return json.loads(text, parse_constant=refuse, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        raise InputError(f"{source}: line {error.lineno}, column {error.colno}: broken JSON: {error.msg}") from error


def load_yaml(text: str, *, source: str) -> object:
    """Parse YAML of plain values; dates stay text.

    Raises:
        InputError: Names the source and, where it is known, line and column.
    """
    try:
        return yaml.load(text, Loader=_TextLoader)  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        reason = ": ".join(part for part in (error.context, error.problem) if part)
        raise InputError(f"{source}: {line}broken YAML: {reason}") from error
    except yaml.reader.ReaderError as error:
        line = f"line {text.count(chr(10), 0, error.position) + 1}: "
        raise InputError(
            f"{source}: {line}broken YAML: the character U+{error.character:04X} is not allowed"
        ) from error
    except (yaml.YAMLError, ValueError) as error:
        raise InputError(f"{source}: broken YAML: {error}") from error


class _TextLoader(yaml.SafeLoader):
    """YAML for text: dates stay text, and a key that stands twice is an error instead of silently the last one."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - the base class's form
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.value == "<<":
                continue
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key.value!r} stands twice in one mapping", key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep=deep)
