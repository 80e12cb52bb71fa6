"""The engine's errors. A message gives place, value seen, rule and fix, in one line."""


class EngineError(Exception):
    """Anything that the engine raises on purpose."""


class Refusal(EngineError):  # noqa: N818  # it is the engine's word for what it does, as in the ready line's place
    """A command line, container or draft pack that the engine does not serve: exit code 2 before it listens."""


class RequestError(EngineError):
    """A request that is answered with a 4xx and changes nothing. `param` names the field, "" where none is at fault."""

    def __init__(self, message: str, param: str = "", status: int = 400) -> None:
        super().__init__(message)
        self.param = param
        self.status = status
