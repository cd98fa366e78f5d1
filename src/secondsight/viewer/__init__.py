"""Results as one HTML file that moves: what lies in the page, and how the page is put together."""
