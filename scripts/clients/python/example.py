"""Reports a page view, then prints recommendations and the hottest article: python3 example.py [URL]"""

import sys

from freshet import Freshet

freshet = Freshet(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080")
counted = freshet.track("hello", userId="ann", sessionId="s1", dwellMs=42000)
print(f"page views: {counted['pv']}")
for item in freshet.recommendations("ann", limit=3)["items"]:
    print(f"{item['title']}: {item['reason']['text']}")
hottest = freshet.hot(model="engagement", limit=1)[0]
print(f"hottest: {hottest.get('title', hottest['id'])}")
