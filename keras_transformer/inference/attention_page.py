"""Alignments as a page: one HTML file that needs nothing else."""

import html

from keras_transformer.inference.alignment import split_mark
from keras_transformer.printable import shown

_STYLE = """
:root { color-scheme: light dark; --heat: 0 90 170; --line: #8883; --quiet: #888; }
@media (prefers-color-scheme: dark) { :root { --heat: 110 190 255; } }
body { font: 15px/1.4 system-ui, sans-serif; margin: 1.5rem; }
body, th { background: Canvas; color: CanvasText; }
h1 { font-size: 1.4rem; }
h2 { font-size: 1rem; color: var(--quiet); border-top: 1px solid var(--line); padding-top: 1rem; }
p { max-width: 50rem; margin: .2rem 0; overflow-wrap: anywhere; }
.map { overflow: auto; max-height: 90vh; margin: .8rem 0 1.5rem; }
table { border-collapse: collapse; font-size: 13px; }
th { font-weight: normal; white-space: pre; position: sticky; }
thead th { top: 0; z-index: 1; writing-mode: vertical-rl; text-align: end; padding: 0 0 .3rem; }
tbody th { left: 0; text-align: end; padding: 0 .4rem 0 0; }
thead th:first-child { left: 0; z-index: 2; }
td { min-width: 1.4rem; height: 1.4rem; padding: 0; border: 1px solid var(--line); }
td { background: rgb(var(--heat) / var(--weight)); }
td:hover { outline: 2px solid CanvasText; outline-offset: -2px; }
tr:hover th { text-decoration: underline; }
i { font-style: normal; color: var(--quiet); }
"""

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<h1>{title}</h1>
<p>Each row is a token of the target, each column a token of the source. The stronger the colour,
the more the row attended to the column; point at a cell for its weight.</p>
{sections}
</body>
</html>
"""


def make_attention_page(alignments, title="Attention"):
    """Returns a page with all alignments as a string of HTML.

    It loads nothing from anywhere and runs no script. Its colours follow the light or dark setting
    of the browser.

    Args:
        alignments: An iterable of `Alignment`.
        title: Of the page.
    """
    sections = (_section(number, one) for number, one in enumerate(alignments, start=1))
    return _PAGE.format(title=_escaped(title), style=_STYLE, sections="\n".join(sections))


def _section(number, alignment):
    head = "".join(f"<th>{_token(token)}</th>" for token in alignment.source_tokens)
    rows = (_row(alignment, row) for row in range(len(alignment.target_tokens)))
    return (
        f"<section>\n<h2>{number}</h2>\n"
        f'<p dir="auto">{_escaped(alignment.source)}</p>\n'
        f'<p dir="auto">{_escaped(alignment.target)}</p>\n'
        f'<div class="map"><table>\n<thead><tr><th></th>{head}</tr></thead>\n<tbody>\n'
        + "\n".join(rows)
        + "\n</tbody></table></div>\n"
        f"<p><i>Strongest colour: {alignment.largest_weight:.3f}</i></p>\n</section>"
    )


def _row(alignment, row):
    target = _title(alignment.target_tokens[row])
    strongest = alignment.largest_weight
    cells = (
        f'<td style="--weight:{weight / strongest:.2f}" '
        f'title="{target} ← {_title(source)}: {weight:.3f}"></td>'
        for source, weight in zip(alignment.source_tokens, alignment.weights[row], strict=True)
    )
    return f"<tr><th>{_token(alignment.target_tokens[row])}</th>{''.join(cells)}</tr>"


def _token(token):
    mark, text = split_mark(token)
    return f"<i>{html.escape(mark)}</i>{html.escape(text)}" if mark else html.escape(text)


def _title(token):
    # Between marks of Unicode that keep a token of a script from right to left in its place.
    return html.escape("\u2068" + "".join(split_mark(token)) + "\u2069")


def _escaped(text):
    return html.escape(shown(text))
