"""Texts of others, safe to print."""


def shown(text):
    """Returns `text` without characters that would move the cursor or color the terminal.

    >>> shown("one\\ttwo \\x1b[31mred")
    'one\\\\ttwo \\\\x1b[31mred'
    """
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )
