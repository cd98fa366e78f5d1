"""What all sources of networks share: optional packages, names, and downloads from hubs that may not answer.

The argument `asked` is what the user typed, such as timm:resnet50; messages begin with it.
"""

from __future__ import annotations

import difflib
import importlib
import socket
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import torch

from secondsight.errors import LONGEST, InputError, ModelError

PATIENCE = 3.0
"""Seconds that a hub gets to answer: long for a connection, short for a user who is offline."""

Result = TypeVar("Result")


def imported(package: str, asked: str, install: str) -> ModuleType:
    """Import an optional package.

    Args:
        package: the name to import.
        asked: what the user typed.
        install: the command that installs the package.

    Raises:
        ModelError: if the package is not installed (the message has the command), or if it fails to import.
    """
    try:
        return importlib.import_module(package)
    except Exception as error:
        # A broken installation may raise any kind of error.
        if isinstance(error, ModuleNotFoundError) and error.name == package:
            raise ModelError(f"{asked} needs {package}: {install}") from None
        raise broken(package, asked, error) from error


def broken(package: str, asked: str, error: Exception) -> ModelError:
    """Make the error of a package that is installed but fails to import, with the underlying cause if there is one."""
    cause = error.__cause__ if isinstance(error.__cause__, Exception) else error
    why = f"{type(cause).__name__}: {first_line(cause)}"
    return ModelError(f"{asked} needs {package}, which is installed but fails to import ({why})")


def check_name(source: str, name: str, known: Iterable[str]) -> None:
    """Refuse a name that a library does not know, and suggest names like it.

    Args:
        source: the library, as in SOURCE:NAME.
        name: what the user typed after the colon.
        known: all names of the library.

    Raises:
        InputError: if the name is not one of `known`.
    """
    names = set(known)
    if name not in names:
        near = difflib.get_close_matches(name, sorted(names), n=3, cutoff=0.5)
        hint = f" (near: {', '.join(near)})" if near else ""
        raise InputError("model", f"{source}:NAME with a name that {source} knows{hint}", repr(f"{source}:{name}"))


def torch_file(url: str, asked: str) -> Path:
    """Return the copy of a checkpoint in the cache of torch.hub, downloaded if it is not there yet.

    Args:
        url: where the checkpoint is.
        asked: what the user typed.

    Raises:
        ModelError: if the checkpoint cannot be downloaded.
    """
    file = Path(torch.hub.get_dir()) / "checkpoints" / Path(urlsplit(url).path).name
    if not file.is_file():
        require_answer(url, asked)
        file.parent.mkdir(parents=True, exist_ok=True)
        # By torch's convention the name ends in the start of the file's hash.
        _, dash, ending = file.stem.rpartition("-")
        is_hash = bool(dash) and len(ending) >= 8 and set(ending) <= set("0123456789abcdef")
        downloaded(asked, lambda: torch.hub.download_url_to_file(url, str(file), ending if is_hash else None, False))
    return file


def huggingface_file(repository: str, names: Iterable[str], asked: str) -> Path:
    """Return a file of a repository on the Hugging Face hub: from the cache, or else downloaded.

    Args:
        repository: OWNER/NAME.
        names: files that would do. The first that is in the cache is taken, else the first that the repository has.
        asked: what the user typed.

    Raises:
        ModelError: if huggingface_hub is not installed, or no file can be downloaded.
    """
    hub = imported("huggingface_hub", asked, "pip install huggingface_hub")
    names = list(names)
    for name in names:
        cached = hub.try_to_load_from_cache(repository, name)
        if isinstance(cached, str):
            return Path(cached)
    require_answer(hub.constants.ENDPOINT, asked)

    def download() -> str:
        for name in names[:-1]:
            with suppress(hub.errors.EntryNotFoundError):
                return str(hub.hf_hub_download(repository, name))
        return str(hub.hf_hub_download(repository, names[-1]))

    return Path(downloaded(asked, download))


def require_answer(url: str, asked: str, instead: str | None = None) -> None:
    """Refuse at once if a hub does not answer, because the libraries themselves try again for minutes.

    Args:
        url: any address on the hub.
        asked: what the user typed.
        instead: what to suggest; None: a file with weights.

    Raises:
        ModelError: if there is no answer after PATIENCE seconds.
    """
    host = urlsplit(url).hostname or url
    if not _answers(host):
        raise ModelError(
            f"{asked} is not on this machine and {host} cannot be reached: "
            f"give {instead or f'your own weights, {asked}@FILE.safetensors'}"
        )


def downloaded(asked: str, download: Callable[[], Result]) -> Result:
    """Run a download and return its result. Any error becomes a ModelError of one line."""
    try:
        return download()
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(f"{asked} could not be downloaded: {first_line(error)}") from error


def first_line(error: Exception) -> str:
    """Return the first line of an error's message that is not empty, cut at LONGEST characters, or the error's type."""
    line = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return line if len(line) <= LONGEST else f"{line[:LONGEST]}..."


def _answers(host: str) -> bool:
    proxy = None if proxy_bypass(host) else getproxies().get("https")
    gate = urlsplit(proxy) if proxy else None
    address = (gate.hostname or host, gate.port or 443) if gate else (host, 443)
    answered = threading.Event()

    def knock() -> None:
        with suppress(OSError), socket.create_connection(address, timeout=PATIENCE):
            answered.set()

    # In a thread, because the look-up of a name has no timeout of its own.
    thread = threading.Thread(target=knock, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    return answered.is_set()
