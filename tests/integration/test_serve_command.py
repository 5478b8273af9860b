from __future__ import annotations

import json
import signal
import socket
import urllib.request
from pathlib import Path

import pytest

from command import coalq, running_coalq

pytestmark = pytest.mark.model


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_bundled_model_is_served_until_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    with running_coalq("serve", "--port", "0", folder=tmp_path) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        base_url = line.rpartition("COALQ_BASE_URL=")[2].strip()
        request = urllib.request.Request(  # noqa: S310 - our own server
            f"{base_url}/chat/completions",
            data=json.dumps({"messages": [{"role": "user", "content": "Say yes."}], "max_tokens": 3}).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as reply:  # noqa: S310
            answer = json.load(reply)

        process.send_signal(number)
        process.communicate(timeout=30)

    assert line.startswith("serving smollm2-135m-instruct at http://127.0.0.1:")
    assert answer["choices"][0]["message"]["content"]
    assert process.returncode == 0


def test_a_taken_port_is_one_clear_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        ended = coalq("serve", "--port", str(port), folder=tmp_path)

    assert ended.returncode == 2
    assert f"cannot be served on 127.0.0.1:{port}" in ended.stderr


def test_a_model_that_is_not_there_is_one_clear_error(tmp_path: Path) -> None:
    ended = coalq("serve", folder=tmp_path, settings={"COALQ_LOCAL_MODEL": "none.gguf"})

    assert ended.returncode == 2
    assert ended.stderr == "coalq: error: COALQ_LOCAL_MODEL: 'none.gguf' is not a file; it must be a GGUF model\n"
