<?php
// The plugin's settings: the option "freshet", and two constants of wp-config.php.

declare(strict_types=1);

namespace Freshet\WordPress;

defined('ABSPATH') || exit;

final class Options
{
    public const NAME = 'freshet';
    public const DEFAULTS = [
        'address' => 'http://127.0.0.1:8081',
        'prefix' => '',
        'internal_key' => '',
        'token_key' => '',
        'post_types' => ['post'],
        'tag' => true,
        'consent' => false,
    ];
    public const CONSTANTS = ['internal_key' => 'FRESHET_INTERNAL_KEY', 'token_key' => 'FRESHET_TOKEN_KEY'];

    /** Nothing is sent before the settings were saved once. */
    public static function saved(): bool
    {
        return is_array(get_option(self::NAME));
    }

    public static function get(string $name): mixed
    {
        $saved = get_option(self::NAME);
        return (is_array($saved) ? $saved : [])[$name] ?? self::DEFAULTS[$name];
    }

    /**
     * The key "internal_key" or "token_key"; its constant takes precedence.
     *
     * @return array{0: string, 1: string}|null
     */
    public static function key(string $name): ?array
    {
        $constant = self::CONSTANTS[$name];
        return Values::key((string) (defined($constant) ? constant($constant) : self::get($name)));
    }

    /** @return list<string> */
    public static function post_types(): array
    {
        return array_values(array_filter((array) self::get('post_types'), 'post_type_exists'));
    }

    /**
     * Checks what the settings page sent. An invalid address or prefix is reported and the old one stays. A key that is left
     * blank stays, too, since the page never shows it.
     */
    public static function sanitize(mixed $given): array
    {
        $given = is_array($given) ? $given : [];
        $clean = [];
        $text = fn (string $name): string => is_string($given[$name] ?? null) ? trim($given[$name]) : '';
        $clean['address'] = Values::address($text('address')) ?? self::rejected('address', __('The internal address must be http://HOST:PORT or https://HOST:PORT.', 'freshet'));
        $clean['prefix'] = Values::prefix($text('prefix')) ?? self::rejected('prefix', __('The public prefix must be empty, a path such as /freshet, or an address.', 'freshet'));
        foreach (array_keys(self::CONSTANTS) as $name) {
            $clean[$name] = !empty($given["forget_$name"]) ? '' : ($text($name) !== '' ? $text($name) : self::get($name));
        }
        $known = array_keys(self::available_post_types());
        $clean['post_types'] = array_values(array_intersect($known, array_map('strval', array_filter((array) ($given['post_types'] ?? []), 'is_scalar'))));
        $clean['tag'] = !empty($given['tag']);
        $clean['consent'] = !empty($given['consent']);
        return $clean;
    }

    /** @return array<string, string> name → label */
    public static function available_post_types(): array
    {
        $types = array_diff_key(get_post_types(['public' => true], 'objects'), ['attachment' => 1]);
        return array_map(fn ($type) => (string) $type->label, $types);
    }

    private static function rejected(string $name, string $message): string
    {
        if (function_exists('add_settings_error')) {
            add_settings_error(self::NAME, "freshet_$name", $message);
        }
        return self::get($name);
    }
}
