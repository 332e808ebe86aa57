<?php
// Settings → Freshet: the settings, a test of the connection, and sending all posts.

declare(strict_types=1);

namespace Freshet\WordPress;

use Freshet\Freshet;
use Freshet\FreshetException;

defined('ABSPATH') || exit;

final class SettingsPage
{
    private const SLUG = 'freshet';
    private const CAPABILITY = 'manage_options';
    private const NONCE = 'freshet-admin';
    private const TEST_READER = 'freshet-test';  // of the token of a test

    public static function register(): void
    {
        add_action('admin_init', [self::class, 'register_fields']);
        add_action('admin_menu', function (): void {
            $page = add_options_page('Freshet', 'Freshet', self::CAPABILITY, self::SLUG, [self::class, 'show']);
            add_action("load-$page", fn () => add_action('admin_enqueue_scripts', [self::class, 'enqueue']));
        });
        add_filter('plugin_action_links_' . plugin_basename(PLUGIN_FILE), fn ($links) => [
            '<a href="' . esc_url(admin_url('options-general.php?page=' . self::SLUG)) . '">' . esc_html__('Settings', 'freshet') . '</a>', ...$links]);
        foreach (['test' => 'answer_test', 'send_all' => 'answer_send_all', 'progress' => 'answer_progress'] as $action => $method) {
            add_action("wp_ajax_freshet_$action", function () use ($method): void {
                check_ajax_referer(self::NONCE);
                if (!current_user_can(self::CAPABILITY)) {
                    wp_send_json_error(null, 403);
                }
                wp_send_json_success(self::$method());
            });
        }
    }

    public static function register_fields(): void
    {
        register_setting(self::SLUG, Options::NAME, ['type' => 'array', 'sanitize_callback' => [Options::class, 'sanitize']]);
        $sections = [
            'service' => [__('Service', 'freshet'), [
                'address' => [__('Internal address', 'freshet'), fn () => self::text('address', 'url', __('Freshet’s internal server, as WordPress reaches it. An address such as 127.0.0.1 is faster than a host name.', 'freshet'))],
                'prefix' => [__('Public prefix', 'freshet'), fn () => self::text('prefix', 'text', __('Where your visitors reach Freshet on this site: empty, or a path such as /freshet.', 'freshet'))],
                /* translators: %s: a setting of Freshet */
                'internal_key' => [__('Internal key', 'freshet'), fn () => self::key('internal_key', sprintf(__('The secret in the file that %s names. If the key’s id is not k1, write ID:SECRET.', 'freshet'), 'identity.internal_keys'))],
                /* translators: %s: a setting of Freshet */
                'token_key' => [__('Token key', 'freshet'), fn () => self::key('token_key', sprintf(__('The secret in the file that %s names. Without it, users who are logged in count as anonymous visitors.', 'freshet'), 'identity.token_keys'))],
            ]],
            'site' => [__('Site', 'freshet'), [
                'post_types' => [__('Post types', 'freshet'), [self::class, 'show_post_types']],
                'tag' => [__('Count reading', 'freshet'), fn () => self::checkbox('tag', __('Add the tag to the pages of posts', 'freshet'))],
                'consent' => [__('Consent', 'freshet'), fn () => self::checkbox('consent', __('Count and recommend only after consent', 'freshet'),
                    /* translators: %s: a function in JavaScript */
                    sprintf(__('With a plugin that supports the WP Consent API this is always so. Otherwise call %s on each page for readers who have agreed.', 'freshet'), 'freshet.consent(true); freshetList.consent(true)'))],
            ]],
        ];
        foreach ($sections as $section => [$title, $fields]) {
            add_settings_section("freshet_$section", $title, '__return_null', self::SLUG);
            foreach ($fields as $name => [$label, $show]) {
                add_settings_field("freshet_$name", $label, $show, self::SLUG, "freshet_$section", $name === 'post_types' ? [] : ['label_for' => "freshet-$name"]);
            }
        }
    }

    public static function enqueue(): void
    {
        wp_enqueue_script('freshet-admin', plugins_url('assets/admin.js', PLUGIN_FILE), [], VERSION, true);
        wp_localize_script('freshet-admin', 'freshetAdmin', [
            'url' => admin_url('admin-ajax.php'),
            'nonce' => wp_create_nonce(self::NONCE),
            'texts' => [
                'testing' => __('Testing…', 'freshet'),
                'failed' => __('WordPress did not answer. Reload the page and try again.', 'freshet'),
                'public_ok' => __('Your visitors reach Freshet.', 'freshet'),
                /* translators: %1$s: an address, %2$s: an HTTP status or an error */
                'public_wrong' => __('Your visitors do not reach Freshet: %1$s returned %2$s. Include freshet-locations.conf in this site’s nginx server, or correct the public prefix.', 'freshet'),
            ],
        ]);
    }

    public static function show(): void
    {
        if (!current_user_can(self::CAPABILITY)) {
            return;
        }
        echo '<div class="wrap"><h1>Freshet</h1><form method="post" action="options.php" id="freshet-settings">';
        settings_fields(self::SLUG);
        do_settings_sections(self::SLUG);
        echo '<p class="submit">';
        submit_button('', 'primary', 'submit', false);
        echo ' <button type="button" class="button" id="freshet-test">' . esc_html__('Test connection', 'freshet') . '</button></p>';
        echo '<ul id="freshet-test-result" role="status"></ul></form>';
        echo '<h2>' . esc_html__('Posts', 'freshet') . '</h2>';
        echo '<p>' . esc_html__('Posts are sent when they change. Send all of them once after the installation, after a change of the post types, and if Freshet has lost its data.', 'freshet') . '</p>';
        $disabled = Options::saved() ? '' : ' disabled';
        echo '<p><button type="button" class="button" id="freshet-send-all"' . esc_attr($disabled) . '>' . esc_html__('Send all posts', 'freshet') . '</button></p>';
        echo '<p id="freshet-progress" role="status" data-left="' . esc_attr((string) Posts::progress()['left']) . '">' . esc_html(self::progress_text()) . '</p>';
        self::show_refused();
        echo '</div>';
    }

    public static function show_post_types(): void
    {
        echo '<fieldset><legend class="screen-reader-text">' . esc_html__('Post types', 'freshet') . '</legend>';
        foreach (Options::available_post_types() as $name => $label) {
            printf('<label><input type="checkbox" name="freshet[post_types][]" value="%s"%s> %s</label><br>', esc_attr($name), checked(in_array($name, Options::post_types(), true), true, false), esc_html($label));
        }
        echo '</fieldset>';
    }

    /** Tests what the form contains, saved or not. @return list<array{ok: bool, text: string}> */
    public static function answer_test(): array
    {
        // phpcs:ignore WordPress.Security -- the nonce is checked by the caller, the values by sanitize()
        $options = Options::sanitize(wp_unslash($_POST['freshet'] ?? []));
        $invalid = array_map(fn ($error) => self::result(false, $error['message']), get_settings_errors(Options::NAME));
        return $invalid ?: self::test($options);
    }

    public static function answer_send_all(): array
    {
        Posts::send_all();
        spawn_cron();
        return self::answer_progress();
    }

    public static function answer_progress(): array
    {
        return ['left' => Posts::progress()['left'], 'text' => self::progress_text()];
    }

    /** Calls Freshet with the given settings and says what works and what does not. */
    public static function test(array $options): array
    {
        $constant = fn (string $name) => defined(Options::CONSTANTS[$name]) ? constant(Options::CONSTANTS[$name]) : $options[$name];
        $address = $options['address'];
        $key = Values::key((string) $constant('internal_key'));
        $token_key = Values::key((string) $constant('token_key'));
        if (!extension_loaded('curl')) {
            return [self::result(false, __('PHP’s extension curl is missing.', 'freshet'))];
        }
        $token = $token_key ? Freshet::token($token_key[0], $token_key[1], self::TEST_READER) : '';
        $client = new Freshet($address, $key, $token ? ['Cookie' => "freshet_token=$token; __Host-freshet_token=$token"] : [], attempts: 1);
        try {
            $answer = $client->whoami();
        } catch (FreshetException $error) {
            return [self::result(false, self::diagnosis($error, $address, $key !== null))];
        }
        if (!array_key_exists('key', $answer)) {
            return [self::result(false, self::other_server($address))];
        }
        $results = [self::result(true, $answer['key'] !== null
            /* translators: %s: the id of a key */
            ? sprintf(__('Freshet accepts the internal key %s.', 'freshet'), $answer['key'])
            /* translators: %s: a setting of Freshet */
            : sprintf(__('Freshet answers, and accepts requests without a key. If other hosts reach it, set %s.', 'freshet'), 'identity.internal_keys'))];
        $results[] = match (true) {
            $token_key === null => self::result(true, __('Without a token key, users who are logged in count as anonymous visitors.', 'freshet')),
            ($answer['userId'] ?? null) === self::TEST_READER => self::result(true, __('Freshet accepts the token key.', 'freshet')),
            /* translators: %1$s and %2$s: settings of Freshet */
            default => self::result(false, sprintf(__('Freshet does not accept the token key. Compare it with the file in %1$s, and set %2$s.', 'freshet'), 'identity.token_keys', 'identity.mode = "token"')),
        };
        $health = $client->health();
        $missing = array_diff($health['missing'], ['model']);
        if (!$health['ready'] || !$health['writes'] || $missing) {
            $what = implode(', ', $missing) ?: ($health['ready'] ? __('writes', 'freshet') : $health['error']->getMessage());
            /* translators: %s: names of parts */
            $results[] = self::result(false, sprintf(__('Freshet is not complete: %s.', 'freshet'), $what));
        } elseif ($health['missing']) {
            /* translators: %s: a command */
            $results[] = self::result(true, sprintf(__('Recommendations show what is rising until %s has run, which is every night.', 'freshet'), 'freshetctl train'));
        }
        return $results;
    }

    private static function diagnosis(FreshetException $error, string $address, bool $has_key): string
    {
        return match (true) {
            str_contains($error->getMessage(), 'the response cannot be read') => self::other_server($address),
            /* translators: %1$s: an address, %2$s: the error */
            $error->status === 0 => sprintf(__('Freshet does not answer at %1$s (%2$s). Is it running, and is this the address of its internal server?', 'freshet'), $address, str_replace('the service is unreachable: ', '', $error->getMessage())),
            $error->problem === 'stale_signature' => __('Freshet refuses the signature as too old: the clocks of the two hosts differ.', 'freshet'),
            /* translators: %s: a setting of Freshet */
            $error->status === 401 && $has_key => sprintf(__('Freshet refuses the internal key. Compare it with the file in %s; if the key’s id is not k1, write ID:SECRET.', 'freshet'), 'identity.internal_keys'),
            $error->status === 401 => __('Freshet requires the internal key.', 'freshet'),
            /* translators: %s: an address */
            $error->status === 404 => sprintf(__('%s has no such route. Is it the address of the public server? Enter that of the internal one.', 'freshet'), $address),
            /* translators: %1$d: an HTTP status, %2$s: the error */
            default => sprintf(__('Freshet returned %1$d: %2$s', 'freshet'), $error->status, $error->getMessage()),
        };
    }

    private static function other_server(string $address): string
    {
        /* translators: %s: an address */
        return sprintf(__('Something else than Freshet’s internal server answers at %s.', 'freshet'), $address);
    }

    private static function result(bool $ok, string $text): array
    {
        return ['ok' => $ok, 'text' => $text];
    }

    private static function progress_text(): string
    {
        $progress = Posts::progress();
        if ($progress['total'] === 0) {
            return '';
        }
        /* translators: %1$s and %2$s: numbers */
        $text = sprintf(__('%1$s of %2$s posts sent.', 'freshet'), number_format_i18n($progress['total'] - $progress['left']), number_format_i18n($progress['total']));
        $down = $progress['left'] > 0 ? Service::down() : '';
        /* translators: %s: the error */
        return $text . ($down === '' ? '' : ' ' . sprintf(__('Waiting for Freshet: %s', 'freshet'), $down));
    }

    private static function show_refused(): void
    {
        $refused = Queue::refused();
        if (!$refused) {
            return;
        }
        echo '<h2>' . esc_html__('Refused', 'freshet') . '</h2><table class="widefat striped"><tbody>';
        foreach ($refused as $each) {
            printf('<tr><td>%s</td><td>%s %s</td><td>%s</td></tr>', esc_html((string) wp_date('Y-m-d H:i', (int) $each['at'])), esc_html($each['kind']), esc_html($each['object']), esc_html($each['message']));
        }
        echo '</tbody></table>';
    }

    private static function text(string $name, string $type, string $help): void
    {
        printf('<input type="%s" id="freshet-%s" name="freshet[%s]" value="%s" class="regular-text code"><p class="description">%s</p>',
            esc_attr($type), esc_attr($name), esc_attr($name), esc_attr((string) Options::get($name)), esc_html($help));
    }

    /** The page never contains a key. */
    private static function key(string $name, string $help): void
    {
        if (defined(Options::CONSTANTS[$name])) {
            /* translators: %s: a constant */
            echo '<p id="freshet-' . esc_attr($name) . '">' . esc_html(sprintf(__('Set by %s in wp-config.php.', 'freshet'), Options::CONSTANTS[$name])) . '</p>';
            return;
        }
        $is_set = Options::get($name) !== '';
        printf('<input type="password" autocomplete="new-password" id="freshet-%s" name="freshet[%s]" value="" placeholder="%s" class="regular-text code">',
            esc_attr($name), esc_attr($name), esc_attr($is_set ? __('Saved; leave blank to keep it', 'freshet') : ''));
        if ($is_set) {
            printf(' <label><input type="checkbox" name="freshet[forget_%s]" value="1"> %s</label>', esc_attr($name), esc_html__('Remove', 'freshet'));
        }
        echo '<p class="description">' . esc_html($help) . '</p>';
    }

    private static function checkbox(string $name, string $label, string $help = ''): void
    {
        printf('<label><input type="checkbox" id="freshet-%s" name="freshet[%s]" value="1"%s> %s</label>', esc_attr($name), esc_attr($name), checked((bool) Options::get($name), true, false), esc_html($label));
        if ($help !== '') {
            echo '<p class="description">' . esc_html($help) . '</p>';
        }
    }
}
