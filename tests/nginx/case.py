"""Shared by the tests of the nginx configuration."""

import unittest

PUBLIC = ["/api/track", "/api/track.gif", "/api/views", "/api/visitor", "/api/visitor/export", "/api/hot", "/api/feed", "/api/history", "/api/feedback", "/api/recommendations",
          "/api/items/7/similar", "/api/waterfall/news", "/api/follows"]
WRITES = ["/api/track", "/api/track.gif", "/api/views", "/api/visitor"]
CRAWLER = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"


class Case(unittest.TestCase):
    def assert_problem(self, reply, status):
        self.assertEqual(reply.status, status)
        self.assertEqual(reply.headers["Content-Type"], "application/problem+json")
        problem = reply.json()
        self.assertEqual(problem["status"], status)
        self.assertEqual(set(problem), {"type", "title", "status", "detail", "code", "msg"})
        self.assertNotEqual(problem["code"], "error", "$freshet_problem must have a row for this status")
        self.assertEqual(len(reply.headers.get_all("X-Request-Id")), 1)
