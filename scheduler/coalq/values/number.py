"""The value `number`: the first number in the answer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from coalq.generation import Generation

# A minus belongs to the number only where no word stands before it ("COVID-19", "10-20"); commas only as thousands
# separators, so that "1,234.5" is one number and "1,2" begins with 1.
_NUMBER = re.compile(
    r"""(?P<sign>(?<![\w.])[-+\u2212])?
        (?P<digits>\d{1,3}(?:,\d{3})+(?![\d,])(?:\.\d+)?  # 1,234,567.8
                  |\d+(?:\.\d+)?                          # 12 or 12.5
                  |(?<!\d)\.\d+)                          # .5
        (?P<exponent>[eE][-+]?\d+(?!\w))?""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Number:
    """The first number in the answer; thousands separators, decimals and exponents are understood."""

    name: ClassVar[str] = "number"
    version: ClassVar[int] = 1

    def __call__(self, generation: Generation, base: Generation) -> float:  # noqa: ARG002 - the protocol's signature
        """Read the number.

        Raises:
            ValueError: If there is none.
        """
        found = _NUMBER.search(generation.text)
        if found is None:
            raise ValueError("the answer contains no number")
        number = float(found["digits"].replace(",", "") + (found["exponent"] or ""))
        return -number if found["sign"] in {"-", "\u2212"} else number
