"""How the variants of a thing become known by name: each file registers its own."""


def register(registry, name):
    """Decorator: puts a class into `registry` by `name`, which it is told as `registered_name`.

    >>> FRUITS = {}
    >>> @register(FRUITS, "apple")
    ... class Apple: ...
    >>> FRUITS["apple"].registered_name
    'apple'
    """

    def put(kind):
        if name in registry:
            raise ValueError(f"The name {name!r} is taken by {registry[name].__name__}.")
        kind.registered_name = name
        registry[name] = kind
        return kind

    return put
