"""Reading the conversation that a command names: files, standard input, --prompt."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from coalq.errors import InputError, NotBuiltError
from coalq.input_file import read_input


def written(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"one line\n", "one line"),
        (b"one line\r\n", "one line"),
        (b"two\n\n", "two\n"),
        (b"kept \t", "kept \t"),
        (b"a\r\nb", "a\r\nb"),
        ("\ufeffmarked".encode(), "marked"),
        (b"{{x}}: [not, yaml", "{{x}}: [not, yaml"),
    ],
)
def test_a_text_file_is_taken_exactly_but_for_its_last_line_end(tmp_path: Path, content: bytes, text: str) -> None:
    path = written(tmp_path, "prompt.txt", content)

    from_file = read_input(path)
    from_stdin = read_input("-", stdin=io.BytesIO(content))

    assert from_file.prompt == from_stdin.prompt == text
    assert from_file.literal


@pytest.mark.parametrize("name", ["a.yaml", "a.yml", "a.YAML"])
def test_the_suffix_decides_what_a_file_is(tmp_path: Path, name: str) -> None:
    path = written(tmp_path, name, b"prompt: hello")

    conversation = read_input(str(path))

    assert conversation.prompt == "hello"
    assert conversation.source == str(path)


def test_json_files_are_read(tmp_path: Path) -> None:
    assert read_input(written(tmp_path, "a.json", b'{"prompt": "hello"}')).prompt == "hello"


def test_a_prompt_is_taken_literally() -> None:
    conversation = read_input(None, prompt="Say {{x}}\n")

    assert (conversation.prompt, conversation.literal) == ("Say {{x}}\n", True)


@pytest.mark.parametrize(("path", "prompt"), [(None, None), ("a.txt", "b"), ("-", "b")])
def test_exactly_one_source_is_allowed(path: str | None, prompt: str | None) -> None:
    with pytest.raises(InputError, match="exactly one of: an input file, `-` for standard input, --prompt"):
        read_input(path, prompt=prompt, stdin=io.BytesIO(b"c"))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"missing\.txt: there is no such file"):
        read_input(tmp_path / "missing.txt")


def test_a_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        read_input(tmp_path)


@pytest.mark.parametrize("name", ["\0", "x" * 5000])
def test_an_impossible_file_name_is_an_input_error(name: str) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_input(name)


def test_bytes_that_are_not_utf8_are_named_by_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="line 2: is not UTF-8"):
        read_input(written(tmp_path, "latin.txt", "one\ncaf\xe9 x".encode("latin-1")))


@pytest.mark.parametrize("name", ["a.txt", "a.yaml", "a.json"])
def test_an_empty_file_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="is empty"):
        read_input(written(tmp_path, name, b"\n"))


@pytest.mark.parametrize("prompt", ["", "a\0b", "a\udc80"])
def test_a_prompt_that_cannot_be_sent_is_refused(prompt: str) -> None:
    with pytest.raises(InputError, match="--prompt: "):
        read_input(None, prompt=prompt)


def test_datasets_are_not_built_yet(tmp_path: Path) -> None:
    with pytest.raises(NotBuiltError, match="JSONL"):
        read_input(written(tmp_path, "a.jsonl", b"{}"))
