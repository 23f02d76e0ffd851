"""Whether the compiled loops can be used: numba is installed, and it can be imported."""

import functools
import importlib
import importlib.util
import logging

_log = logging.getLogger(__name__)


@functools.cache
def compiled() -> bool:
    """Return whether the compiled loops are available. The first call imports numba: 0.5 s.

    A numba that cannot be imported, for example because it refuses the installed numpy, is
    reported once.
    """
    if importlib.util.find_spec("numba") is None:
        return False
    try:
        importlib.import_module("numba")
    except Exception as error:  # ImportError, and others by the version of numpy
        _log.warning(
            "numba is installed and cannot be used, so scans take longer: %s;"
            " pip install --upgrade 'mqadmin[fast]' installs versions that fit",
            error,
        )
        return False
    return True
