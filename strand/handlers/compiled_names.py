"""numba's names without their annotations, which are of its inner life. Imported with numba only."""

from __future__ import annotations

from typing import Any

import numba.core.cgutils
import numba.core.types
import numba.extending

__all__ = ["cgutils", "intrinsic", "models", "overload_attribute", "overload_method", "register_model", "types"]

cgutils: Any = numba.core.cgutils
types: Any = numba.core.types
intrinsic: Any = numba.extending.intrinsic
models: Any = numba.extending.models
overload_attribute: Any = numba.extending.overload_attribute
overload_method: Any = numba.extending.overload_method
register_model: Any = numba.extending.register_model
