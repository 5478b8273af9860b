"""Submit a run from a script, and with --wait also wait for it and print the values of its players.

Set COALQ_REDIS_URL and COALQ_DATABASE_URL to the servers that your workers use, then for example

    python examples/submit_run.py examples/refund.yaml --model qwen2.5-7b --wait

Without --wait the script ends at once: the workers finish the run, and `coalq results RUN` shows it on any machine.
"""

from __future__ import annotations

import argparse
import sys

from coalq import CoalqError, Producer, RunFailedError, read_input, run_config


def main() -> None:
    """Submit one conversation and show what drove the answer."""
    parser = argparse.ArgumentParser(description="Submit one conversation to the workers.")
    parser.add_argument("file", help="a YAML, JSON or text file")
    parser.add_argument("--model", required=True, help="the model's name as your endpoint calls it")
    parser.add_argument("--wait", action="store_true", help="wait for the run and print its values")
    arguments = parser.parse_args()

    conversation = read_input(arguments.file)
    config = run_config({"model": arguments.model}, conversation.options)
    with Producer() as producer:
        run = producer.submit(conversation, config)
        print(f"run {run.id}")
        if not arguments.wait:
            return
        print(f"status {run.wait()}")
        attribution = run.attribution()
        for player, value in attribution.top(len(attribution.players)):
            print(f"{value:+.3f}  {player.text}")


if __name__ == "__main__":
    try:
        main()
    except CoalqError as error:
        print(f"error: {error}", file=sys.stderr)
        # As `coalq submit` does: 3 for a run without values, 2 for bad input and for servers that cannot be used.
        sys.exit(3 if isinstance(error, RunFailedError) else 2)
