"""Named models, ready to explain, each with its own preprocessing and labels."""

DEFAULT = "efficientnet-lite0"
"""Its weights are installed with secondsight, so that it needs neither a download nor a file."""
