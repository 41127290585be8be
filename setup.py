"""Metadata is in pyproject.toml; this file adds what it cannot say: the cffi module and the abi3 tag."""

from setuptools import setup

setup(
    cffi_modules=["csrc/build_core.py:ffibuilder"],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
