"""HTML pages from Jinja2 templates with automatic escaping."""

import functools
import os
import pathlib
from typing import Any

import jinja2


def render_page(template: str | os.PathLike[str], **values: Any) -> str:
    """Returns the text of a page, in which all values except `markupsafe.Markup` are escaped.

    The template may include others of its directory. A value that it lacks is an error.

    >>> import tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "page.html.jinja")
    >>> _ = path.write_text("<p>{{ text }}</p>")
    >>> render_page(path, text="<b>")
    '<p>&lt;b&gt;</p>'
    """
    path = pathlib.Path(template)
    return _environment(path.parent).get_template(path.name).render(**values)


@functools.cache
def _environment(directory: pathlib.Path) -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(directory),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
