"""The viewer in a notebook: a frame of its own for each result, so that several in one notebook do not interfere."""

from __future__ import annotations

import html
from collections.abc import Sequence

from secondsight.results import sentences
from secondsight.viewer.page import Tab, viewer_page

HEIGHT = 780
"""CSS pixels: room for pictures, slider and curves in a cell of usual width. What is below scrolls."""

NO_FRAME = "The viewer is not shown here. Trust this notebook, or run the cell again."
"""The text inside of the frame. Front ends that remove frames show it; browsers that show frames do not."""


def frame(tabs: Sequence[Tab], name: str = "") -> str:
    """Write the viewer as HTML for a notebook: without exact arrays, which would make it twice as large.

    The frame lets the page run its script and save files, and nothing else. Front ends that show no frames, such as
    JupyterLab for a notebook that is not trusted, show two lines of text: what to do about it, and what the result is.

    Args:
        tabs: the results.
        name: the file name of the photograph; empty if there is none.
    """
    captions = [tab.title or sentences.caption(tab.explanation) for tab in tabs]
    words = html.escape(f"{sentences.title(tabs[0].explanation)}; {', '.join(captions)}")
    page = html.escape(viewer_page(tabs, name, archive=False))
    style = f"width: 100%; height: {HEIGHT}px; border: 1px solid #8884; border-radius: 8px"
    shown = (
        f'<iframe title="{words}" sandbox="allow-scripts allow-downloads" style="{style}" srcdoc="{page}">'
        f"{NO_FRAME}</iframe><p><small>{words}</small></p>"
    )
    # In ASCII, because the policy knows the script by its bytes, whatever the encoding around the frame is.
    return shown.encode("ascii", "xmlcharrefreplace").decode()
