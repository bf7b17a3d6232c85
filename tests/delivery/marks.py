"""What a test of deliveries may want otherwise."""

from typing import Any

import pytest

nobody_delivers = pytest.mark.parametrize("with_worker", [False], ids=["nobody delivers"])


def tuned(**settings: Any) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("tuning", [settings], ids=["tuned"])
