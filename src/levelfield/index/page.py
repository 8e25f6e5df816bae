"""An answer as one HTML page with the pictures in it; it needs no server and no network."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from levelfield.data import ImageError
from levelfield.embedders import Picture, pixels_of
from levelfield.files import write_text
from levelfield.index._searcher import Answer

SIDE = 240
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>levelfield search</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
body { font: 15px/1.4 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; color: #222 }
ul { list-style: none; padding: 0; display: grid; gap: 1rem }
ul { grid-template-columns: repeat(auto-fill, minmax(11rem, 1fr)) }
li { border: 1px solid #ddd; border-radius: 6px; overflow: hidden }
li.below { opacity: .55 }
img { width: 100%; height: 11rem; object-fit: contain; background: #f4f4f4; display: block }
p { margin: .4rem .6rem; overflow-wrap: anywhere } .name { color: #666; font-size: .85em }
</style></head><body>
<h1>{{ "Query" if queries|length == 1 else "Query of " ~ queries|length ~ " pictures" }}</h1>
<ul>{% for picture in queries %}
<li>{% if picture %}<img src="{{ picture }}" alt="query">{% endif %}</li>
{% endfor %}</ul>
<h2>{{ verdict }}</h2>
{% for note in notes %}<p>note: {{ note }}</p>{% endfor %}
<ul>{% for neighbour, picture in answers %}
<li{% if neighbour.is_match is false %} class="below"{% endif %}>
{% if picture %}<img src="{{ picture }}" alt="{{ neighbour.label or neighbour.name }}">{% endif %}
<p>{{ loop.index }}. {{ "%.3f"|format(neighbour.similarity) }} <b>{{ neighbour.label }}</b></p>
<p class="name">{{ neighbour.name }}</p></li>{% endfor %}</ul>
</body></html>
"""


def write_page(file: str | Path, pictures: Sequence[Picture], answer: Answer) -> None:
    """Write the query's pictures and the answer to ``file``; pictures that are gone are left out."""
    import jinja2

    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    text = environment.from_string(PAGE).render(
        queries=[_thumbnail(picture) for picture in pictures],
        answers=[(neighbour, _thumbnail(neighbour.name)) for neighbour in answer.neighbours],
        notes=answer.notes,
        verdict=verdict(answer),
    )
    write_text(Path(file), text, remedy="make room or choose another --html")


def verdict(answer: Answer) -> str:
    """One sentence: what was found, and how far it can be trusted.

    Example:
        >>> verdict(Answer((), None, ()))
        'The most similar pictures'
    """
    if answer.threshold is None:
        return "The most similar pictures"
    limit, rate = answer.threshold.similarity, answer.threshold.false_accept_rate
    promise = f"similarity {limit:.3f}, which at most {rate:.0%} of pictures without a match reach"
    if not answer.found:
        return f"Nothing like it here: nothing reaches {promise}"
    count = sum(bool(neighbour.is_match) for neighbour in answer.neighbours)
    return f"{count} {'match' if count == 1 else 'matches'}: at least {promise}"


def _thumbnail(picture: Picture) -> str:
    """The picture as a small JPEG in a data address; empty if it cannot be read."""
    try:
        image = Image.fromarray(pixels_of(picture).permute(1, 2, 0).squeeze(-1).numpy())
    except ImageError:
        return ""
    image.thumbnail((SIDE, SIDE))
    stream = io.BytesIO()
    image.save(stream, "JPEG", quality=85)
    return "data:image/jpeg;base64," + base64.b64encode(stream.getvalue()).decode()
