"""Fault injection: each fault damages a running service under a load with verified replies and reports the effects.

Run by scripts/faults, or by `python3 -m faults` with tests/ on PYTHONPATH.
"""

import os
import sys

# Modules of the end-to-end tests: service, client, fastcgi, openapi, proxy, recorded.
sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "e2e"))
