<?php
// Client for Freshet in one file, for PHP 8.1 or later with curl.
//
// Requests that can be repeated are retried automatically: reads, PUT, DELETE, and events, each of which has its own id.
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
    private const MAX_PAUSE_S = 30;  // if the service asks for a longer pause, the request fails instead

    private ?\CurlHandle $curl = null;
    private int $pid = 0;

    /**
     * @param array{0: string, 1: string}|null $key     [kid, secret] for an internal server that requires signatures
     * @param array<string, string>            $headers added to every request
     */
    public function __construct(
        private string $base = 'http://127.0.0.1:8080',
        private ?array $key = null,
        private array $headers = [],
        private int $attempts = 4,
        private int $timeoutMs = 4000,
        private int $firstPauseMs = 250,
    ) {
        $this->base = rtrim($base, '/');
    }

    // Events

    public function track(string|int $article, array $report = []): array
    {
        return $this->postEvent('/api/track', ['articleId' => $article] + $report);
    }

    public function view(string|int $article, string $fingerprint, array $report = []): array
    {
        return $this->postEvent('/api/views', ['articleId' => $article, 'fingerprint' => $fingerprint] + $report);
    }

    public function look(string|int $user, string|int $topic, string $kind = 'topic'): array
    {
        return $this->postEvent('/api/history', ['userId' => $user, 'topicId' => $topic, 'kind' => $kind]);
    }

    public function dismiss(string|int $user, string|int $topic, array $more = []): array
    {
        $body = ['userId' => $user, 'topicId' => $topic, 'kind' => 'not_interested'] + $more;
        return $this->request('POST', '/api/feedback', body: $body, repeatable: true);
    }

    public function undismiss(string|int $user, string|int $topic): array
    {
        return $this->request('DELETE', '/api/feedback', ['userId' => $user, 'topicId' => $topic]);
    }

    // Lists

    public function hot(array $query = []): array
    {
        return $this->request('GET', '/api/hot', $query);
    }

    public function recommendations(string|int $user, array $query = []): array
    {
        return $this->request('GET', '/api/recommendations', ['userId' => $user] + $query);
    }

    public function similar(string|int $item, array $query = []): array
    {
        return $this->request('GET', '/api/items/' . rawurlencode((string) $item) . '/similar', $query);
    }

    public function history(string|int $user, array $query = []): array
    {
        return $this->request('GET', '/api/history', ['userId' => $user] + $query);
    }

    /** Returns the response's data. Pass its `page` to the next call ("load_more" or "refresh"). */
    public function feed(string|int $user, string $action = 'refresh', ?string $page = null, array $more = []): array
    {
        $body = ['action' => $action, 'userId' => $user] + $more;
        $body += $page !== null ? ['page' => $page] : ['eventId' => bin2hex(random_bytes(16))];
        return $this->request('POST', '/api/feed', body: $body, repeatable: true)['data'];
    }

    /** Keep `drop` of the newest page and `up` of the oldest: they are the scores of the next "down" and "up". */
    public function timeline(string $channel, string|int $user, string $direction = 'first', int $score = 0, array $query = []): array
    {
        $query += ['userId' => $user, 'direction' => $direction, 'score' => $score];
        return $this->request('GET', '/api/waterfall/' . rawurlencode($channel), $query);
    }

    // Internal server

    public function stats(string|int $article): array
    {
        return $this->request('GET', '/api/articles/' . rawurlencode((string) $article) . '/stats');
    }

    public function getItem(string|int $item): array
    {
        return $this->request('GET', '/api/items/' . rawurlencode((string) $item));
    }

    public function putItem(string|int $item, array $members): array
    {
        return $this->request('PUT', '/api/items/' . rawurlencode((string) $item), body: $members);
    }

    public function deleteItem(string|int $item): array
    {
        return $this->request('DELETE', '/api/items/' . rawurlencode((string) $item));
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
        return $this->postEvent('/api/waterfall/' . rawurlencode($channel), ['items' => $items, 'customers' => $customers]);
    }

    public function publish(string $channel, array $items, string|int $author): array
    {
        return $this->postEvent('/api/waterfall/' . rawurlencode($channel), ['items' => $items, 'followersOf' => $author]);
    }

    public function follow(string|int $user, string|int $author): array
    {
        return $this->request('PUT', '/api/follows', body: ['userId' => $user, 'author' => $author]);
    }

    public function unfollow(string|int $user, string|int $author): array
    {
        return $this->request('DELETE', '/api/follows', ['userId' => $user, 'author' => $author]);
    }

    // Requests

    /** Returns the Authorization header for the internal server, signed with one of identity.internal_keys. */
    public static function sign(string $kid, string $secret, string $method, string $target, string $body, ?int $seconds = null): string
    {
        $seconds ??= time();
        $message = "v1\n$method\n$target\n$seconds\n" . hash('sha256', $body);
        return "Freshet-HMAC-SHA256 kid=$kid, ts=$seconds, sig=" . hash_hmac('sha256', $message, $secret);
    }

    /** $body is an array sent as JSON, or a string of type $type. A $repeatable request is retried after temporary errors. */
    public function request(
        string $method,
        string $path,
        array $query = [],
        array|string|null $body = null,
        ?bool $repeatable = null,
        string $type = 'application/json',
    ): array {
        $repeatable ??= $method !== 'POST';
        $query = array_filter($query, fn ($value) => $value !== null);
        $target = $path . ($query ? '?' . http_build_query($query) : '');
        $text = is_array($body) ? json_encode($body ?: new \stdClass(), JSON_THROW_ON_ERROR | JSON_UNESCAPED_UNICODE) : (string) $body;
        for ($attempt = 1; ; $attempt++) {
            try {
                return $this->send($method, $target, $text, $type, $repeatable);
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

    private function send(string $method, string $target, string $text, string $type, bool $repeatable): array
    {
        $headers = array_map(fn ($name, $value) => "$name: $value", array_keys($this->headers), $this->headers);
        $headers[] = 'Expect:';
        if ($text !== '') {
            $headers[] = "Content-Type: $type";
        }
        if ($this->key !== null) {
            $path = (string) parse_url($this->base, PHP_URL_PATH);
            $headers[] = 'Authorization: ' . self::sign($this->key[0], $this->key[1], $method, $path . $target, $text);
        }
        $retryAfter = 0.0;
        $curl = $this->connection();
        curl_setopt_array($curl, [
            CURLOPT_URL => $this->base . $target,
            CURLOPT_CUSTOMREQUEST => $method,
            CURLOPT_HTTPHEADER => $headers,
            CURLOPT_RETURNTRANSFER => true,
            CURLOPT_TIMEOUT_MS => $this->timeoutMs,
            CURLOPT_NOSIGNAL => true,
            CURLOPT_FRESH_CONNECT => !$repeatable,  // on a kept connection that breaks, curl itself sends the request again
            CURLOPT_HEADERFUNCTION => function ($curl, string $line) use (&$retryAfter): int {
                if (preg_match('/^Retry-After:\s*(\d+)\s*$/i', $line, $match)) {
                    $retryAfter = (float) $match[1];
                }
                return strlen($line);
            },
        ]);
        if ($text !== '') {
            curl_setopt($curl, CURLOPT_POSTFIELDS, $text);
        }
        $reply = curl_exec($curl);
        if ($reply === false) {
            throw new FreshetException('the service is unreachable: ' . curl_error($curl));
        }
        $status = curl_getinfo($curl, CURLINFO_RESPONSE_CODE);
        $answer = json_decode((string) $reply, true);
        if ($status >= 200 && $status < 300) {
            if (!is_array($answer) && $status !== 204) {
                throw new FreshetException('the service is unreachable: the response is not JSON');
            }
            return $answer ?? [];
        }
        $text = fn (string $name) => is_string($answer[$name] ?? null) ? $answer[$name] : null;
        throw new FreshetException(
            $text('msg') ?? "the service returned HTTP $status",
            $status,
            $text('code') ?? 'error',
            $text('member'),
            $retryAfter,
        );
    }

    private function postEvent(string $path, array $body): array
    {
        return $this->request('POST', $path, body: $body + ['eventId' => bin2hex(random_bytes(16))], repeatable: true);
    }

    private function postLines(string $path, array $objects): array
    {
        $lines = implode("\n", array_map(fn ($each) => json_encode($each, JSON_THROW_ON_ERROR | JSON_UNESCAPED_UNICODE), $objects));
        return $this->request('POST', $path, body: $lines, repeatable: true, type: 'application/x-ndjson');
    }
}
