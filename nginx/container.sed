# Adapts the shipped files for nginx in a container, as an unprivileged user with a read-only root: the Dockerfile runs
# `sed -i -f` with it on each. The sockets, retries and limits stay as they are. Each line matches once or more
# (tests/container/files_test.py).

# Ports that need no capability.
s/^\( *listen \)80 /\18080 /
s/^\( *listen \)\[::\]:80 /\1[::]:8080 /

# The site's back end is another container, so the internal server listens on all addresses. A port that was published
# by mistake still refuses the public: only private addresses may connect. Nothing else depends on this; sign calls
# (identity.internal_keys) where private addresses are not trusted.
/^ *listen 127\.0\.0\.1:8081 /c\
  listen 8081 backlog=256;\
  listen [::]:8081 backlog=256;\
  allow 127.0.0.0/8;\
  allow 10.0.0.0/8;\
  allow 172.16.0.0/12;\
  allow 192.168.0.0/16;\
  allow ::1;\
  allow fc00::/7;\
  deny all;

# Logs go to the container's. Several processes share the pipe, and only 4 KiB are written to it in one piece.
s#^\( *access_log \)/var/log/nginx/[a-z-]*\.log freshet buffer=64k #\1/dev/stdout freshet buffer=4k #
s#^\( *access_log \)/var/log/nginx/freshet-error\.log #\1/dev/stdout #
s#^\( *error_log \)/var/log/nginx/[a-z-]*\.log #\1stderr #

# It already runs as its user, who may write here only.
/^user /d
s#^pid /run/nginx\.pid;.*#pid /var/lib/nginx/nginx.pid;#
