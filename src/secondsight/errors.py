"""Everything that can go wrong, as exceptions a person can act on."""

from __future__ import annotations


class SecondsightError(Exception):
    """The base of every error that secondsight raises."""


class InputError(SecondsightError, ValueError):
    """An argument that cannot be used: names it, says what it may be and what it was."""

    def __init__(self, argument: str, may_be: str, was: object) -> None:
        super().__init__(f"{argument} must be {may_be}, not {was}")
        self.argument = argument


class ImageError(SecondsightError, ValueError):
    """A file or picture that cannot be read as an image."""


class ModelError(SecondsightError):
    """A network that cannot be explained as it is."""


class SecondsightWarning(UserWarning):
    """Something that a reader of the result should know."""
