"""Bodies of POST /api/track, generated once and written to a file that the wrk script reads.

Articles follow Zipf's law (in the growth benchmark they are uniform), readers are uniform, and dwell times are up to
the cap. The random seed is fixed, so all contenders receive the same requests in the same order.
"""

import bisect
import itertools
import random

ARTICLES = 10_000
READERS = 100_000
REQUESTS = 1 << 18  # more than a turn of 3 s sends; longer turns start again from the beginning


class Workload:
    """`pairs[i]` is the (article, reader) of line i of the file at `path`."""

    def __init__(self, path, articles=ARTICLES, zipf=True, requests=REQUESTS):
        rng = random.Random(20260306)
        weights = [1.0 / (rank if zipf else 1) for rank in range(1, articles + 1)]
        ranks = rng.choices(range(1, articles + 1), cum_weights=list(itertools.accumulate(weights)), k=requests)
        self.path = path
        self.pairs = [(rank, rng.randrange(READERS)) for rank in ranks]
        with open(path, "w", encoding="ascii") as file:
            for article, reader in self.pairs:
                dwell_ms = rng.randrange(1_000, 180_001)
                file.write(f'{{"articleId":"a{article}","userId":"u{reader}","dwellMs":{dwell_ms}}}\n')
        self._first_visits = self._find_first_visits()

    def _find_first_visits(self):
        """Indexes of the first occurrences of pairs."""
        seen, first_visits = set(), []
        for index, pair in enumerate(self.pairs):
            if pair not in seen:
                seen.add(pair)
                first_visits.append(index)
        return first_visits

    def visits(self, sent):
        """Number of distinct (article, reader) pairs in the first `sent` requests of a run.

        wrk calls request() once before the run and discards the result, so the first request sent is the second line.
        """
        if sent >= len(self.pairs):
            return len(self._first_visits)
        visits = bisect.bisect_left(self._first_visits, sent + 1)
        return visits - (1 if self.pairs[0] not in self.pairs[1:sent + 1] else 0)
