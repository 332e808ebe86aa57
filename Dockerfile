# Images of Freshet: the service (the default target), nginx with the shipped configuration, and the sample's replay.
# compose.yaml runs all of them; OPERATIONS.md, "Containers", explains both files.
ARG BASE=debian:trixie-slim

# --- Build ------------------------------------------------------------------------------------------------------------
FROM ${BASE} AS build
WORKDIR /src
COPY scripts/deps scripts/deps
RUN scripts/deps build
COPY . .
# The names of the packages that the programs are linked with; versions are those of the base.
RUN scripts/install --destdir /image \
  && mkdir debian && touch debian/control \
  && dpkg-shlibdeps -O -e/image/usr/sbin/freshetd -e/image/usr/bin/freshetctl \
    | sed 's/^shlibs:Depends=//; s/ *([^)]*)//g; s/,//g' >/image/packages

# --- nginx: unprivileged, with the root read-only and /var/lib/nginx a tmpfs ------------------------------------------
FROM ${BASE} AS nginx
RUN apt-get update \
  && apt-get install -y --no-install-recommends nginx libjs-chart.js \
  && rm -rf /var/lib/apt/lists/* /var/cache/apt /var/cache/debconf /var/log/apt /var/log/dpkg.log
COPY --from=build /image/etc/nginx/freshet /etc/nginx/freshet
COPY --from=build /image/usr/share/freshet/html /usr/share/freshet/html
COPY nginx/nginx.conf /etc/nginx/nginx.conf
COPY nginx/container.sed /usr/share/freshet/
RUN sed -i -f /usr/share/freshet/container.sed /etc/nginx/nginx.conf /etc/nginx/freshet/*.conf \
  && rm -rf /var/lib/nginx && install -d -m 1777 /var/lib/nginx
# www-data, in the group that may connect to the service's sockets.
USER 33:10001
EXPOSE 8080 8081
STOPSIGNAL SIGQUIT
HEALTHCHECK --interval=5s --timeout=3s --start-period=30s \
  CMD ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/8081 && printf 'GET /ping HTTP/1.0\\r\\nHost: localhost\\r\\n\\r\\n' >&3 && grep -q '^pong' <&3"]
ENTRYPOINT ["nginx", "-e", "stderr", "-g", "daemon off;"]

# --- The service ------------------------------------------------------------------------------------------------------
FROM ${BASE} AS freshet
RUN --mount=type=bind,from=build,source=/image,target=/image \
  apt-get update \
  && apt-get install -y --no-install-recommends ca-certificates $(cat /image/packages) \
  && rm -rf /var/lib/apt/lists/* /var/cache/apt /var/cache/debconf /var/log/apt /var/log/dpkg.log \
  && groupadd --gid 10001 freshet \
  && useradd --uid 10001 --gid 10001 --home-dir /var/lib/freshet --no-create-home --shell /usr/sbin/nologin freshet \
  && install -d -o freshet -g freshet -m 700 /backups /etc/freshet/operator /var/lib/freshet \
  && install -d -o freshet -g freshet -m 755 /etc/freshet/secrets \
  && install -d -o freshet -g freshet -m 750 /run/freshet
COPY --from=build /image/etc/freshet/freshet.toml /etc/freshet/freshet.toml
COPY --from=build /image/usr/sbin/freshetd /usr/sbin/freshetd
COPY --from=build /image/usr/bin/freshetctl /usr/bin/freshetctl
COPY systemd/redis-acl.conf scripts/container/make-secrets /usr/share/freshet/
USER 10001:10001
WORKDIR /var/lib/freshet
STOPSIGNAL SIGTERM
# A large Redis loads for minutes before freshetd can serve.
HEALTHCHECK --interval=5s --timeout=3s --start-period=10m \
  CMD ["freshetctl", "status", "--health", "--config", "/etc/freshet/freshet.toml"]
CMD ["freshetd", "-F", "-y", "/etc/freshet/freshet.toml"]

# --- The sample -------------------------------------------------------------------------------------------------------
FROM freshet AS sample
USER 0
RUN apt-get update \
  && apt-get install -y --no-install-recommends curl jq \
  && rm -rf /var/lib/apt/lists/* /var/cache/apt /var/cache/debconf /var/log/apt /var/log/dpkg.log
COPY scripts/lib.sh /usr/share/freshet/scripts/
COPY scripts/sample /usr/share/freshet/scripts/sample
USER 10001:10001
HEALTHCHECK NONE
ENTRYPOINT ["/usr/share/freshet/scripts/sample/once"]

# --- The default target -----------------------------------------------------------------------------------------------
FROM freshet
