<?php
// Calls of Freshet's internal server.
//
// They use Freshet's own client, not wp_remote_request(): the client signs requests and keeps its connection, and its limit
// of 300 ms is exact. WordPress' HTTP class rounds limits below a second up when PHP's curl uses the system's resolver.

declare(strict_types=1);

namespace Freshet\WordPress;

use Freshet\Freshet;
use Freshet\FreshetException;

defined('ABSPATH') || exit;

final class Service
{
    public const PAGE_MS = 300;
    private const DOWN = 'freshet_down';  // transient: why there was no answer
    private const DOWN_S = 10;

    /**
     * Makes one call for a page: $call(Freshet): array. It ends within $limit_ms. After a call without an answer there is none
     * for ten seconds, so that a page waits only now and then while Freshet is down. Failures return "unavailable".
     */
    public static function page_call(callable $call, int $limit_ms = self::PAGE_MS): array
    {
        if (!self::usable() || self::down() !== '') {
            return ['items' => [], 'unavailable' => true];
        }
        $answer = $call(new Freshet(self::address(), Options::key('internal_key'), preset: 'page', timeoutMs: $limit_ms));
        $error = $answer['error'] ?? null;
        if ($error instanceof FreshetException) {
            self::note($error);
        }
        return $answer;
    }

    /** A client for cron, tools and screens of administrators: it repeats requests, and throws FreshetException. */
    public static function client(): Freshet
    {
        return new Freshet(self::address(), Options::key('internal_key'), attempts: 2, timeoutMs: 10000);
    }

    /** Remembers for ten seconds that Freshet does not answer. */
    public static function note(FreshetException $error): void
    {
        if ($error->status === 0 || $error->status >= 502) {
            set_transient(self::DOWN, $error->getMessage(), self::DOWN_S);
        }
    }

    /** Why Freshet did not answer a moment ago; "" if it did. */
    public static function down(): string
    {
        return (string) get_transient(self::DOWN);
    }

    public static function usable(): bool
    {
        return Options::saved() && extension_loaded('curl');
    }

    private static function address(): string
    {
        return (string) Options::get('address');
    }
}
