<?php
// Removes everything that the plugin stored in WordPress, from each site of a network. Freshet's own data stays.

declare(strict_types=1);

defined('WP_UNINSTALL_PLUGIN') || exit;

$remove = function (): void {
    global $wpdb;
    $wpdb->query("DROP TABLE IF EXISTS {$wpdb->prefix}freshet_queue");
    foreach (['freshet', 'freshet_import', 'freshet_refused', 'freshet_table', 'widget_freshet_list'] as $option) {
        delete_option($option);
    }
    delete_post_meta_by_key('_freshet_sent');
    delete_metadata('comment', 0, '_freshet_withheld', '', true);
    foreach (['freshet_send', 'freshet_hourly'] as $hook) {
        wp_clear_scheduled_hook($hook);
    }
    foreach (['_transient_freshet_', '_transient_timeout_freshet_'] as $prefix) {
        $wpdb->query($wpdb->prepare("DELETE FROM $wpdb->options WHERE option_name LIKE %s", $wpdb->esc_like($prefix) . '%'));
    }
};

foreach (is_multisite() ? get_sites(['fields' => 'ids', 'number' => 0]) : [] as $site) {
    switch_to_blog($site);
    $remove();
    restore_current_blog();
}
is_multisite() || $remove();
