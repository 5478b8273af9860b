"""The input conversation: what is taken, what is refused, and how the refusal reads."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from coalq.conversation_input import ConversationInput
from coalq.errors import InputError, NotBuiltError
from coalq.input_file import parse_input

REFUND = """
messages:
- {role: system, content: "Answer the question in one short sentence, using the notes."}
- {role: user, content: "{{notes}}\\nQuestion: Within how many days are refunds paid?"}
slots:
  notes:
    join: " "
    items: ["The shop opened in 2011.", {id: paid, text: "Refunds are paid within 14 days."}]
value: "contains:14"
generation: {max_tokens: 12}
id: 7
metadata: {asked: 2011-05-01, tags: [a, 1]}
"""


def complaint(given: dict[str, Any]) -> str:
    with pytest.raises(InputError) as raised:
        ConversationInput.from_mapping(given, source="file")
    return str(raised.value)


def test_a_yaml_file_gives_messages_slots_and_run_parameters() -> None:
    conversation = parse_input(REFUND, source="refund.yaml", format="yaml")

    assert [message.role for message in conversation.chat] == ["system", "user"]
    assert [item.text for item in conversation.slots["notes"].items] == [
        "The shop opened in 2011.",
        "Refunds are paid within 14 days.",
    ]
    assert [item.id for item in conversation.slots["notes"].items] == [None, "paid"]
    assert conversation.slots["notes"].join == " "
    assert conversation.options == {
        "value": "contains:14",
        "generation": {"max_tokens": 12},
        "metadata": {"asked": "2011-05-01", "tags": ["a", 1]},
    }
    assert conversation.id == "7"
    assert not conversation.literal


def test_json_says_the_same_as_yaml() -> None:
    in_json = parse_input('{"prompt": "hi {{x}}", "fixed": {"x": "y"}, "players": "words"}', source="c", format="json")
    in_yaml = parse_input("{prompt: 'hi {{x}}', fixed: {x: y}, players: words}", source="c", format="yaml")

    assert in_json == in_yaml


def test_slots_are_separated_by_a_blank_line_unless_they_say_otherwise() -> None:
    given = {"prompt": "{{x}}", "slots": {"x": {"items": ["a", "b"]}}}

    assert ConversationInput.from_mapping(given).slots["x"].join == "\n\n"


def test_plain_text_is_one_literal_user_message() -> None:
    conversation = parse_input("Say {{this}}: \n x", source="prompt.txt", format="text")

    assert conversation.literal
    assert [(message.role, message.content) for message in conversation.chat] == [("user", "Say {{this}}: \n x")]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"promt": "hi"}, "file: unknown key 'promt'; did you mean prompt?"),
        ({"prompt": "hi", "colour": 1}, "file: unknown key 'colour'; allowed are: prompt, messages, slots,"),
        ({1: "hi"}, "file: unknown key 1"),
        ({}, "file: exactly one of prompt and messages must be given"),
        ({"prompt": "a", "messages": [{"role": "user", "content": "b"}]}, "exactly one of prompt and messages"),
        ({"prompt": ""}, "file: prompt: is empty"),
        ({"prompt": 14}, "file: prompt: must be text, not 14; put it in quotes"),
        ({"prompt": "a\0"}, "file: prompt: the character U+0000 cannot be sent"),
        ({"prompt": "\ud800"}, "file: prompt: the character U+D800 cannot be sent"),
        ({"messages": []}, "file: messages: must have at least one item"),
        ({"messages": "hi"}, "file: messages: must be a list, not 'hi'"),
        ({"messages": ["hi"]}, "file: messages[0]: must be a mapping, not 'hi'"),
        ({"messages": [{"role": "user"}]}, "file: messages[0].content: is missing"),
        ({"messages": [{"role": "user", "contents": "b"}]}, "file: messages[0]: unknown key 'contents'; did you mean"),
        ({"messages": [{"role": "human", "content": "b"}]}, "file: messages[0].role: must be 'system', 'developer', "),
        ({"messages": [{"role": "user", "content": None}]}, "file: messages[0].content: must be text, not None"),
        ({"prompt": "a", "slots": ["b"]}, "file: slots: must be a mapping, not ['b']"),
        ({"prompt": "a", "slots": {"b": ["c"]}}, "file: slots.b: must be a mapping, not ['c']"),
        ({"prompt": "a", "slots": {"b": {}}}, "file: slots.b.items: is missing"),
        ({"prompt": "a", "slots": {"b": {"items": []}}}, "file: slots.b.items: must have at least one item"),
        ({"prompt": "a", "slots": {"b": {"items": ["c", 5]}}}, "file: slots.b.items[1].text: must be text, not 5"),
        ({"prompt": "a", "slots": {"b": {"items": ["c", " "]}}}, "file: slots.b.items[1]: the item is blank"),
        ({"prompt": "a", "slots": {"b": {"items": [{"id": " ", "text": "c"}]}}}, "slots.b.items[0]: the id is blank"),
        ({"prompt": "a", "slots": {"b": {"items": [{"txt": "c"}]}}}, "slots.b.items[0]: unknown key 'txt'; did you"),
        ({"prompt": "a", "slots": {"b": {"item": ["c"]}}}, "file: slots.b: unknown key 'item'; did you mean items?"),
        ({"prompt": "a", "slots": {"b c": {"items": ["d"]}}}, "slots: 'b c' is not a name"),
        ({"prompt": "a", "fixed": {"b": 3}}, "file: fixed.b: must be text, not 3; put it in quotes"),
        ({"prompt": "a", "fixed": {"b": "c"}, "slots": {"b": {"items": ["d"]}}}, "'b' is declared under both"),
        ({"prompt": "a", "players": "chars"}, "file: players: must be 'auto', 'words', 'sentences' or 'slots', not"),
        ({"prompt": "a", "value": "bleu"}, "file: value 'bleu' is unknown; allowed are: contains:TEXT, exact, number"),
        (
            {"prompt": "a", "generation": {"max_tokens": 0}},
            "file: generation.max_tokens: must be greater than or equal",
        ),
        ({"prompt": "a", "generation": {"max_token": 1}}, "file: generation: unknown key 'max_token'; did you mean"),
        ({"prompt": "a", "metadata": {"x": b"y"}}, "file: metadata.x: "),
    ],
)
def test_a_wrong_input_is_one_clear_line(given: dict[str, Any], message: str) -> None:
    said = complaint(given)

    assert message in said
    assert said.startswith("file: ")
    assert "\n" not in said


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"players": "lines"}, "players: lines"),
        ({"players": "paragraphs"}, "players: paragraphs"),
        ({"players": "messages"}, "players: messages"),
        ({"absence": "pad"}, "absence: pad"),
        ({"absence": "neutral"}, "absence: neutral"),
        ({"empty": "placeholder"}, "empty: placeholder"),
        ({"empty": 0.5}, "empty: 0.5"),
        ({"estimator": "kernel"}, "estimator: kernel"),
        ({"estimand": "banzhaf"}, "estimand: banzhaf"),
        ({"value": "regex:a+"}, "value 'regex:a+'"),
        ({"tolerance": 0.1}, "tolerance (0.1)"),
        ({"max_cost": 3}, "max_cost (3)"),
        ({"placeholder": "[MASK]"}, "placeholder ('[MASK]')"),
        ({"generation": {"stop": ["x"]}}, "generation: stop (['x'])"),
        ({"tools": []}, "tools ([])"),
        ({"custom_id": "1", "body": {}}, "custom_id ('1')"),
    ],
)
def test_documented_parameters_that_are_not_built_are_refused_by_name(given: dict[str, Any], named: str) -> None:
    with pytest.raises(NotBuiltError, match=re.escape(named)):
        ConversationInput.from_mapping({"prompt": "a", **given})


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": [{"type": "text", "text": "a"}]},
        {"role": "tool", "content": "a", "tool_call_id": "1"},
        {"role": "assistant", "content": "a", "tool_calls": []},
        {"role": "user", "content": "a", "name": "b"},
    ],
)
def test_messages_that_are_not_built_are_refused_by_place(message: dict[str, Any]) -> None:
    with pytest.raises(NotBuiltError, match=r"messages\[0\]"):
        ConversationInput.from_mapping({"messages": [message]})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prompt: a\nslots: [b", "file: line 2, column 10: broken YAML"),
        ("prompt: a\nprompt: b", "file: line 2, column 1: broken YAML: the key 'prompt' stands twice"),
        ("prompt: a\n---\nprompt: b", "file: line 2, column 1: broken YAML: expected a single document"),
        ("prompt: a\n\nid: \x01", "file: line 3: broken YAML: the character U+0001 is not allowed"),
        ("prompt: !!python/object:os.system {}", "file: line 1, column 9: broken YAML: could not determine"),
        ("prompt: !!int abc", "file: broken YAML: invalid literal"),
        ("x: " + "[" * 5000, "file: is nested too deeply"),
        (" \n", "file: is empty"),
        ("# nothing\n", "file: must be a mapping with `prompt` or `messages`, but it is empty"),
        ("- a", "file: must be a mapping with `prompt` or `messages`, but it is a list"),
        ("just text", "file: must be a mapping with `prompt` or `messages`, but it is a str"),
    ],
)
def test_broken_yaml_names_its_line(text: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        parse_input(text, source="file", format="yaml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"prompt":\n "a" "b"}', "file: line 2, column 6: broken JSON"),
        ('{"prompt": "a", "prompt": "b"}', "file: the key 'prompt' stands twice in one mapping"),
        ('{"prompt": NaN}', "file: NaN is not a JSON number"),
        ("[1]", "file: must be a mapping with `prompt` or `messages`, but it is a list"),
        ("", "file: is empty"),
    ],
)
def test_broken_json_names_its_line(text: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        parse_input(text, source="file", format="json")


def test_the_readmes_example_file_is_read() -> None:
    path = Path(__file__).parents[2] / "examples" / "refund.yaml"

    conversation = parse_input(path.read_text(encoding="utf-8"), source=str(path), format="yaml")

    assert len(conversation.slots["notes"].items) == 7
