"""Reports a page view, then prints recommendations and the hottest article: python3 example.py [URL]"""

import sys

from freshet import Freshet

freshet = Freshet(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080", preset="page")
counted = freshet.track("hello", user_id="ann", session_id="s1", dwell_ms=42000)
print(f"page views: {counted.get('pv', 'unknown')}")
for item in freshet.recommendations("ann", limit=3)["items"]:
    print(f"{item['title']}: {item['reason']['text']}")
for item in freshet.hot(model="engagement", limit=1)["items"]:
    print(f"hottest: {item.get('title', item['id'])}")
