<?php
// A site without a framework, for PHP's own server. The environment variable BASE names the service. test_client_sites.py says what its
// pages are.
require __DIR__ . '/../../../scripts/clients/php/FreshetSite.php';

$tokenKey = getenv('WITH_TOKENS') ? ['t1', str_repeat('t', 32)] : null;
$site = new Freshet\Site(getenv('BASE'), key: ['k1', str_repeat('i', 32)], tokenKey: $tokenKey);
$cookie = $site->cookie($_GET['reader'] ?? null, $_COOKIE, secure: ($_SERVER['HTTP_X_FORWARDED_PROTO'] ?? '') === 'https');
if ($cookie) {
    setrawcookie(...$cookie);
    header('Cache-Control: private, no-store');
}
echo match (strtok($_SERVER['REQUEST_URI'], '?')) {
    '/save' => var_export($site->saved('a/b', ['title' => 'T', 'published_at' => 1]), true),
    '/remove' => var_export($site->removed('a/b'), true),
    default => implode('', array_map(
        fn ($items) => '<ol>' . Freshet\Site::links($items) . '</ol>',
        [$site->hot(limit: 4), $site->recommended($_GET['reader'] ?? null, limit: 1), $site->similar('a/b', limit: 1)],
    )),
};
