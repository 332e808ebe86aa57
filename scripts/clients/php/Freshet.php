<?php
// Client for Freshet in one file, for PHP 8.1 or later with curl.
//
// Arguments are named like the members in API.md; null and "" stand for absent. The preset decides what happens when Freshet is
// slow or down:
//
// - "background" repeats requests that can be repeated up to four times, and throws FreshetException: reads, PUT, DELETE, and
//   events, each of which has its own id.
// - "page" is for code that renders a page. It tries once, for at most 300 ms, and throws no service errors: a call that fails returns
//   ["items" => [], "unavailable" => true, "error" => FreshetException]. If there was no response, calls fail at once for a
//   second, so that a page with many lists waits only once. Looking up the name of the host may take extra time; an address does
//   not.
//
// Forked processes may share a client: each has its own connection.

declare(strict_types=1);

namespace Freshet;

final class FreshetException extends \RuntimeException
{
    /** $status is 0 if there was no usable response. $problem and $member are code and member of the problem document. */
    public function __construct(
        string $message,
        public readonly int $status = 0,
        public readonly string $problem = 'unreachable',
        public readonly ?string $member = null,
        public readonly float $retryAfterS = 0.0,
    ) {
        parent::__construct($message, $status);
    }

    /** True if the same request may succeed later. */
    public function temporary(): bool
    {
        return $this->status === 0 || $this->status === 429 || $this->status >= 502;
    }
}

final class Freshet
{
    private const PRESETS = ['page' => [1, 300, 1000], 'background' => [4, 4000, 0]];  // attempts, timeoutMs, cooldownMs
    private const MAX_PAUSE_S = 30;  // if the service asks for a longer pause, the request fails instead
    private const MAX_REMEMBERED = 100;  // responses
    private const JSON = JSON_THROW_ON_ERROR | JSON_UNESCAPED_UNICODE | JSON_INVALID_UTF8_SUBSTITUTE;

    private ?\CurlHandle $curl = null;
    private int $pid = 0;
    private float $silentUntilMs = 0.0;
    /** @var array<string, array{0: string, 1: string}> [ETag, text] by target */
    private array $remembered = [];

    /**
     * @param array{0: string, 1: string}|null $key     [kid, secret] for an internal server that requires signatures
     * @param array<string, string>            $headers added to every request
     *
     * $attempts, $timeoutMs and $cooldownMs replace those of the preset.
     */
    public function __construct(
        private string $base = 'http://127.0.0.1:8080',
        private ?array $key = null,
        private array $headers = [],
        private string $preset = 'background',
        private ?int $attempts = null,
        private ?int $timeoutMs = null,
        private ?int $cooldownMs = null,
        private int $firstPauseMs = 250,
    ) {
        $defaults = self::PRESETS[$preset] ?? throw new \ValueError('preset must be one of ' . implode(', ', array_keys(self::PRESETS)));
        $this->attempts ??= $defaults[0];
        $this->timeoutMs ??= $defaults[1];
        $this->cooldownMs ??= $defaults[2];
        $this->base = rtrim($base, '/');
        $address = parse_url($base) ?: [];
        if (!in_array(strtolower($address['scheme'] ?? ''), ['http', 'https'], true) || !isset($address['host'])) {
            throw new \ValueError("base must be an address such as \"http://127.0.0.1:8081\", not \"$base\"");
        }
    }

    // Events. get_defined_vars() contains the arguments.

    public function track(
        string|int $articleId,
        string|int|null $userId = null,
        string|int|null $sessionId = null,
        string|int|null $fingerprint = null,
        int|float|null $dwellMs = null,
        string|int|null $publishedAt = null,
        ?string $eventId = null,
    ): array {
        return $this->postEvent('/api/track', ['dwellMs' => (int) round($dwellMs ?? 0)] + get_defined_vars());
    }

    public function view(string|int $articleId, string|int $fingerprint, string|int|null $publishedAt = null, ?string $eventId = null): array
    {
        return $this->postEvent('/api/views', get_defined_vars());
    }

    public function look(string|int|null $userId, string|int $topicId, string $kind = 'topic', ?string $eventId = null): array
    {
        return $this->postEvent('/api/history', get_defined_vars());
    }

    public function dismiss(string|int|null $userId, string|int $topicId, ?string $reason = null): array
    {
        $body = self::present(get_defined_vars()) + ['kind' => 'not_interested'];
        return $this->request('POST', '/api/feedback', body: $body, repeatable: true);
    }

    public function undismiss(string|int|null $userId, string|int $topicId): array
    {
        return $this->request('DELETE', '/api/feedback', get_defined_vars());
    }

    // Lists: ["items" => [...], ...], with "degraded" if they are incomplete

    public function hot(
        ?string $model = null,
        ?int $limit = null,
        ?string $mode = null,
        ?string $window = null,
        ?string $tag = null,
        string|int|null $at = null,
    ): array {
        return $this->request('GET', '/api/hot', get_defined_vars(), parse: self::parseItems(...));
    }

    public function recommendations(string|int|null $userId, ?int $limit = null, ?string $exclude = null): array
    {
        return $this->request('GET', '/api/recommendations', get_defined_vars(), parse: self::parseItems(...));
    }

    public function similar(string|int $itemId, ?int $limit = null, string|int|null $userId = null): array
    {
        return $this->request('GET', '/api/items/' . self::segment($itemId) . '/similar', compact('userId', 'limit'), parse: self::parseItems(...));
    }

    public function history(string|int|null $userId, ?string $kind = null): array
    {
        return $this->request('GET', '/api/history', get_defined_vars(), parse: self::parseIds(...));
    }

    public function clearHistory(string|int|null $userId, ?string $kind = null): array
    {
        return $this->request('DELETE', '/api/history', get_defined_vars());
    }

    public function removeFromHistory(string|int|null $userId, string|int $topicId, ?string $kind = null): array
    {
        if ($topicId === '') {
            throw new \ValueError('an id must not be empty');
        }
        return $this->request('DELETE', '/api/history', get_defined_vars());
    }

    /** Returns the response's data. Pass its `page` to the next call ("load_more" or "refresh"). */
    public function feed(string|int|null $userId, string $action = 'refresh', ?string $page = null, ?int $limit = null, ?string $query = null): array
    {
        $body = self::present(get_defined_vars());
        $body += isset($body['page']) ? [] : ['eventId' => bin2hex(random_bytes(16))];
        return $this->request('POST', '/api/feed', body: $body, repeatable: true, parse: self::parseFeed(...));
    }

    /** Keep `drop` of the newest page and `up` of the oldest: they are the scores of the next "down" and "up". */
    public function timeline(string $channel, string|int|null $userId, string $direction = 'first', int $score = 0, ?int $limit = null): array
    {
        $query = compact('userId', 'direction', 'score', 'limit');
        return $this->request('GET', '/api/waterfall/' . self::segment($channel), $query, parse: self::parseItems(...));
    }

    public function follows(string|int|null $userId): array
    {
        return $this->request('GET', '/api/follows', get_defined_vars(), parse: self::parseIds(...));
    }

    // Internal server: items, events and timelines

    public function stats(string|int $articleId): array
    {
        return $this->request('GET', '/api/articles/' . self::segment($articleId) . '/stats');
    }

    /** Returns the statistics of up to 100 articles by id. */
    public function statsOf(array $articleIds): array
    {
        $hasComma = str_contains(implode($articleIds), ',');
        return $this->request('GET', '/api/stats', $hasComma ? ['id' => $articleIds] : ['ids' => implode(',', $articleIds)]);
    }

    /** Returns the hot list under other settings, such as ["model" => "engagement", "hot.half_life" => "6h"]. */
    public function preview(array $settings): array
    {
        return $this->request('GET', '/api/hot/preview', $settings);
    }

    public function getItem(string|int $itemId): array
    {
        return $this->request('GET', '/api/items/' . self::segment($itemId));
    }

    public function putItem(string|int $itemId, array $members): array
    {
        return $this->request('PUT', '/api/items/' . self::segment($itemId), body: $members);
    }

    public function deleteItem(string|int $itemId): array
    {
        return $this->request('DELETE', '/api/items/' . self::segment($itemId));
    }

    /** @param list<array> $items */
    public function putItems(array $items): array
    {
        return $this->postLines('/api/items', $items);
    }

    /** @param list<array> $events */
    public function interact(array $events): array
    {
        return $this->postLines('/api/interactions', array_map(fn ($each) => $each + ['eventId' => bin2hex(random_bytes(16))], $events));
    }

    public function push(string $channel, array $items, array $customers): array
    {
        return $this->postEvent('/api/waterfall/' . self::segment($channel), compact('items', 'customers'));
    }

    public function publish(string $channel, array $items, string|int $author): array
    {
        return $this->postEvent('/api/waterfall/' . self::segment($channel), ['items' => $items, 'followersOf' => $author]);
    }

    public function removeFromTimeline(string $channel, string|int $itemId, string|int $userId): array
    {
        return $this->request('DELETE', '/api/waterfall/' . self::segment($channel) . '/' . self::segment($itemId), compact('userId'));
    }

    public function follow(string|int $userId, string|int $author): array
    {
        return $this->request('PUT', '/api/follows', body: get_defined_vars());
    }

    public function unfollow(string|int $userId, string|int $author): array
    {
        return $this->request('DELETE', '/api/follows', get_defined_vars());
    }

    // Internal server: readers and operation

    /** Moves what is stored about a visitor to the account that they signed in to. job() of the returned `job` counts it. */
    public function mergeHistory(string|int $visitorId, string|int $userId): array
    {
        return $this->request('POST', '/api/history/merge', body: ['from' => $visitorId, 'to' => $userId], repeatable: true);
    }

    /** Returns what is stored about a reader. `next` of its `database`, if present, is the $start of the next part. */
    public function exportUser(string|int $userId, int $start = 0): array
    {
        return $this->request('GET', '/api/users/' . self::segment($userId), ['from' => $start]);
    }

    /** Returns ["job" => id]; the reader is erased when job() says "done". */
    public function eraseUser(string|int $userId): array
    {
        return $this->request('DELETE', '/api/users/' . self::segment($userId));
    }

    public function job(string $jobId): array
    {
        return $this->request('GET', '/api/jobs/' . self::segment($jobId));
    }

    /** Returns ["key" => kid, "userId" => reader], as which the server has authenticated this client. null stands for neither. */
    public function whoami(): array
    {
        return $this->request('GET', '/api/whoami');
    }

    /** Returns ["ready" => bool, "writes" => bool, "missing" => [dependency]] after one try; "error" says why it is not ready. */
    public function health(): array
    {
        try {
            return $this->tryTo('GET', '/health/ready', repeatable: false, parse: self::parseHealth(...));
        } catch (FreshetException $error) {
            return ['ready' => false, 'writes' => false, 'missing' => [], 'error' => $error];
        }
    }

    // Requests

    /** Returns the Authorization header for the internal server, signed with one of identity.internal_keys. */
    public static function sign(string $kid, string $secret, string $method, string $target, string $body, ?int $seconds = null): string
    {
        $seconds ??= time();
        $message = "v1\n$method\n$target\n$seconds\n" . hash('sha256', $body);
        return "Freshet-HMAC-SHA256 kid=$kid, ts=$seconds, sig=" . hash_hmac('sha256', $message, $secret);
    }

    /**
     * Returns the token of a reader for identity.mode = "token", made with one of identity.token_keys. $expires is in unix seconds;
     * the default is in an hour.
     */
    public static function token(string $kid, string $secret, string|int $userId, ?int $expires = null): string
    {
        $message = "v1.$kid." . self::segment($userId) . '.' . ($expires ?? time() + 3600);
        return "$message." . hash_hmac('sha256', $message, $secret);
    }

    /**
     * $body is an array sent as JSON, or a string of type $type. A list in $query is a parameter for each of its values. A
     * $repeatable request is retried after temporary errors. $parse makes the result of the response's text, or returns null if that
     * is impossible.
     */
    public function request(
        string $method,
        string $path,
        array $query = [],
        array|string|null $body = null,
        ?bool $repeatable = null,
        string $type = 'application/json',
        ?\Closure $parse = null,
    ): array {
        try {
            return $this->tryTo($method, $path, $query, $body, $repeatable, $type, $parse);
        } catch (FreshetException $error) {
            if ($this->preset !== 'page') {
                throw $error;
            }
            return ['items' => [], 'unavailable' => true, 'error' => $error];
        }
    }

    private function tryTo(
        string $method,
        string $path,
        array $query = [],
        array|string|null $body = null,
        ?bool $repeatable = null,
        string $type = 'application/json',
        ?\Closure $parse = null,
    ): array {
        $repeatable ??= $method !== 'POST';
        $query = self::present($query);
        $parameters = [];
        foreach ($query as $name => $value) {
            foreach ((array) $value as $each) {
                $parameters[] = http_build_query([$name => is_string($each) ? self::text($each) : $each]);
            }
        }
        $target = $path . ($parameters ? '?' . implode('&', $parameters) : '');
        $text = is_array($body) ? json_encode($body ?: new \stdClass(), self::JSON) : (string) $body;
        for ($attempt = 1; ; $attempt++) {
            try {
                return $this->send($method, $target, $text, $type, $repeatable, $parse);
            } catch (FreshetException $error) {
                if (!$error->temporary() || !$repeatable || $attempt >= $this->attempts || $error->retryAfterS > self::MAX_PAUSE_S) {
                    throw $error;
                }
                $pauseMs = $this->firstPauseMs * 2 ** ($attempt - 1) * random_int(50, 150) / 100;
                usleep((int) (1000 * max(1000 * $error->retryAfterS, $pauseMs)));
            }
        }
    }

    /** Returns the connection of this process. */
    private function connection(): \CurlHandle
    {
        if ($this->pid !== getmypid()) {
            $this->curl = curl_init();
            $this->pid = getmypid();
        }
        curl_reset($this->curl);
        return $this->curl;
    }

    private function send(string $method, string $target, string $text, string $type, bool $repeatable, ?\Closure $parse): array
    {
        if (hrtime(true) / 1e6 < $this->silentUntilMs) {
            throw new FreshetException('the service is unreachable: there was no response a moment ago');
        }
        $given = $this->headers + ['User-Agent' => 'freshet-client'];  // without an agent, it would be a crawler
        $headers = array_map(fn ($name, $value) => "$name: $value", array_keys($given), $given);
        $headers[] = 'Expect:';
        if ($text !== '') {
            $headers[] = "Content-Type: $type";
        }
        if ($this->key !== null) {
            $path = (string) parse_url($this->base, PHP_URL_PATH);
            $headers[] = 'Authorization: ' . self::sign($this->key[0], $this->key[1], $method, $path . $target, $text);
        }
        [$etag, $known] = $method === 'GET' ? $this->remembered[$target] ?? ['', ''] : ['', ''];
        if ($etag !== '') {
            $headers[] = "If-None-Match: $etag";
        }
        $received = [];
        $curl = $this->connection();
        curl_setopt_array($curl, [
            CURLOPT_URL => $this->base . $target,
            CURLOPT_CUSTOMREQUEST => $method,
            CURLOPT_HTTPHEADER => $headers,
            CURLOPT_RETURNTRANSFER => true,
            CURLOPT_TIMEOUT_MS => $this->timeoutMs,
            CURLOPT_NOSIGNAL => true,
            CURLOPT_FRESH_CONNECT => !$repeatable,  // on a kept connection that breaks, curl itself sends the request again
            CURLOPT_HEADERFUNCTION => function ($curl, string $line) use (&$received): int {
                [$name, $value] = explode(':', $line, 2) + [1 => ''];
                $received[strtolower($name)] = trim($value);
                return strlen($line);
            },
        ]);
        if ($text !== '') {
            curl_setopt($curl, CURLOPT_POSTFIELDS, $text);
        }
        $reply = curl_exec($curl);
        if ($reply === false) {
            $this->silentUntilMs = hrtime(true) / 1e6 + $this->cooldownMs;
            throw new FreshetException('the service is unreachable: ' . curl_error($curl));
        }
        $status = curl_getinfo($curl, CURLINFO_RESPONSE_CODE);
        $unchanged = $status === 304 && $etag !== '';
        if ($unchanged) {
            [$status, $reply] = [200, $known];
        }
        if ($status >= 200 && $status < 300) {
            $answer = ($parse ?? self::parse(...))($reply);
            if ($answer === null && ($status !== 204 || $parse !== null)) {
                throw new FreshetException('the service is unreachable: the response cannot be read');
            }
            $isPublic = isset($received['etag']) && !str_contains($received['cache-control'] ?? '', 'no-store');
            if (!$unchanged && $status === 200 && $method === 'GET' && $isPublic) {
                if (count($this->remembered) >= self::MAX_REMEMBERED) {
                    $this->remembered = [];
                }
                $this->remembered[$target] = [$received['etag'], $reply];
            }
            return ($answer ?? []) + (isset($received['freshet-degraded']) ? ['degraded' => true] : []);
        }
        $problem = self::parse($reply);
        $text = fn (string $name) => is_string($problem[$name] ?? null) ? $problem[$name] : null;
        throw new FreshetException(
            $text('msg') ?? "the service returned HTTP $status",
            $status,
            $text('code') ?? 'error',
            $text('member'),
            ctype_digit($received['retry-after'] ?? '') ? (float) $received['retry-after'] : 0.0,
        );
    }

    /** The object or list of a JSON document, a list as ["items" => list]; null if it is neither. */
    private static function parse(string $text): ?array
    {
        $answer = json_decode($text, true);
        return is_array($answer) ? (str_starts_with(ltrim($text), '[') ? ['items' => $answer] : $answer) : null;
    }

    private static function isId(mixed $value): bool
    {
        return is_string($value) || is_int($value);
    }

    private static function isItem(mixed $value): bool
    {
        return is_array($value) && self::isId($value['id'] ?? null);
    }

    /** Returns $answer if its items are a list of such elements, otherwise null. */
    private static function listOf(mixed $answer, \Closure $isElement): ?array
    {
        $items = is_array($answer) ? $answer['items'] ?? null : null;
        return is_array($items) && array_is_list($items) && array_filter($items, $isElement) === $items ? $answer : null;
    }

    private static function parseIds(string $text): ?array
    {
        return self::listOf(self::parse($text), self::isId(...));
    }

    private static function parseItems(string $text): ?array
    {
        return self::listOf(self::parse($text), self::isItem(...));
    }

    /** Returns the `data` of a feed's response: a page, or only the number of `new` items. */
    private static function parseFeed(string $text): ?array
    {
        $data = self::parse($text)['data'] ?? null;
        $isCount = is_array($data) && !array_key_exists('items', $data) && is_int($data['new'] ?? null);
        return $isCount ? $data : self::listOf($data, self::isItem(...));
    }

    /** Parses "ready", "writes:true" and, if something is missing, "missing:index,model", on a line each. */
    private static function parseHealth(string $text): ?array
    {
        if (!str_starts_with($text, "ready\n")) {
            return null;
        }
        preg_match('/^missing:(.+)$/m', $text, $missing);
        return ['ready' => true, 'writes' => str_contains($text, "\nwrites:true\n"), 'missing' => $missing ? explode(',', $missing[1]) : []];
    }

    private static function segment(string|int $id): string
    {
        return $id !== '' ? rawurlencode(self::text((string) $id)) : throw new \ValueError('an id must not be empty');
    }

    /** The text of an id or parameter, with U+FFFD for bytes that are not UTF-8, as in a body. */
    private static function text(string $value): string
    {
        return json_decode(json_encode($value, self::JSON));
    }

    private static function present(array $members): array
    {
        return array_filter($members, fn ($value) => $value !== null && $value !== '');
    }

    private function postEvent(string $path, array $body): array
    {
        return $this->request('POST', $path, body: self::present($body) + ['eventId' => bin2hex(random_bytes(16))], repeatable: true);
    }

    private function postLines(string $path, array $objects): array
    {
        $lines = implode("\n", array_map(fn ($each) => json_encode($each, self::JSON), $objects));
        return $this->request('POST', $path, body: $lines, repeatable: true, type: 'application/x-ndjson');
    }
}
