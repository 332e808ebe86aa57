<?php
// WordPress' screens "Export Personal Data" and "Erase Personal Data", and the text for the privacy policy.

declare(strict_types=1);

namespace Freshet\WordPress;

use Freshet\FreshetException;

defined('ABSPATH') || exit;

final class Privacy
{
    private const MAX_VALUES = 500;  // of one stored key in an export
    private const JOB = 'freshet_erasure_';  // transient, by reader: the job's id

    public static function register(): void
    {
        add_filter('wp_privacy_personal_data_exporters', fn ($all) => $all + ['freshet' => ['exporter_friendly_name' => __('Freshet', 'freshet'), 'callback' => [self::class, 'export']]]);
        add_filter('wp_privacy_personal_data_erasers', fn ($all) => $all + ['freshet' => ['eraser_friendly_name' => __('Freshet', 'freshet'), 'callback' => [self::class, 'erase']]]);
        add_action('admin_init', fn () => wp_add_privacy_policy_content('Freshet', wp_kses_post(self::policy())));
    }

    /** One part of what is stored about a person; $page counts from 1. */
    public static function export(string $email, int $page = 1): array|\WP_Error
    {
        $reader = self::reader($email);
        if ($reader === '' || !Service::usable()) {
            return ['data' => [], 'done' => true];
        }
        $name = 'freshet_export_' . md5($reader);
        // Each part of Freshet's export names the number of its first interaction.
        $starts = $page > 1 ? (array) get_transient($name) : [1 => 0];
        if (!isset($starts[$page])) {
            return new \WP_Error('freshet', __('The export took too long. Start it again.', 'freshet'));
        }
        try {
            $part = Service::client()->exportUser($reader, (int) $starts[$page]);
        } catch (FreshetException $error) {
            /* translators: %s: the error */
            return new \WP_Error('freshet', sprintf(__('Freshet did not export the data: %s', 'freshet'), $error->getMessage()));
        }
        $next = $part['database']['next'] ?? null;
        if ($next !== null) {
            set_transient($name, [$page + 1 => $next] + $starts, HOUR_IN_SECONDS);
        } else {
            delete_transient($name);
        }
        return ['data' => self::groups($part, $page), 'done' => $next === null];
    }

    /** Requests the erasure, then polls its job: WordPress calls again until it is done. */
    public static function erase(string $email, int $page = 1): array
    {
        $result = ['items_removed' => false, 'items_retained' => false, 'messages' => [], 'done' => true];
        $reader = self::reader($email);
        if ($reader === '' || !Service::usable()) {
            return $result;
        }
        $name = self::JOB . md5($reader);
        $client = Service::client();
        try {
            $job = get_transient($name);
            if ($page === 1 || !$job) {
                $job = $client->eraseUser($reader)['job'];
                set_transient($name, $job, HOUR_IN_SECONDS);
                return ['done' => false] + $result;
            }
            $state = $client->job($job)['state'];
            if (in_array($state, ['queued', 'running'], true)) {
                sleep(1);  // WordPress asks again at once
                return ['done' => false] + $result;
            }
            delete_transient($name);
            $messages = [
                'failed' => __('Freshet could not erase everything within ten minutes. Its log names the host; erase again.', 'freshet'),
                'waiting' => __('Freshet has erased the data, except on a host that is unreachable. Data there will not be used, and is erased later.', 'freshet'),
            ];
            return ['items_removed' => $state !== 'failed', 'items_retained' => $state === 'failed', 'messages' => array_filter([$messages[$state] ?? ''])] + $result;
        } catch (FreshetException $error) {
            /* translators: %s: the error */
            return ['items_retained' => true, 'messages' => [sprintf(__('Freshet did not erase the data: %s', 'freshet'), $error->getMessage())]] + $result;
        }
    }

    private static function reader(string $email): string
    {
        $user = get_user_by('email', $email);
        return $user ? Readers::id($user) : '';
    }

    /** Freshet's export in words. */
    private static function groups(array $part, int $page): array
    {
        $data = [];
        $add = function (string $group, string $label, array $pairs) use (&$data, $page): void {
            $rows = [];
            foreach (array_filter($pairs, fn ($value) => $value !== '') as $name => $value) {
                $rows[] = ['name' => $name, 'value' => $value];
            }
            $data[] = ['group_id' => "freshet-$group", 'group_label' => $label, 'item_id' => "freshet-$group-$page-" . count($data), 'data' => $rows];
        };
        [$post, $what, $when] = [__('Post', 'freshet'), __('What', 'freshet'), __('When', 'freshet')];
        $rows = [...$part['database']['interactions'] ?? [], ...$part['database']['not_interested'] ?? []];
        _prime_post_caches(array_map('intval', array_filter(array_column($rows, 'topicId'), fn ($id) => ctype_digit((string) $id))), false, false);
        foreach ($part['database']['interactions'] ?? [] as $row) {
            $add('interactions', __('What you did (Freshet)', 'freshet'), [$what => Texts::interaction((string) $row['kind']), $post => self::post($row['topicId']), $when => self::time($row['at'])]);
        }
        if ($page > 1) {  // the rest is in each part
            return $data;
        }
        foreach ($part['database']['not_interested'] ?? [] as $row) {
            $add('dismissed', __('Posts you are not interested in (Freshet)', 'freshet'), [$post => self::post($row['topicId']), __('Why', 'freshet') => (string) ($row['reason'] ?? ''), $when => self::time($row['at'])]);
        }
        foreach ($part['database']['follows'] ?? [] as $row) {
            $add('follows', __('Authors you follow (Freshet)', 'freshet'), [__('Author', 'freshet') => self::author($row['author']), $when => self::time($row['at'])]);
        }
        foreach ($part['redis'] ?? [] as $key) {
            $add('current', __('Current state (Freshet)', 'freshet'), [$what => Texts::stored((string) $key['key'], (string) $key['what']), __('Contents', 'freshet') => self::contents($key)]);
        }
        if (isset($part['no_database'])) {
            $add('missing', __('Not included (Freshet)', 'freshet'), [$what => __('The history in the database', 'freshet'), __('Why', 'freshet') => (string) $part['no_database']]);
        }
        return $data;
    }

    private static function contents(array $key): string
    {
        $name = (string) $key['key'];
        $all = (array) $key['value'];
        $values = array_slice($all, 0, self::MAX_VALUES, true);
        // Names of posts in some keys begin with a letter and a colon: what was done with the post.
        $name_of = fn ($member): string => self::post(preg_replace('/^[a-z]:/', '', (string) $member));
        $dated = fn (callable $label): array => array_map(fn ($member, $at) => $label($member) . ((float) $at > 0 ? ': ' . self::time($at) : ''), array_keys($values), $values);
        $words = match (true) {
            str_starts_with($name, 'user:not_interested:why:') => array_map(fn ($id, $why) => self::post($id) . ": $why", array_keys($values), $values),
            str_starts_with($name, 'hot:added:') => array_map($name_of, array_filter(array_keys($values), fn ($member) => str_starts_with((string) $member, 'a:'))),
            str_starts_with($name, 'follow:authors:') => $dated(fn ($author) => self::author($author)),
            str_starts_with($name, 'active:'), str_starts_with($name, 'follow:readers:') => array_map(fn ($at) => self::time($at), array_values($values)),
            str_starts_with($name, 'user:interactions:'), str_starts_with($name, 'user:not_interested:'), str_starts_with($name, 'user:views:at:'), str_starts_with($name, 'wf:') => $dated($name_of),
            str_starts_with($name, 'user:views:') => array_map($name_of, $values),
            default => [sprintf(
                /* translators: %s: a number */
                _n('%s entry, which only the service can read', '%s entries, which only the service can read', count($all), 'freshet'),
                number_format_i18n(count($all)),
            )],
        };
        $more = count($words) > 1 ? count($all) - count($values) : 0;
        /* translators: %s: a number */
        return implode(', ', array_map('strval', $words)) . ($more > 0 ? ' ' . sprintf(__('and %s more', 'freshet'), number_format_i18n($more)) : '');
    }

    private static function post(mixed $id): string
    {
        $post = ctype_digit((string) $id) ? get_post((int) $id) : null;
        return $post ? Values::title($post->post_title, $post->post_content) : (string) $id;
    }

    private static function author(mixed $id): string
    {
        $user = ctype_digit((string) $id) ? get_userdata((int) $id) : false;
        return $user ? $user->display_name : (string) $id;
    }

    /** Unix seconds, or milli- or microseconds, as a date. */
    private static function time(mixed $value): string
    {
        $seconds = (float) $value;
        while ($seconds > 1e11) {
            $seconds /= 1000;
        }
        return (string) wp_date(get_option('date_format') . ' ' . get_option('time_format'), (int) $seconds);
    }

    private static function policy(): string
    {
        $paragraphs = [
            __('This site counts how often its posts are read and for how long, with its own service Freshet. No data is sent to third parties.', 'freshet'),
            __('For this, your browser reports to this site which post you read and how long it is visible, with a random id of the tab and a signed cookie (freshet_visitor). If you are logged in, a second cookie (freshet_token) says who you are until you log out. It is set when you log in.', 'freshet'),
            __('From what you read and comment on, the service chooses posts to recommend to you. What it stores about visitors who are not logged in expires a week after their last visit. What it stores about users is deleted with their account, and is part of the export and erasure of personal data.', 'freshet'),
        ];
        return '<p class="privacy-policy-tutorial">' . esc_html__('Adapt this text to your settings.', 'freshet') . '</p><p>' . implode('</p><p>', array_map('esc_html', $paragraphs)) . '</p>';
    }
}
