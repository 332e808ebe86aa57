<?php
// The tag on pages of posts, and consent.

declare(strict_types=1);

namespace Freshet\WordPress;

defined('ABSPATH') || exit;

final class PageScript
{
    private const TAG = 'freshet-tag';
    public const LIST = 'freshet-list';
    private const FILES = [self::TAG => 'freshet.js', self::LIST => 'freshet-list.js'];
    public const CONSENT = 'freshet-consent';
    public const CATEGORY = 'statistics';  // of the WP Consent API

    public static function register(): void
    {
        add_action('init', [self::class, 'register_scripts']);
        add_action('wp_enqueue_scripts', [self::class, 'enqueue']);
        add_filter('script_loader_src', [self::class, 'address'], 10, 2);
        add_filter('script_loader_tag', [self::class, 'complete'], 10, 2);
        add_filter('wp_consent_api_registered_' . plugin_basename(PLUGIN_FILE), '__return_true');
    }

    public static function register_scripts(): void
    {
        // Freshet's scripts have no version: browsers revalidate them.
        wp_register_script(self::TAG, self::url(self::FILES[self::TAG]), [], null, true);
        wp_register_script(self::LIST, self::url(self::FILES[self::LIST]), [], null, true);
        wp_register_script(self::CONSENT, plugins_url('assets/consent.js', PLUGIN_FILE), [], VERSION, true);
    }

    public static function enqueue(): void
    {
        if (self::article() !== '' && Options::get('tag') && Options::saved()) {
            wp_enqueue_script(self::TAG);
            if (self::waits()) {
                wp_enqueue_script(self::CONSENT);
            }
        }
    }

    /** The id of the post that the page shows, if it is one that Freshet has; otherwise "". */
    public static function article(): string
    {
        $post = is_singular() && !is_preview() ? get_queried_object() : null;
        return $post instanceof \WP_Post && Items::is_public($post) && $post->post_status === 'publish' ? (string) $post->ID : '';
    }

    /** WordPress makes the address of a script one below its own folder, which Freshet is not in. */
    public static function address(string $address, string $handle): string
    {
        return isset(self::FILES[$handle]) ? self::url(self::FILES[$handle]) : $address;
    }

    /** Adds attributes to Freshet's scripts. The tag's options do not name the reader: pages may be cached, and the cookie does. */
    public static function complete(string $html, string $handle): string
    {
        if (!isset(self::FILES[$handle])) {
            return $html;
        }
        $options = ['article' => self::article(), 'endpoint' => self::url('api/track')] + (self::waits() ? ['consent' => 'wait'] : []);
        $data = $handle === self::TAG ? ' data-freshet="' . esc_attr((string) wp_json_encode($options)) . '"' : '';
        return (string) preg_replace_callback('/<script(?=[^>]*\ssrc=)/', fn () => "<script defer$data", $html, 1);
    }

    /** The address of a public route or script. */
    public static function url(string $path): string
    {
        return Options::get('prefix') . "/$path";
    }

    /** True if pages must not report before the reader agrees: by the setting, or because a consent plugin is active. */
    public static function waits(): bool
    {
        return Options::get('consent') || function_exists('wp_has_consent');
    }

    /** True if the reader of this request has agreed, or need not. Without a consent plugin only scripts know. */
    public static function has_consent(): bool
    {
        return function_exists('wp_has_consent') ? wp_has_consent(self::CATEGORY) : !Options::get('consent');
    }
}
