<?php
// Conversions without WordPress: what administrators enter, and what an item may contain.

declare(strict_types=1);

namespace Freshet\WordPress;

defined('ABSPATH') || exit;

final class Values
{
    public const MAX_TITLE = 1024;  // bytes
    public const MAX_TEXT = 262144;  // bytes
    private const MAX_TAG = 64;  // characters
    private const MAX_TAGS = 100;
    private const MAX_TAGS_BYTES = 2048;  // together

    /**
     * Parses a key as entered: "KID:SECRET", or the secret alone if the key's id is k1.
     *
     * @return array{0: string, 1: string}|null
     */
    public static function key(string $entered): ?array
    {
        $entered = trim($entered);
        if ($entered === '') {
            return null;
        }
        return preg_match('/^([A-Za-z0-9_-]{1,64}):(.+)$/s', $entered, $parts) ? [$parts[1], $parts[2]] : ['k1', $entered];
    }

    /** Returns the address of the internal server without a trailing slash, or null if it is not one. */
    public static function address(string $entered): ?string
    {
        $entered = rtrim(trim($entered), '/');
        $parts = parse_url($entered);
        $is_address = is_array($parts) && in_array($parts['scheme'] ?? '', ['http', 'https'], true) && ($parts['host'] ?? '') !== ''
            && !array_intersect_key($parts, ['query' => 1, 'fragment' => 1, 'user' => 1]);
        return $is_address ? $entered : null;
    }

    /** Returns where the public routes are: "" (the root), a path such as "/freshet", or an address. Null if it is none. */
    public static function prefix(string $entered): ?string
    {
        $entered = rtrim(trim($entered), '/');
        if ($entered === '' || preg_match('#^(/[A-Za-z0-9_.~-]+)+$#', $entered)) {
            return $entered;
        }
        return self::address($entered);
    }

    /** Cuts UTF-8 text to a number of bytes without splitting a character. */
    public static function clip(string $text, int $bytes): string
    {
        if (strlen($text) <= $bytes) {
            return $text;
        }
        while ($bytes > 0 && (ord($text[$bytes]) & 0xC0) === 0x80) {
            $bytes--;
        }
        return substr($text, 0, $bytes);
    }

    /** The text of a fragment of HTML, on one line and without control characters. */
    public static function line(string $html): string
    {
        $text = html_entity_decode(strip_tags($html), ENT_QUOTES | ENT_HTML5, 'UTF-8');
        return trim((string) preg_replace('/[\s\p{Cc}\x{200B}\x{200E}\x{200F}\x{2060}\x{FEFF}]+/u', ' ', $text));
    }

    /** A title; for a post without one, the first words of its text. */
    public static function title(string $title, string $html): string
    {
        $line = self::line($title);
        if ($line === '') {
            $words = explode(' ', self::line((string) preg_replace('/<!--.*?-->/s', ' ', $html)), 13);
            $line = implode(' ', array_slice($words, 0, 12)) . (isset($words[12]) ? '…' : '');
        }
        return self::clip($line, self::MAX_TITLE);
    }

    /**
     * The tags that an item may have: those that are too many or too long for Freshet are left out or cut.
     *
     * @param list<string> $names
     * @return list<string>
     */
    public static function tags(array $names): array
    {
        $tags = [];
        $bytes = 0;
        foreach ($names as $name) {
            $tag = preg_match('/^.{1,' . self::MAX_TAG . '}/us', self::line($name), $start) ? trim($start[0]) : '';
            $bytes += strlen($tag);
            if ($tag === '' || in_array($tag, $tags, true)) {
                $bytes -= strlen($tag);
            } elseif ($bytes > self::MAX_TAGS_BYTES || count($tags) >= self::MAX_TAGS) {
                break;
            } else {
                $tags[] = $tag;
            }
        }
        return $tags;
    }

    /** True if the cookie's token, which PHP has decoded, was made with the key for the reader and is valid at $now. */
    public static function is_token_of(string $token, array $key, string $reader, int $now): bool
    {
        $parts = explode('.', $token);
        $expires = (int) ($parts[count($parts) - 2] ?? 0);
        return $expires > $now && hash_equals(urldecode(\Freshet\Freshet::token($key[0], $key[1], $reader, $expires)), $token);
    }

    /** Seconds until the next attempt after so many that failed: a minute, then twice as long each time, at most an hour. */
    public static function pause(int $attempts): int
    {
        return min(3600, 60 * 2 ** min(max($attempts - 1, 0), 6));
    }
}
