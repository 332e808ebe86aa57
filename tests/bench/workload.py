"""The bodies of POST /api/track, drawn once and written to a file that wrk's script reads.

Who reads what: articles by Zipf's law (or evenly, for the growth benchmark), readers evenly, dwell up to the cap. The
same seed gives the same file, so every contender is sent the same requests in the same order.
"""

import bisect
import itertools
import random

ARTICLES = 10_000
READERS = 100_000
REQUESTS = 1 << 18  # more than one turn sends at 3 s; longer turns start over


class Workload:
    """`pairs[i]` is the (article, reader) of line i of the file at `path`."""

    def __init__(self, path, articles=ARTICLES, zipf=True, requests=REQUESTS):
        draw = random.Random(20260306)
        weights = [1.0 / (rank if zipf else 1) for rank in range(1, articles + 1)]
        ranks = draw.choices(range(1, articles + 1), cum_weights=list(itertools.accumulate(weights)), k=requests)
        self.path = path
        self.pairs = [(rank, draw.randrange(READERS)) for rank in ranks]
        with open(path, "w", encoding="ascii") as file:
            for article, reader in self.pairs:
                dwell_ms = draw.randrange(1_000, 180_001)
                file.write(f'{{"articleId":"a{article}","userId":"u{reader}","dwellMs":{dwell_ms}}}\n')
        self._firsts = self._first_visits()

    def _first_visits(self):
        seen, firsts = set(), []
        for index, pair in enumerate(self.pairs):
            if pair not in seen:
                seen.add(pair)
                firsts.append(index)
        return firsts

    def visits(self, sent):
        """How many different (article, reader) pairs the first `sent` requests of a run name.

        wrk calls request() once before it starts, to look at it, so what is sent begins with the second line.
        """
        if sent >= len(self.pairs):
            return len(self._firsts)
        visits = bisect.bisect_left(self._firsts, sent + 1)
        return visits - (1 if self.pairs[0] not in self.pairs[1:sent + 1] else 0)
