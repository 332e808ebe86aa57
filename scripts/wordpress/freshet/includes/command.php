<?php
// WP-CLI: wp freshet import | status

declare(strict_types=1);

namespace Freshet\WordPress;

defined('ABSPATH') || exit;

/** Sends posts to Freshet and shows what is still to be sent. */
final class Command
{
    /**
     * Sends all posts.
     *
     * @subcommand import
     */
    public function import(): void
    {
        if (!Options::saved()) {
            \WP_CLI::error('Save the settings first: Settings → Freshet.');
        }
        $total = Posts::send_all();
        $bar = \WP_CLI\Utils\make_progress_bar('Posts', $total);
        for ($left = $total; $left > 0; ) {
            $error = Queue::run();
            $now = Queue::size(Queue::ITEM);
            if ($error !== null || $now >= $left) {
                \WP_CLI::error($error ? 'Freshet: ' . $error->getMessage() : 'No post was sent: another process is sending them.');
            }
            $bar->tick($left - $now);
            $left = $now;
        }
        $bar->finish();
        $refused = array_filter(Queue::refused(), fn ($each) => $each['kind'] === Queue::ITEM);
        foreach ($refused as $each) {
            \WP_CLI::warning("Post {$each['object']}: {$each['message']}");
        }
        \WP_CLI::success(sprintf('%d of %d posts sent.', $total - count($refused), $total));
    }

    /**
     * Shows whether Freshet answers, and how many writes wait.
     *
     * @subcommand status
     */
    public function status(): void
    {
        foreach (SettingsPage::test((array) get_option(Options::NAME) + Options::DEFAULTS) as $result) {
            $result['ok'] ? \WP_CLI::log($result['text']) : \WP_CLI::warning($result['text']);
        }
        \WP_CLI::log(sprintf('%d writes wait, %d were refused.', Queue::size(), count(Queue::refused())));
    }
}
