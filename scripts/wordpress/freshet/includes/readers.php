<?php
// The readers whom WordPress knows: a token cookie while they are logged in, their comments, and the erasure of deleted users.
// All other readers have Freshet's own cookie.

declare(strict_types=1);

namespace Freshet\WordPress;

use Freshet\Freshet;

defined('ABSPATH') || exit;

final class Readers
{
    private const COOKIE = 'freshet_token';
    private const WITHHELD = '_freshet_withheld';  // comment meta: written without consent
    private const TLS_COOKIE = '__Host-freshet_token';  // over TLS, Freshet accepts no other

    /** @var array<int, string> the readers' ids of users that are being deleted */
    private static array $deleted = [];

    public static function register(): void
    {
        add_action('set_logged_in_cookie', [self::class, 'logged_in'], 10, 6);
        add_action('clear_auth_cookie', fn () => self::clear_cookies([self::name()]));
        add_action('init', [self::class, 'correct_cookie'], 20);
        add_action('wp_insert_comment', [self::class, 'inserted'], 10, 2);
        add_action('transition_comment_status', fn ($new, $old, $comment) => self::commented($comment), 10, 3);
        add_action('delete_user', [self::class, 'deleting']);
        add_action('wpmu_delete_user', [self::class, 'deleting']);
        add_action('deleted_user', [self::class, 'deleted'], 10, 2);
    }

    /** The reader id of a user, or "" if the user must stay anonymous. */
    public static function id(\WP_User $user): string
    {
        /**
         * Filters the id by which Freshet knows a user. It must not change later. Return "" for a user who must stay anonymous.
         *
         * @param string   $id   the user's id
         * @param \WP_User $user
         */
        return (string) apply_filters('freshet_reader_id', (string) $user->ID, $user);
    }

    /** WordPress calls this before it asks whether to send its own cookies: plugins prevent that until a second factor is given. */
    public static function logged_in(string $cookie, int $expire, int $expiration, int $user, string $scheme = '', string $session = ''): void
    {
        if (apply_filters('send_auth_cookies', true, $expire, $expiration, $user, is_ssl() ? 'secure_auth' : 'auth', $session)) {
            self::set_cookie(get_userdata($user), $expire, $expiration);
        }
    }

    private static function set_cookie(mixed $user, int $expire, int $expiration): void
    {
        $key = Options::key('token_key');
        $reader = $user instanceof \WP_User ? self::id($user) : '';
        if ($key !== null && $reader !== '' && Options::saved()) {
            self::send_cookie(self::name(), Freshet::token($key[0], $key[1], $reader, $expiration), $expire);
        }
    }

    /** Clears the named cookies and those that the browser sent. */
    private static function clear_cookies(array $names = []): void
    {
        foreach ([self::COOKIE, self::TLS_COOKIE] as $name) {
            if (isset($_COOKIE[$name]) || in_array($name, $names, true)) {
                self::send_cookie($name, '', 1);
            }
        }
    }

    /** For logins from before the plugin was activated or its key changed, and sessions that ended without a logout. */
    public static function correct_cookie(): void
    {
        if (headers_sent() || wp_doing_cron() || !Options::saved()) {
            return;
        }
        $user = wp_get_current_user();
        $key = Options::key('token_key');
        $token = wp_unslash($_COOKIE[self::name()] ?? '');  // phpcs:ignore WordPress.Security -- only compared
        $reader = $user->exists() ? self::id($user) : '';
        if ($reader === '' || $key === null) {
            self::clear_cookies();
        } elseif (!is_string($token) || !Values::is_token_of($token, $key, $reader, time())) {
            $login = wp_parse_auth_cookie('', 'logged_in');
            if ($login) {  // not for requests with an application password
                self::set_cookie($user, 0, (int) $login['expiration']);  // until the browser is closed: the login may be, too
            }
        }
    }

    /** Remembers a lack of consent, because a comment is often approved in a moderator's request. */
    public static function inserted(int $id, \WP_Comment $comment): void
    {
        if ((int) $comment->user_id && !PageScript::has_consent()) {
            add_comment_meta($id, self::WITHHELD, '1', true);
        }
        self::commented($comment);
    }

    /** A user's approved comment becomes a reply. */
    public static function commented(\WP_Comment $comment): void
    {
        if (self::reply((int) $comment->comment_ID) !== null) {
            Queue::add(Queue::REPLY, (string) $comment->comment_ID);
        }
    }

    /** The interaction of a comment; null if it is none. Its event id makes it count once. */
    public static function reply(int $comment_id): ?array
    {
        $comment = get_comment($comment_id);
        $post = $comment ? get_post((int) $comment->comment_post_ID) : null;
        $reader = $comment ? self::reader((int) $comment->user_id) : '';
        if ($reader === '' || !$post || !Items::is_public($post) || $comment->comment_approved !== '1' || !in_array($comment->comment_type, ['', 'comment'], true)
            || get_comment_meta($comment_id, self::WITHHELD, true)) {
            return null;
        }
        return [
            'userId' => $reader,
            'topicId' => (string) $post->ID,
            'kind' => 'reply',
            'at' => min(time(), (int) strtotime($comment->comment_date_gmt . ' UTC')),
            'eventId' => "wp-comment-$comment_id",
        ];
    }

    /** Remembers the id of a user while the user's meta data exists, and has the user's other sites of a network erase the user. */
    public static function deleting(int $user_id): void
    {
        self::$deleted[$user_id] = self::reader($user_id);
        $sites = doing_action('wpmu_delete_user') ? get_blogs_of_user($user_id, true) : [];
        foreach (array_diff(array_map('intval', array_column($sites, 'userblog_id')), [get_current_blog_id()]) as $site) {
            switch_to_blog($site);
            Queue::add(Queue::ERASE, self::$deleted[$user_id]);
            restore_current_blog();
        }
    }

    /** Erases a deleted user. Posts that were given to another user get that author. */
    public static function deleted(int $user_id, mixed $reassigned): void
    {
        global $wpdb;
        Queue::add(Queue::ERASE, self::$deleted[$user_id] ?? (string) $user_id);
        if ($reassigned && Options::saved()) {
            Queue::add_posts($wpdb->prepare('posts.post_author = %d AND EXISTS (SELECT 1 FROM ' . $wpdb->postmeta . ' AS meta WHERE meta.post_id = posts.ID AND meta.meta_key = %s)', $reassigned, Items::SENT));
        }
    }

    private static function reader(int $user_id): string
    {
        $user = get_userdata($user_id);
        return $user ? self::id($user) : '';
    }

    private static function name(): string
    {
        return is_ssl() ? self::TLS_COOKIE : self::COOKIE;
    }

    private static function send_cookie(string $name, string $value, int $expire): void
    {
        if (!headers_sent()) {
            setrawcookie($name, $value, ['expires' => $expire, 'path' => '/', 'secure' => $name === self::TLS_COOKIE, 'httponly' => true, 'samesite' => 'Lax']);
        }
    }
}
