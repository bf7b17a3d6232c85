"""The database's clock: the one that all processes share, in whole milliseconds since 1970."""

from typing import Any

from sqlalchemy import BigInteger
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement


class now_ms(FunctionElement[int]):
    type = BigInteger()
    inherit_cache = True


@compiles(now_ms, "sqlite")
def _of_sqlite(_element: Any, _compiler: Any, **_options: Any) -> str:
    return "CAST(ROUND((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)"


@compiles(now_ms, "postgresql")
def _of_postgres(_element: Any, _compiler: Any, **_options: Any) -> str:
    # not clock_timestamp(): that may change within a statement, so PostgreSQL would use no index with it
    return "CAST(extract(epoch FROM statement_timestamp()) * 1000 AS BIGINT)"
