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
    public const PAGE_MS = 300;  // for all calls of a page together
    private const LEAST_MS = 20;  // no call is made with less
    private const DOWN = 'freshet_down';  // transient: why there was no answer
    private const DOWN_S = 10;
    private static float $spent_ms = 0;

    /**
     * Makes one call for a page: $call(Freshet): array. All calls of a request together end within PAGE_MS. After a call without
     * an answer there is none for ten seconds, so that a page waits only now and then while Freshet is down. Failures return
     * "unavailable".
     */
    public static function page_call(callable $call): array
    {
        $left_ms = (int) (self::PAGE_MS - self::$spent_ms);
        if (!self::usable() || $left_ms < self::LEAST_MS || self::down() !== '') {
            return ['items' => [], 'unavailable' => true];
        }
        $start = hrtime(true);
        $answer = $call(new Freshet(self::address(), Options::key('internal_key'), preset: 'page', timeoutMs: $left_ms));
        self::$spent_ms += (hrtime(true) - $start) / 1e6;
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

    /** Remembers for ten seconds that Freshet does not answer, or is busy, broken or not set up. */
    public static function note(FreshetException $error): void
    {
        if ($error->temporary() || in_array($error->status, [401, 403, 500], true)) {
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
