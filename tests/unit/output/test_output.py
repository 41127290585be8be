"""One output: collected, or given to a file or a sink."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from strand.errors import ConfigurationError
from strand.output.output import Output, output_digests
from strand.units import SIZE

pytestmark = pytest.mark.python


DECLARED = np.dtype([("size", SIZE)])


class Nothing:
    def write(self, batch: Any) -> None: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...


def merged(output: Output, *sizes: int) -> Any:
    records = np.zeros(len(sizes), output.dtype)
    records["size"] = sizes
    return records


def test_an_output_without_a_destination_is_collected_and_taken_once() -> None:
    output = Output("sizes", DECLARED, None, ["AA"], size_unit=0.1)
    assert output.dtype.names == ("number", "sequence", "ts", "instrument_id", "size")
    assert output._collected is not None
    output._collected.write(merged(output, 1, 2))
    assert np.array(output)["size"].tolist() == [1, 2]
    assert output.take()["size"].tolist() == [1, 2]
    assert len(output.array()) == 0
    assert output.is_consumed


@pytest.mark.parametrize(("destination", "said"), [(Path("a.npy"), "written to a.npy"), (Nothing(), "given to a sink")])
def test_one_that_goes_elsewhere_says_where_and_has_no_array(destination: Any, said: str) -> None:
    output = Output("sizes", DECLARED, destination)
    assert not output.is_collected
    for ask in (output.array, output.take, lambda: next(iter(output))):
        with pytest.raises(ConfigurationError, match=f"output 'sizes' is {said} and not collected"):
            ask()


def test_a_digest_is_that_of_the_records_and_of_no_others() -> None:
    def digest(*sizes: int, name: str = "AA") -> bytes:
        output = Output("sizes", DECLARED, None, [name])
        assert output._collected is not None
        output._collected.write(merged(output, *sizes))
        return output_digests({"sizes": output})["sizes"].digest()

    assert digest(1, 2) == digest(1, 2)
    assert len({digest(1, 2), digest(2, 1), digest(1), digest(1, 2, name="BB")}) == 4
