"""What rows of requests alone decide, told once for all measures of the same rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, overload

if TYPE_CHECKING:
    from collections.abc import Callable

M = TypeVar("M", bound="Sharing")
T = TypeVar("T")


class Sharing(Protocol):
    """Has a place for what its requests tell; another one with the same requests has the same place."""

    of_requests: dict[str, Any]


class from_requests(Generic[M, T]):  # noqa: N801
    """A property that nothing but the requests decides, computed once and only when asked for."""

    def __init__(self, compute: Callable[[M], T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, m: None, owner: type) -> from_requests[M, T]: ...
    @overload
    def __get__(self, m: M, owner: type) -> T: ...
    def __get__(self, m: M | None, owner: type) -> T | from_requests[M, T]:
        if m is None:
            return self
        told = m.of_requests
        if self._name not in told:
            told[self._name] = self._compute(m)
        value: T = told[self._name]
        return value
