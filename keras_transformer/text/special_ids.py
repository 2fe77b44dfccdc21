"""The four ids that mean the same in every vocabulary of this package.

| id | meaning | who writes it |
|---|---|---|
| 0 | padding: fills rows up to the length of their batch | batching |
| 1 | unknown: a word that the vocabulary cannot spell | WordPiece; the others have no unknowns |
| 2 | start: what a decoder reads before its first own piece | batching |
| 3 | end: the last piece of a sequence | batching |

Pieces of text have ids from 4 on. No text, whatever it looks like, is turned into 0, 2 or 3.
"""

PADDING_ID = 0
UNKNOWN_ID = 1
START_ID = 2
END_ID = 3

# For a person's eyes only (labels of attention maps, listings). Texts are never compared with them.
SPECIAL_NAMES = ("<padding>", "<unknown>", "<start>", "<end>")
FIRST_PIECE_ID = len(SPECIAL_NAMES)
