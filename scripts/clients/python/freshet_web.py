"""Freshet in a Flask or Django site. Nothing here raises when Freshet is unavailable: lists are empty, and saved() and removed()
return False.

    site = Site("http://127.0.0.1:8081", key=("k1", secret), token_key=("k1", other_secret))
    f"<ol>{links(site.hot(limit=5))}</ol>"
    site.saved("42", title="A post", url="/posts/42", published_at="2026-11-20T08:00:00Z")

Flask: site.init_flask(app, lambda: session.get("user_id")). Django: FRESHET = Site(…) in the settings, and
"freshet_web.django_middleware" in MIDDLEWARE after AuthenticationMiddleware. `base` is the internal server, and `key` one of
identity.internal_keys. `token_key`, one of identity.token_keys, makes the cookie that names the reader when pages call Freshet.
"""

import html
import logging
import re
import time

from freshet import Freshet, FreshetError, token

HALF_DAY_S = 43200


def links(items):
    """Returns the items as <li>, with links to their `url`."""
    def link(item):
        title, url = html.escape(str(item.get("title") or item["id"])), str(item.get("url"))
        return f'<a href="{html.escape(url)}">{title}</a>' if re.match("(?i)(https?:/)?/", url) else title
    return "".join(f"<li>{link(item)}</li>" for item in items)


class Site:
    def __init__(self, base, key=None, token_key=None):
        self._page = Freshet(base, key, preset="page")
        self._background = Freshet(base, key, attempts=2, timeout_s=1)
        self._token_key = token_key

    def hot(self, **query):
        return self._page.hot(**query)["items"]

    def recommended(self, reader, **query):
        return self._page.recommendations(reader or None, **query)["items"]

    def similar(self, item_id, **query):
        return self._page.similar(item_id, **query)["items"]

    def saved(self, item_id, **members):
        return self._succeeds(lambda: self._background.put_item(item_id, **members))

    def removed(self, item_id):
        return self._succeeds(lambda: self._background.delete_item(item_id))

    @staticmethod
    def _succeeds(change):
        try:
            change()
            return True
        except FreshetError as error:
            logging.getLogger("freshet").error("%s", error)
            return False

    def set_token(self, response, reader, cookies, secure):
        """Sets the cookie of a reader who is signed in, and removes that of one who has signed out."""
        name = "__Host-freshet_token" if secure else "freshet_token"
        # The same token for half a day, and valid for at least as long.
        expires = (time.time() // HALF_DAY_S + 2) * HALF_DAY_S
        wanted = token(*self._token_key, reader, expires) if reader and self._token_key else ""
        if wanted != cookies.get(name, ""):
            response.headers["Cache-Control"] = "private, no-store"  # a shared cache would give the token to other readers
            response.set_cookie(name, wanted, max_age=2 * HALF_DAY_S if wanted else 0, path="/", secure=secure, httponly=True, samesite="Lax")
        return response

    def init_flask(self, app, reader):
        from flask import request
        app.after_request(lambda response: self.set_token(response, reader(), request.cookies, request.is_secure))


def django_middleware(get_response):
    from django.conf import settings
    return lambda request: settings.FRESHET.set_token(
        get_response(request), request.user.pk if request.user.is_authenticated else None, request.COOKIES, request.is_secure())
