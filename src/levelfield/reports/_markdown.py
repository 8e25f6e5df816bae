"""Names from data and records in Markdown: text, never markup or control codes of a terminal."""

from __future__ import annotations

import re

from levelfield.core.errors import printable


def escape_markdown(text: str) -> str:
    r"""Return ``text`` so that Markdown shows it as it is: no tags, links, images or control codes.

    Emphasis stays: it changes only the look of a name. So does "<" where no tag can start, as in p < 0.05.

    Example:
        >>> print(escape_markdown("<b>a</b> [b](http://c)"))
        &lt;b>a&lt;/b> [b]&#40;http://c)
    """
    return re.sub(r"<(?=[A-Za-z/!?])", "&lt;", printable(text)).replace("](", "]&#40;")
