"""site.py flask|django BASE: a site in Flask or Django. test_client_sites.py says what its pages are."""

import os
import sys
import types
from wsgiref.simple_server import WSGIRequestHandler, make_server

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../scripts/clients/python"))
from freshet_web import Site, links  # noqa: E402

FRAMEWORK, BASE = sys.argv[1:]
site = Site(BASE, key=("k1", "i" * 32), token_key=("t1", "t" * 32) if os.environ["WITH_TOKENS"] else None)


def front_page(reader):
    lists = (site.hot(limit=4), site.recommended(reader, limit=1), site.similar("a/b", limit=1))
    return "".join(f"<ol>{links(items)}</ol>" for items in lists)


def save():
    return str(site.saved("a/b", title="T", published_at=1)).lower()


def remove():
    return str(site.removed("a/b")).lower()


def flask_app():
    import flask
    from werkzeug.middleware.proxy_fix import ProxyFix
    app = flask.Flask("site")
    app.wsgi_app = ProxyFix(app.wsgi_app)
    site.init_flask(app, lambda: flask.request.args.get("reader"))
    app.get("/")(lambda: front_page(flask.request.args.get("reader")))
    app.post("/save")(save)
    app.post("/remove")(remove)
    return app


def authenticate(get_response):
    """Stands in for AuthenticationMiddleware."""
    def middleware(request):
        reader = request.GET.get("reader")
        request.user = types.SimpleNamespace(pk=reader, is_authenticated=bool(reader))
        return get_response(request)
    return middleware


def django_app():
    import django
    from django.conf import settings
    from django.http import HttpResponse
    from django.urls import path
    urls = (path("", lambda request: HttpResponse(front_page(request.user.pk))), path("save", lambda request: HttpResponse(save())),
            path("remove", lambda request: HttpResponse(remove())))
    settings.configure(FRESHET=site, ROOT_URLCONF=urls, ALLOWED_HOSTS=["*"], SECRET_KEY="x",
                       SECURE_PROXY_SSL_HEADER=("HTTP_X_FORWARDED_PROTO", "https"),
                       MIDDLEWARE=["__main__.authenticate", "freshet_web.django_middleware"])
    django.setup()
    from django.core.wsgi import get_wsgi_application
    return get_wsgi_application()


class QuietHandler(WSGIRequestHandler):
    def log_message(self, *_):
        pass


with make_server("127.0.0.1", 0, flask_app() if FRAMEWORK == "flask" else django_app(), handler_class=QuietHandler) as server:
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
