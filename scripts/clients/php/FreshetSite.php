<?php
// Freshet in a PHP site of any framework. Nothing here throws when Freshet is unavailable: lists are empty, and saved() and removed()
// return false.
//
//   $site = new Freshet\Site('http://127.0.0.1:8081', key: ['k1', $secret], tokenKey: ['k1', $otherSecret]);
//   $cookie = $site->cookie($_SESSION['user_id'] ?? null, $_COOKIE, secure: isset($_SERVER['HTTPS']));
//   if ($cookie) {  // before any output; a shared cache would give the token to other readers
//       setrawcookie(...$cookie);
//       header('Cache-Control: private, no-store');
//   }
//   echo '<ol>', Freshet\Site::links($site->hot(limit: 5)), '</ol>';
//   $site->saved('42', ['title' => 'A post', 'url' => '/posts/42', 'published_at' => '2026-11-20T08:00:00Z']);
//
// The base is the internal server, and the key one of identity.internal_keys. The token key, one of identity.token_keys, makes the
// cookie that names the reader when pages call Freshet.

declare(strict_types=1);

namespace Freshet;

require_once __DIR__ . '/Freshet.php';

final class Site
{
    private const HALF_DAY_S = 43200;
    private Freshet $page, $background;

    public function __construct(string $base, ?array $key = null, private ?array $tokenKey = null)
    {
        $this->page = new Freshet($base, $key, preset: 'page');
        $this->background = new Freshet($base, $key, attempts: 2, timeoutMs: 1000);
    }

    public function hot(mixed ...$query): array
    {
        return $this->page->hot(...$query)['items'];
    }

    public function recommended(string|int|null $reader, mixed ...$query): array
    {
        return $this->page->recommendations($reader ?: null, ...$query)['items'];
    }

    public function similar(string|int $itemId, mixed ...$query): array
    {
        return $this->page->similar($itemId, ...$query)['items'];
    }

    public function saved(string|int $itemId, array $members): bool
    {
        return $this->succeeds(fn () => $this->background->putItem($itemId, $members));
    }

    public function removed(string|int $itemId): bool
    {
        return $this->succeeds(fn () => $this->background->deleteItem($itemId));
    }

    private function succeeds(\Closure $change): bool
    {
        try {
            $change();
            return true;
        } catch (FreshetException $error) {
            error_log("freshet: {$error->getMessage()}");
            return false;
        }
    }

    /** Returns the arguments of setrawcookie() if the reader has signed in or out, otherwise null. */
    public function cookie(string|int|null $reader, array $cookies, bool $secure): ?array
    {
        $name = $secure ? '__Host-freshet_token' : 'freshet_token';
        // The same token for half a day, and valid for at least as long.
        $expires = (intdiv(time(), self::HALF_DAY_S) + 2) * self::HALF_DAY_S;
        $wanted = $reader && $this->tokenKey ? Freshet::token(...[...$this->tokenKey, $reader, $expires]) : '';
        $options = ['path' => '/', 'secure' => $secure, 'httponly' => true, 'samesite' => 'Lax', 'expires' => $wanted ? $expires : 1];
        return urldecode($wanted) === ($cookies[$name] ?? '') ? null : [$name, $wanted, $options];  // PHP decodes cookies
    }

    /** Returns the items as <li>, with links to their `url`. */
    public static function links(array $items): string
    {
        return implode('', array_map(function (array $item): string {
            $text = fn (string $name) => is_scalar($item[$name] ?? null) ? (string) $item[$name] : '';
            [$title, $url] = [htmlspecialchars($text('title') ?: $text('id')), $text('url')];
            return '<li>' . (preg_match('~^(https?:/)?/~i', $url) ? '<a href="' . htmlspecialchars($url) . "\">$title</a>" : $title) . '</li>';
        }, $items));
    }
}
