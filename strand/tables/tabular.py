"""Tables for Arrow, polars and pandas, all with the same dtypes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from strand.lazy import imported
from strand.tables.columns import Prices

if TYPE_CHECKING:
    import polars


class Tabular(ABC):
    """Makes tables in natural units of what ``to_arrow`` returns.

    Times are timestamps in UTC to the ns, symbols are text, and undefined values are null. polars, pyarrow and
    others take the object itself, by ``__arrow_c_stream__``; its prices are floats.
    """

    @abstractmethod
    def to_arrow(self, *, prices: Prices = "float") -> Any:
        """Returns a pyarrow.Table.

        Args:
            prices: ``"float"`` makes a price an f8 in units of currency, ``"decimal"`` an exact decimal of nine digits
                after the point. ``"integer"`` leaves it in 1e-9. A price that the handler keeps as a float stays one.

        Raises:
            MissingExtraError: Without pyarrow.
            ConfigurationError: For other ``prices``, or if the unit of sizes is unknown, because merged files differ in
                it. Also for a column of more than 2 GiB of text.
        """

    def to_polars(self, *, prices: Prices = "float") -> polars.DataFrame:
        """Returns a polars.DataFrame of the same, with the arguments of ``to_arrow``.

        Raises:
            MissingExtraError: Without polars or pyarrow. Other errors are those of ``to_arrow``.
        """
        return polars_frame(partial(self.to_arrow, prices=prices))

    def to_pandas(self, *, prices: Prices = "float") -> Any:
        """Returns a pandas.DataFrame of the same, with the arguments of ``to_arrow``.

        Undefined values are NaN in floats, NaT in times, else NA. Decimals and sub-arrays stay Arrow's.

        Raises:
            MissingExtraError: Without pandas or pyarrow. Other errors are those of ``to_arrow``.
        """
        return pandas_frame(partial(self.to_arrow, prices=prices))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The table as a stream of Arrow's C interface. Raises as ``to_arrow``."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)


def polars_frame(table: Callable[[], Any]) -> polars.DataFrame:
    """The polars.DataFrame of the pyarrow.Table that ``table`` gives. Raises MissingExtraError."""
    package, made = imported("polars", "polars"), table()
    # Of a stream of several pieces, polars 1.8 takes the first piece alone.
    is_whole = all(column.num_chunks <= 1 for column in made.columns)
    frame: polars.DataFrame = package.DataFrame(_Stream(made)) if is_whole else package.from_arrow(made)
    return frame


class _Stream:
    """A table as nothing but a stream. polars would know a pyarrow.Table, and import ``pyarrow.compute`` for it, which
    takes 40 ms."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def pandas_frame(table: Callable[[], Any], index: str | None = None) -> Any:
    """The pandas.DataFrame of the pyarrow.Table that ``table`` gives, one column its index. Raises
    MissingExtraError."""
    pandas = imported("pandas", "pandas")
    made = table()
    series = {field.name: _series(pandas, field, made.column(field.name)) for field in made.schema}
    frame = pandas.DataFrame(series)
    return frame if index is None else frame.set_index(index)


def _series(pandas: Any, field: Any, column: Any) -> Any:
    """The dtype follows from the field alone, whatever its values are. pyarrow would make floats of integers with
    nulls."""
    types = imported("pyarrow", "parquet").types
    if types.is_string(field.type):
        dtype = pandas.StringDtype()
    elif types.is_integer(field.type) and field.nullable:
        dtype = pandas.api.types.pandas_dtype(str(field.type).replace("int", "Int").replace("u", "U"))
    elif types.is_decimal(field.type) or types.is_nested(field.type):
        dtype = pandas.ArrowDtype(field.type)
    else:
        return column.to_pandas()
    return pandas.Series(dtype.__from_arrow__(column))
