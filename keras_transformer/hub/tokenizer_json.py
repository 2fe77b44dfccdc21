"""Parts of a `tokenizer.json`, in which Hugging Face stores how a tokenizer works."""

from collections.abc import Mapping, Sequence
from typing import Any

from keras_transformer._utils.errors import UserError
from keras_transformer.hub.tokenizer_files import TOKENIZER, TokenizerFiles
from keras_transformer.text.template import Template


class JsonParts:
    """Reader of the parts of a `tokenizer.json`, which refuses unknown settings.

    Args:
        files: Files with a `tokenizer.json`.
    """

    def __init__(self, files: TokenizerFiles) -> None:
        self.files = files
        self._content: Mapping[str, Any] = files.tokenizer or {}
        model = self._content.get("model")
        if not isinstance(model, dict):
            raise self.refuse("has no 'model'.")
        self.model: Mapping[str, Any] = model

    def refuse(self, problem: str) -> UserError:
        """Returns the error for the file."""
        return self.files.refuse(problem, TOKENIZER)

    def steps(self, name: str) -> list[dict[str, Any]]:
        """Returns the steps of a part such as "normalizer", with sequences flattened."""
        return self._flat(self._content.get(name), name, 0)

    def _flat(self, part: Any, name: str, depth: int) -> list[dict[str, Any]]:
        if part is None:
            return []
        if not isinstance(part, dict) or not isinstance(part.get("type"), str) or depth > 5:
            raise self.refuse(f"has a {name!r} that is not an object with a type.")
        if part["type"] != "Sequence":
            return [part]
        inner = next(
            (part[key] for key in (f"{name}s", "pretokenizers", "processors") if key in part), None
        )
        if not isinstance(inner, list):
            raise self.refuse(f"has a sequence in {name!r} without steps.")
        return [step for each in inner for step in self._flat(each, name, depth + 1)]

    def require(self, part: Mapping[str, Any], where: str, **expected: tuple[Any, ...]) -> None:
        """Checks that settings have one of their expected values, and that there are no others.

        Args:
            part: A step or the model.
            where: Name of the part, for messages.
            **expected: The possible values of each setting; none: any value. A missing one is None.
        """
        for key in part:
            if key not in expected and key != "type":
                raise self.refuse(f"has the setting {key!r} in {where}, which is not known.")
        for key, allowed in expected.items():
            value = part.get(key)
            if allowed and not any(value == a and type(value) is type(a) for a in allowed):
                raise self.refuse(f"has the value {str(value)[:40]!r} for {key!r} in {where}.")

    def template(self, tokens: Sequence[str]) -> Template | None:
        """Returns the ids around a single text, or None if the file does not say.

        Args:
            tokens: Token of each id.
        """
        template = None
        for step in self.steps("post_processor"):
            kind = step["type"]
            if kind in ("RobertaProcessing", "BertProcessing"):
                around = [step.get("cls"), step.get("sep")]
                ids = [each[1] for each in around if isinstance(each, list) and len(each) == 2]
                if len(ids) != 2:
                    raise self.refuse(f"has a {kind} without 'cls' and 'sep'.")
                template = Template((ids[0],), (ids[1],))
            elif kind == "TemplateProcessing":
                template = self._template(step, tokens)
            elif kind != "ByteLevel":
                raise self.refuse(f"has the post-processor {kind!r}, which is not supported.")
        if template is not None and any(number >= len(tokens) for number in template.ids):
            raise self.refuse("has a template with ids outside of the vocabulary.")
        return template

    def _template(self, step: Mapping[str, Any], tokens: Sequence[str]) -> Template:
        single, special = step.get("single"), step.get("special_tokens")
        if not isinstance(single, list) or not isinstance(special, dict):
            raise self.refuse("has a TemplateProcessing without 'single' and 'special_tokens'.")
        sides: list[list[int]] = [[]]
        for part in single:
            token = part.get("SpecialToken") if isinstance(part, dict) else None
            if token is None:
                sides.append([])
                continue
            entry = special.get(token.get("id")) if isinstance(token, dict) else None
            ids = entry.get("ids") if isinstance(entry, dict) else None
            if not isinstance(ids, list):
                raise self.refuse(f"has no ids for the special token {token!r}.")
            sides[-1] += ids
        if len(sides) != 2:
            raise self.refuse("has a template without exactly one text.")
        return Template(tuple(sides[0]), tuple(sides[1]))
