<?php
/**
 * Plugin Name:       Freshet
 * Description:       Hot lists and recommendations for your readers, from your own Freshet service.
 * Version:           0.1.0
 * Requires at least: 6.1
 * Requires PHP:      8.1
 * Author:            The Freshet authors
 * License:           MIT
 * License URI:       https://opensource.org/license/mit
 * Text Domain:       freshet
 */

declare(strict_types=1);

namespace Freshet\WordPress;

defined('ABSPATH') || exit;

const VERSION = '0.1.0';
const PLUGIN_FILE = __FILE__;

if (!class_exists(\Freshet\Freshet::class)) {
    require __DIR__ . '/includes/Freshet.php';
}
foreach (['values', 'texts', 'options', 'service', 'items', 'queue', 'posts', 'readers', 'lists', 'list-widget', 'page-script', 'privacy', 'settings-page'] as $part) {
    require __DIR__ . "/includes/$part.php";
}

register_activation_hook(__FILE__, function (): void {
    if (!extension_loaded('curl')) {
        wp_die(esc_html__('Freshet needs the PHP extension curl. Install it (Debian: php-curl) and activate the plugin again.', 'freshet'));
    }
});
register_deactivation_hook(__FILE__, function (bool $network): void {
    $clear = fn () => array_map('wp_clear_scheduled_hook', [Queue::HOOK, Queue::HOURLY]);
    foreach ($network ? get_sites(['fields' => 'ids', 'number' => 0]) : [] as $site) {
        switch_to_blog($site);
        $clear();
        restore_current_blog();
    }
    $clear();
});

Queue::register();
Posts::register();
Readers::register();
Lists::register();
PageScript::register();
Privacy::register();
SettingsPage::register();

if (defined('WP_CLI') && WP_CLI) {
    require __DIR__ . '/includes/command.php';
    \WP_CLI::add_command('freshet', Command::class);
}
