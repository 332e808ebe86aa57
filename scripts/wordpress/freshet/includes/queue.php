<?php
// Writes that Freshet has yet to receive: a table with one row for each post, comment or reader.
//
// A row names what to send, not the data, so what is sent is always the current state. One process at a time sends an object:
// it claims the row, and deletes it only if the object has not changed since. Requests that change something send at their end,
// for at most 300 ms altogether; cron sends the rest and repeats what failed.

declare(strict_types=1);

namespace Freshet\WordPress;

use Freshet\Freshet;
use Freshet\FreshetException;

defined('ABSPATH') || exit;

final class Queue
{
    public const ITEM = 'item';  // the post's id
    public const REPLY = 'reply';  // the comment's id
    public const ERASE = 'erase';  // the reader's id
    public const HOOK = 'freshet_send';
    public const HOURLY = 'freshet_hourly';  // in case a process was killed before it scheduled HOOK
    private const TABLE = 'freshet_table';  // option: the version that made the table
    private const REFUSED = 'freshet_refused';  // option: the last writes that cannot succeed
    private const CLAIM_S = 60;
    private const BATCH = 50;
    private const BATCH_BYTES = 2097152;  // the server accepts 8 MiB
    private const CRON_S = 20.0;
    private const PAUSE_S = 60;  // after a failure

    /** @var array<string, array{0: string, 1: string}> what this request added */
    private static array $added = [];

    public static function register(): void
    {
        add_action(self::HOOK, [self::class, 'run']);
        add_action(self::HOURLY, [self::class, 'run']);
        add_action('init', function (): void {
            if (get_option(self::TABLE) !== VERSION) {  // after an update, and on other sites of a network
                self::create_table();
            }
            if (Options::saved() && !wp_next_scheduled(self::HOURLY)) {
                wp_schedule_event(time() + HOUR_IN_SECONDS, 'hourly', self::HOURLY);
            }
        });
    }

    public static function create_table(): void
    {
        global $wpdb;
        require_once ABSPATH . 'wp-admin/includes/upgrade.php';
        dbDelta('CREATE TABLE ' . self::table() . " (
            kind varbinary(10) NOT NULL,
            object varbinary(512) NOT NULL,
            version bigint(20) unsigned NOT NULL,
            attempts smallint(5) unsigned NOT NULL DEFAULT 0,
            due bigint(20) unsigned NOT NULL,
            claimed bigint(20) unsigned NOT NULL DEFAULT 0,
            claim varbinary(32) NOT NULL DEFAULT '',
            PRIMARY KEY  (kind,object),
            KEY due (due)
        ) " . $wpdb->get_charset_collate() . ';');
        update_option(self::TABLE, VERSION);
    }

    public static function table(): string
    {
        global $wpdb;
        return $wpdb->prefix . 'freshet_queue';
    }

    /** Adds an object; this request sends it at its end. */
    public static function add(string $kind, string $object): void
    {
        global $wpdb;
        if (!Options::saved() || $object === '') {
            return;
        }
        self::write($wpdb->prepare(
            'INSERT INTO ' . self::table() . ' (kind, object, version, due) VALUES (%s, %s, 1, %d)
             ON DUPLICATE KEY UPDATE version = version + 1, attempts = 0, due = VALUES(due)',
            $kind,
            $object,
            time(),
        ));
        if (is_multisite() && ms_is_switched()) {  // another site's cron sends it, to that site's service
            self::schedule();
            return;
        }
        if (!self::$added) {
            add_action('shutdown', [self::class, 'send_added'], 20);
        }
        self::$added["$kind $object"] = [$kind, $object];
    }

    /** Adds the posts that a condition of SQL selects; cron sends them. Returns how many there are. */
    public static function add_posts(string $condition): int
    {
        global $wpdb;
        self::write('INSERT INTO ' . self::table() . " (kind, object, version, due)
            SELECT 'item', ID, 1, " . time() . " FROM $wpdb->posts AS posts WHERE $condition
            ON DUPLICATE KEY UPDATE version = version + 1, attempts = 0, due = VALUES(due)");
        self::schedule();
        return self::size(self::ITEM);
    }

    /** Adds rows. If that fails, the table may be missing: a backup without it was restored. */
    private static function write(string $statement): void
    {
        global $wpdb;
        if ($wpdb->query($statement) === false) {
            self::create_table();
            $wpdb->query($statement);
        }
    }

    /** The number of objects that wait. */
    public static function size(?string $kind = null): int
    {
        global $wpdb;
        $condition = $kind === null ? '' : $wpdb->prepare(' WHERE kind = %s', $kind);
        return (int) $wpdb->get_var('SELECT COUNT(*) FROM ' . self::table() . $condition);
    }

    /** @return list<array{kind: string, object: string, message: string, at: int}> newest first */
    public static function refused(): array
    {
        return (array) get_option(self::REFUSED, []);
    }

    public static function forget_refused(): void
    {
        delete_option(self::REFUSED);
    }

    /** At the end of a request that changed something. */
    public static function send_added(): void
    {
        foreach (self::$added as [$kind, $object]) {
            $rows = self::claim('kind = %s AND object = %s', [$kind, $object], 1);
            $answer = $rows ? Service::page_call(fn (Freshet $client) => self::deliver($client, $rows)) : [];
            if (!empty($answer['unavailable'])) {
                self::release($rows);
                break;
            }
        }
        self::$added = [];
        self::schedule(empty($answer['unavailable']) ? 0 : self::PAUSE_S);
    }

    /** Sends what is due, for some seconds or until Freshet does not answer. Returns the error of the latter. */
    public static function run(): ?FreshetException
    {
        if (!Service::usable()) {
            return null;
        }
        $deadline = microtime(true) + self::CRON_S;
        $client = Service::client();
        $error = null;
        while ($error === null && microtime(true) < $deadline) {
            $rows = self::claim('kind = %s AND due <= %d', [self::ITEM, time()], self::BATCH)
                ?: self::claim('due <= %d', [time()], 1);
            if (!$rows) {
                break;
            }
            try {
                self::deliver($client, $rows);
            } catch (FreshetException $exception) {
                $error = $exception;
                self::release($rows);
            }
        }
        if ($error !== null) {
            Service::note($error);
        }
        self::schedule($error === null ? 0 : self::PAUSE_S);
        return $error;
    }

    /** Claims up to $limit rows for this process. Rows that another process has claimed are left out. */
    private static function claim(string $condition, array $arguments, int $limit): array
    {
        global $wpdb;
        $claim = bin2hex(random_bytes(8));
        $wpdb->query($wpdb->prepare(
            'UPDATE ' . self::table() . " SET claim = %s, claimed = %d WHERE claimed < %d AND $condition ORDER BY due LIMIT %d",
            $claim,
            time() + self::CLAIM_S,
            time(),
            ...[...$arguments, $limit],
        ));
        return $wpdb->get_results($wpdb->prepare('SELECT * FROM ' . self::table() . ' WHERE claim = %s', $claim));
    }

    /** Gives rows back that were not sent, with a pause that grows. */
    private static function release(array $rows): void
    {
        global $wpdb;
        foreach ($rows as $row) {
            $wpdb->query($wpdb->prepare(
                'UPDATE ' . self::table() . " SET claim = '', claimed = 0, attempts = attempts + 1, due = %d WHERE kind = %s AND object = %s AND claim = %s",
                time() + Values::pause((int) $row->attempts + 1),
                $row->kind,
                $row->object,
                $row->claim,
            ));
        }
    }

    /** Deletes a row that was sent; if the object has changed meanwhile, the row stays and is due. */
    private static function finish(object $row): void
    {
        global $wpdb;
        $key = [$row->kind, $row->object, $row->claim];
        $sent = $wpdb->query($wpdb->prepare('DELETE FROM ' . self::table() . ' WHERE kind = %s AND object = %s AND claim = %s AND version = %d', ...[...$key, $row->version]));
        if (!$sent) {
            $wpdb->query($wpdb->prepare('UPDATE ' . self::table() . " SET claim = '', claimed = 0 WHERE kind = %s AND object = %s AND claim = %s", ...$key));
        }
    }

    private static function refuse(object $row, string $message): void
    {
        $entry = ['kind' => $row->kind, 'object' => $row->object, 'message' => $message, 'at' => time()];
        update_option(self::REFUSED, array_slice([$entry, ...self::refused()], 0, 20), false);
        self::finish($row);
    }

    /**
     * Sends rows: posts of one batch together, everything else alone. Returns the answer of a call that failed if the client
     * is one for pages; another client throws the error. What a repetition cannot correct drops its row: errors of Freshet, and
     * those of other plugins' filters.
     */
    private static function deliver(Freshet $client, array $rows): array
    {
        $lines = [];
        $bytes = 0;
        foreach ($rows as $row) {
            try {
                $line = $row->kind === self::ITEM ? self::line((int) $row->object) : null;
                $size = strlen(json_encode($line, JSON_THROW_ON_ERROR | JSON_INVALID_UTF8_SUBSTITUTE));
            } catch (\Throwable $error) {
                self::refuse($row, $error->getMessage());
                continue;
            }
            $answer = [];
            if ($line === null) {
                $answer = self::attempt($row, fn () => self::deliver_alone($client, $row));
            } else {
                if ($lines && $bytes + $size > self::BATCH_BYTES) {
                    $answer = self::deliver_items($client, $lines);
                    [$lines, $bytes] = [[], 0];
                }
                $lines[] = [$row, $line];
                $bytes += $size;
            }
            if (!empty($answer['unavailable'])) {
                return $answer;
            }
        }
        return $lines ? self::deliver_items($client, $lines) : [];
    }

    /** The post's line for a bulk write; null if the post must be deleted. */
    private static function line(int $id): ?array
    {
        // Another process may have changed the post. clean_post_cache() would also make plugins drop their copies of pages.
        wp_cache_delete($id, 'posts');
        wp_cache_delete($id, 'post_meta');
        $post = get_post($id);
        foreach ($post ? get_object_taxonomies($post->post_type) : [] as $taxonomy) {
            wp_cache_delete($id, "{$taxonomy}_relationships");
        }
        $members = $post ? Items::members($post) : null;
        return $members === null ? null : ['id' => (string) $id] + $members;
    }

    /** One call for all lines. If Freshet refuses it as a whole, each line is sent alone. */
    private static function deliver_items(Freshet $client, array $lines): array
    {
        foreach ($lines as [$row]) {
            update_post_meta((int) $row->object, Items::SENT, '1');  // before the call, whose answer may be lost
        }
        try {
            $answer = $client->putItems(array_column($lines, 1));
            $error = $answer['error'] ?? null;
        } catch (FreshetException $exception) {
            [$answer, $error] = [[], $exception];
        }
        if ($error !== null && self::is_temporary($error)) {
            return $answer ?: throw $error;
        }
        if ($error !== null && count($lines) > 1) {
            foreach ($lines as $line) {
                $answer = self::deliver_items($client, [$line]);
                if (!empty($answer['unavailable'])) {
                    return $answer;
                }
            }
            return [];
        }
        $rejected = array_column($answer['rejected'] ?? [], null, 'line');
        foreach ($lines as $index => [$row]) {
            $problem = $rejected[$index + 1] ?? null;
            if ($error !== null) {
                self::refuse($row, $error->getMessage());
            } elseif ($problem !== null) {
                self::refuse($row, trim(($problem['member'] ?? '') . ' ' . ($problem['detail'] ?? $problem['code'] ?? '')));
            } else {
                self::finish($row);
            }
        }
        return [];
    }

    private static function deliver_alone(Freshet $client, object $row): array
    {
        if ($row->kind === self::ITEM) {
            $answer = $client->deleteItem($row->object);
            if (empty($answer['unavailable'])) {
                delete_post_meta((int) $row->object, Items::SENT);
            }
            return $answer;
        }
        if ($row->kind === self::ERASE) {
            return self::erase($client, $row->object);
        }
        $reply = Readers::reply((int) $row->object);
        return $reply === null ? [] : $client->interact([$reply]);
    }

    /** Starts the erasure of a reader, or asks what became of it. The row waits until it is done. */
    private static function erase(Freshet $client, string $reader): array
    {
        $name = 'freshet_deleted_' . md5($reader);  // transient: the job's id; without it the reader is erased again
        $job = get_transient($name);
        delete_transient($name);  // for a job that failed, or that Freshet does not know any more
        $answer = $job ? $client->job($job) : $client->eraseUser($reader);
        if (!empty($answer['unavailable']) || in_array($answer['state'] ?? '', ['done', 'waiting'], true)) {
            return $answer;
        }
        if (($answer['state'] ?? '') !== 'failed') {
            set_transient($name, $answer['job'] ?? $job, DAY_IN_SECONDS);
        }
        return ['waits' => true];
    }

    private static function attempt(object $row, callable $send): array
    {
        try {
            $answer = $send();
            $error = $answer['error'] ?? null;
        } catch (\Throwable $exception) {
            [$answer, $error] = [[], $exception];
        }
        if ($error === null) {
            empty($answer['waits']) ? self::finish($row) : self::release([$row]);
            return [];
        }
        if ($error instanceof FreshetException && self::is_temporary($error)) {
            return $answer ?: throw $error;
        }
        self::refuse($row, $error->getMessage());
        return [];
    }

    /** True if a repetition may succeed. With a wrong key every write fails, until an administrator corrects it. */
    private static function is_temporary(FreshetException $error): bool
    {
        return $error->temporary() || in_array($error->status, [401, 403, 404, 409, 500], true);
    }

    /** Lets cron run when the next row is due, but not within $pause seconds. */
    public static function schedule(int $pause = 0): void
    {
        global $wpdb;
        $due = $wpdb->get_var('SELECT MIN(GREATEST(due, claimed)) FROM ' . self::table());
        if ($due === null) {
            return;
        }
        $due = max(time() + $pause, (int) $due);
        $next = wp_next_scheduled(self::HOOK);
        if ($next === false || $next > $due || ($pause && $next < $due)) {
            wp_clear_scheduled_hook(self::HOOK);  // WordPress refuses a second event of a hook within ten minutes
            wp_schedule_single_event($due, self::HOOK);
        }
    }
}
