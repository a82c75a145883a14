"""How the inner loops are compiled.

`kernel` compiles once per argument types, keeps the result on disk, and counts no references: a
kernel gets all its arrays from outside and allocates none, so there is nothing to count, and calls
between small functions cost nothing (the movement phase is six times faster for it). A kernel that
allocates is refused when it is compiled.

The disk cache of a kernel notices changes of its own file only; so kernels of one file never call
those of another.
"""

import numba

kernel = numba.njit(cache=True, _nrt=False)
