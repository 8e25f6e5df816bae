"""Self-contained HTML page of a search answer, with the images embedded."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from levelfield.core.files import write_text
from levelfield.data import ImageError
from levelfield.retrieval.embedders import ImageInput, decode_pixels
from levelfield.retrieval.index._searcher import SearchAnswer

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
<h1>{% if text %}“{{ text }}”{% elif queries|length == 1 %}Query{% else -%}
Query of {{ queries|length }} images{% endif %}</h1>
<ul>{% for image in queries %}
<li>{% if image %}<img src="{{ image }}" alt="query">{% endif %}</li>
{% endfor %}</ul>
<h2>{{ summary }}</h2>
{% for note in notes %}<p>note: {{ note }}</p>{% endfor %}
<ul>{% for neighbor, image in answers %}
<li{% if neighbor.is_match is false %} class="below"{% endif %}>
{% if image %}<img src="{{ image }}" alt="{{ neighbor.label or neighbor.name }}">{% endif %}
<p>{{ loop.index }}. {{ "%.3f"|format(neighbor.similarity) }} <b>{{ neighbor.label }}</b></p>
<p class="name">{{ neighbor.name }}</p></li>{% endfor %}</ul>
</body></html>
"""


def write_result_page(
    file: str | Path, images: Sequence[ImageInput], answer: SearchAnswer, *, text: str = ""
) -> None:
    """Write the query (images or a text) and the answer to ``file``; missing images are left out."""
    import jinja2

    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    text = environment.from_string(PAGE).render(
        queries=[_thumbnail(image) for image in images],
        answers=[(neighbor, _thumbnail(neighbor.name)) for neighbor in answer.neighbors],
        notes=answer.notes,
        text=text,
        summary=summarize_answer(answer),
    )
    write_text(Path(file), text, remedy="free disk space or choose another --html")


def summarize_answer(answer: SearchAnswer) -> str:
    """Return one sentence: the number of matches and the threshold.

    Example:
        >>> summarize_answer(SearchAnswer((), None, ()))
        'The most similar images'
    """
    if answer.threshold is None:
        return "The most similar images"
    limit, rate = answer.threshold.similarity, answer.threshold.false_accept_rate
    promise = f"similarity {limit:.3f}, which at most {100 * rate:g}% of images without a match reach"
    if not answer.found:
        return f"No match: no image reaches {promise}"
    count = sum(bool(neighbor.is_match) for neighbor in answer.neighbors)
    if not count:
        return f"No match among these, but another image reaches {promise}"
    return f"{count} {'match' if count == 1 else 'matches'}: at least {promise}"


def _thumbnail(source: ImageInput) -> str:
    """Return the image as a small JPEG in a data URL; empty if it cannot be read."""
    try:
        image = Image.fromarray(decode_pixels(source).permute(1, 2, 0).squeeze(-1).numpy())
    except ImageError:
        return ""
    image.thumbnail((SIDE, SIDE))
    stream = io.BytesIO()
    image.save(stream, "JPEG", quality=85)
    return "data:image/jpeg;base64," + base64.b64encode(stream.getvalue()).decode()
