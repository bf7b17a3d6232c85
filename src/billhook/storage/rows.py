"""Many rows in one statement: they travel as one JSON parameter and are a table inside it, on both engines.

A statement has the same text for one row and for a thousand, so it is compiled once; and RETURNING says which rows
were met, which `executemany` cannot.
"""

from typing import Any

import orjson
from sqlalchemy import FromClause, bindparam, cast, column, func, select
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.types import Text, TypeEngine


def rows(dialect: str, parameter: str, **columns: TypeEngine[Any]) -> FromClause:
    """A table with these columns, filled from the parameter, which `pack` makes."""
    given = bindparam(parameter, type_=Text)
    if dialect == "sqlite":
        each = func.json_each(given).table_valued("value", name=f"each_{parameter}")
        fields = [cast(each.c.value.op("->>")(f"$.{name}"), type_).label(name) for name, type_ in columns.items()]
        return select(*fields).subquery(parameter)
    typed = [column(name, type_) for name, type_ in columns.items()]
    records = func.jsonb_to_recordset(cast(given, JSONB)).table_valued(*typed).render_derived(with_types=True)
    # The limit cuts nothing off, it tells how many there are. Of the function alone the planner expects a hundred: for
    # those it reads a table of some ten thousand rows from end to end, even if it is only one that must be looked up.
    return select(*records.c).limit(func.jsonb_array_length(cast(given, JSONB))).subquery(parameter)


def pack(values: list[dict[str, Any]]) -> str:
    return orjson.dumps(values).decode()
