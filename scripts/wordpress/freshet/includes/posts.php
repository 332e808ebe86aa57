<?php
// Keeps Freshet's items equal to the site's posts.

declare(strict_types=1);

namespace Freshet\WordPress;

defined('ABSPATH') || exit;

final class Posts
{
    private const IMPORT = 'freshet_import';  // option: ["total" => posts, "started" => unix seconds]

    /** @var array<int, bool> by post that is being deleted: whether Freshet must be told */
    private static array $deleted = [];

    public static function register(): void
    {
        add_action('wp_after_insert_post', fn ($id, $post) => self::changed($post), 10, 2);
        add_action('transition_post_status', fn ($new, $old, $post) => self::changed($post), 10, 3);
        add_action('set_object_terms', fn ($id) => self::changed(get_post($id)));
        // The meta data of a post goes before the post.
        add_action('before_delete_post', fn ($id) => self::$deleted[$id] = self::is_known((int) $id));
        add_action('deleted_post', fn ($id) => !empty(self::$deleted[$id]) && Queue::add(Queue::ITEM, (string) $id));
        add_action('profile_update', [self::class, 'author_changed'], 10, 2);
    }

    /** A post that is not public matters only if Freshet has it. */
    public static function changed(mixed $post): void
    {
        if ($post instanceof \WP_Post && (Items::is_public($post) || self::is_known($post->ID))) {
            Queue::add(Queue::ITEM, (string) $post->ID);
        }
    }

    /** True if Freshet may have the post: it was sent, or another process is sending it. Caches do not know what others write. */
    private static function is_known(int $id): bool
    {
        global $wpdb;
        return Options::saved() && (bool) $wpdb->get_var($wpdb->prepare(
            'SELECT EXISTS (SELECT 1 FROM ' . Queue::table() . " WHERE kind = %s AND object = %s)
                OR EXISTS (SELECT 1 FROM $wpdb->postmeta WHERE post_id = %d AND meta_key = %s)",
            Queue::ITEM,
            (string) $id,
            $id,
            Items::SENT,
        ));
    }

    /** The items of an author's posts contain the author's name. */
    public static function author_changed(int $user, \WP_User $before): void
    {
        global $wpdb;
        $now = get_userdata($user);
        if ($now && Options::saved() && $now->display_name !== $before->display_name) {
            Queue::add_posts(self::condition() . $wpdb->prepare(' AND posts.post_author = %d', $user));
        }
    }

    /** Sends all posts, and deletes those that Freshet should no longer have. Cron does it in batches. Returns their number. */
    public static function send_all(): int
    {
        Queue::forget_refused();
        $total = Queue::add_posts(self::condition());
        update_option(self::IMPORT, ['total' => $total, 'started' => time()], false);
        return $total;
    }

    /** @return array{total: int, left: int, started: int} */
    public static function progress(): array
    {
        $import = (array) get_option(self::IMPORT, []) + ['total' => 0, 'started' => 0];
        return ['total' => (int) $import['total'], 'left' => min((int) $import['total'], Queue::size(Queue::ITEM)), 'started' => (int) $import['started']];
    }

    /** Condition of SQL: the posts that Freshet should have, and those that it has. */
    private static function condition(): string
    {
        global $wpdb;
        $types = implode(', ', array_map(fn ($type) => "'" . esc_sql($type) . "'", [...Options::post_types(), '']));
        return "((posts.post_type IN ($types) AND posts.post_status IN ('publish', 'future') AND posts.post_password = '')
            OR EXISTS (SELECT 1 FROM $wpdb->postmeta AS meta WHERE meta.post_id = posts.ID AND meta.meta_key = '" . Items::SENT . "'))";
    }
}
