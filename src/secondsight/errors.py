"""The errors and warnings of secondsight. Their messages say in one line what is wrong and what would be accepted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

LONGEST = 200
"""Characters of a value, or of another library's message, that are shown, so that an error stays one readable line."""


def shown(value: object, write: Callable[[object], str] = repr) -> str:
    """Write a value in one short line, for a message."""
    try:
        text = " ".join(line.strip() for line in write(value).splitlines())
    except (ValueError, RecursionError):
        # Python writes neither whole numbers of thousands of digits nor very deep lists.
        return f"a {type(value).__name__}"
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


class SecondsightError(Exception):
    """The base of every error that secondsight raises.

    Example:
        >>> import secondsight as ss
        >>> try:
        ...     ss.load_model("resnet50-v1@no-such-file.safetensors")
        ... except ss.SecondsightError as error:
        ...     print(type(error).__name__)
        ModelError
    """


class InputError(SecondsightError, ValueError):
    """An argument that cannot be used. The message names it, says what it may be and what it was.

    Attributes:
        argument: the name of the argument.

    Example:
        >>> import secondsight as ss
        >>> ss.CASO(c1=-1)
        Traceback (most recent call last):
        secondsight.errors.InputError: c1 must be a finite number above 0, not -1
    """

    def __init__(self, argument: str, may_be: str, was: object) -> None:
        """Compose the message "ARGUMENT must be MAY_BE, not WAS".

        Args:
            argument: the name of the argument, or of the option on the command line.
            may_be: what would be accepted, such as "a folder".
            was: what was given; its `str` is shown.
        """
        super().__init__(f"{argument} must be {may_be}, not {shown(was, str)}")
        self.argument = argument

    def __reduce__(self) -> tuple[Any, ...]:
        """Let copies and other processes have the message: it is not what the constructor takes."""
        return _restored, (type(self), self.args, self.__dict__)


def _restored(cls: type[InputError], arguments: tuple[Any, ...], state: dict[str, Any]) -> InputError:
    error = cls.__new__(cls, *arguments)
    error.args = arguments
    error.__dict__.update(state)
    return error


class ImageError(SecondsightError, ValueError):
    """A file or picture that cannot be read as an image.

    Example:
        >>> import secondsight as ss
        >>> ss.explain(ss.load_model(), __file__)
        Traceback (most recent call last):
        secondsight.errors.ImageError: ...
    """


class ModelError(SecondsightError):
    """A network that cannot be loaded, or that cannot be explained as it is.

    Example:
        >>> import torch
        >>> import secondsight as ss
        >>> ss.explain(ss.Classifier(lambda x: x.detach(), input_shape=(3,)), torch.ones(3))
        Traceback (most recent call last):
        secondsight.errors.ModelError: ...
    """


class NotStoredError(SecondsightError, AttributeError):
    """A field of a result that was read from a file, where that file does not have it.

    Example:
        >>> import tempfile, torch
        >>> import secondsight as ss
        >>> model = ss.Classifier(torch.nn.Linear(4, 3), input_shape=(4,))
        >>> e = ss.run(model, [torch.rand(4)], "cafo", out=tempfile.mkdtemp())[0]
        >>> hasattr(e, "delta"), hasattr(e, "path")
        (True, False)
    """


class SecondsightWarning(UserWarning):
    """Something that changes what a result means."""


class Caution(str):
    """A note that changes what a result means. `explain` also gives it as a warning.

    Attributes:
        kind: what the note is about, because a call warns once of each kind.
    """

    kind: str

    def __new__(cls, note: str, kind: str) -> Caution:
        """Mark a note."""
        caution = super().__new__(cls, note)
        caution.kind = kind
        return caution

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]
        """What copies and pickles are made from."""
        return str(self), self.kind


ALL_ZERO, FALLBACK, NOT_CERTIFIED = "all zero", "fallback", "not certified"
"""The kinds of cautions."""
