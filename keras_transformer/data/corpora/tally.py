"""The place and the counts of one reading of a corpus."""

from keras_transformer.errors import UserError


class BadLine:
    """A line that breaks the format.

    Args:
        problem: Where it is and what is wrong with it.
        remedy: What the user can do about it, besides leaving it out.
    """

    def __init__(self, problem, remedy):
        self.problem = problem
        self.remedy = remedy


# Stands for a line or a document beyond the allowed length; its text was not kept.
TOO_LONG = object()


class Tally:
    """Where one reading of a corpus is, and what it has left out or changed so far."""

    def __init__(self):
        self.path = None
        self.line_number = 0
        self.blank_lines = 0
        self.bad_lines = 0
        self.first_bad_line = None
        self.too_long = 0
        self.replacements = 0
        self.nul_characters = 0
        self.warnings = []

    @property
    def place(self):
        return f"{self.path}:{self.line_number}"

    def refuse(self, bad_line, rules):
        """Counts a bad line, or raises its message when the rules call it an error."""
        if rules.on_bad_line == "error":
            raise UserError(
                f"{bad_line.problem}. {bad_line.remedy}, or leave such lines out with "
                'on_bad_line="skip".'
            )
        self.bad_lines += 1
        if self.first_bad_line is None:
            self.first_bad_line = bad_line.problem

    def without_nul(self, text):
        """Returns `text` without NUL characters, which no tokenizer has a use for; counts them."""
        if "\0" not in text:
            return text
        self.nul_characters += text.count("\0")
        return text.replace("\0", "")
