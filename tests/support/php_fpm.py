"""The installed PHP-FPM. Debian's binary has PHP's version in its name."""

import glob
import shutil

PHP_FPM = shutil.which("php-fpm") or next(iter(sorted(glob.glob("/usr/sbin/php-fpm[0-9]*"))), None)
