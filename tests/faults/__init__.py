"""The faults of the matrix: each does harm to a running service under load whose every reply is verified, and says what that cost.

Started by scripts/faults; `python3 -m faults` with tests on the path is the same.
"""

import os
import sys

# The harness of the end-to-end tests: service, client, fastcgi, openapi, proxy, recorded.
sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "e2e"))
