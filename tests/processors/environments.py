"""Settings under which libraries compute as they would on a processor of another type."""

import os

_OLD_BLAS = {"OPENBLAS_CORETYPE": "Nehalem"}
_OLD_NUMPY = {"NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL"}
_OLD_C_LIBRARY = {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX512F"}
_OLD_COMPILERS = {
    "NUMBA_CPU_NAME": "nehalem",
    "NUMBA_CPU_FEATURES": "",
    "ATEN_CPU_CAPABILITY": "default",
    "ONEDNN_MAX_CPU_ISA": "SSE41",
    "XLA_FLAGS": "--xla_cpu_max_isa=SSE4_2",
}

ENVIRONMENTS: dict[str, dict[str, str]] = {
    "this processor": {},
    "linear algebra for Haswell": {"OPENBLAS_CORETYPE": "Haswell"},
    "linear algebra for Nehalem": _OLD_BLAS,
    "NumPy without AVX": _OLD_NUMPY,
    "C library without AVX and FMA": _OLD_C_LIBRARY,
    "all of it for Nehalem": {**_OLD_BLAS, **_OLD_NUMPY, **_OLD_C_LIBRARY, **_OLD_COMPILERS},
}


def variables(name: str) -> dict[str, str]:
    """Return the variables of a process in an environment."""
    # A feature that this processor does not have cannot be disabled, of which NumPy warns.
    return {**os.environ, "PYTHONWARNINGS": "ignore::ImportWarning", **ENVIRONMENTS[name]}
