"""numba's names without their annotations, which are of its inner life. Imported with numba only."""

from __future__ import annotations

from typing import Any

import numba.core.cgutils
import numba.core.imputils
import numba.core.types
import numba.core.typing.templates
import numba.extending

__all__ = [
    "AttributeTemplate",
    "cgutils",
    "infer_getattr",
    "intrinsic",
    "lower_cast",
    "lower_getattr_generic",
    "lower_setattr_generic",
    "models",
    "overload",
    "overload_attribute",
    "overload_method",
    "register_jitable",
    "register_model",
    "signature",
    "types",
]

cgutils: Any = numba.core.cgutils
types: Any = numba.core.types
intrinsic: Any = numba.extending.intrinsic
lower_cast: Any = numba.extending.lower_cast
overload: Any = numba.extending.overload
models: Any = numba.extending.models
overload_attribute: Any = numba.extending.overload_attribute
overload_method: Any = numba.extending.overload_method
register_jitable: Any = numba.extending.register_jitable
register_model: Any = numba.extending.register_model
AttributeTemplate: Any = numba.core.typing.templates.AttributeTemplate
infer_getattr: Any = numba.core.typing.templates.infer_getattr
lower_getattr_generic: Any = numba.core.imputils.lower_getattr_generic
lower_setattr_generic: Any = numba.core.imputils.lower_setattr_generic
signature: Any = numba.core.typing.templates.signature
