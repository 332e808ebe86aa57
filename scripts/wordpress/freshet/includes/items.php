<?php
// The item of a post. Its id is the post's id.

declare(strict_types=1);

namespace Freshet\WordPress;

defined('ABSPATH') || exit;

final class Items
{
    /** Post meta: Freshet may have the post, so Freshet must be told when it is no longer public. */
    public const SENT = '_freshet_sent';

    /** True if everyone may read the post, now or at its scheduled date. */
    public static function is_public(\WP_Post $post): bool
    {
        return in_array($post->post_type, Options::post_types(), true) && in_array($post->post_status, ['publish', 'future'], true)
            && $post->post_password === '';
    }

    /** The members of the post's item, or null if Freshet must not know the post. A scheduled post is under embargo. */
    public static function members(\WP_Post $post): ?array
    {
        if (!self::is_public($post)) {
            return null;
        }
        $author = get_userdata((int) $post->post_author);
        $section = self::section($post);
        $text = strip_shortcodes($post->post_excerpt . "\n\n" . $post->post_content);
        $members = [
            'title' => Values::title($post->post_title, $text) ?: "#$post->ID",
            'url' => (string) get_permalink($post),
            'published_at' => self::time($post, 'date'),
            'update_time' => min(time(), self::time($post, 'modified')),
            'text' => Values::clip($text, Values::MAX_TEXT),
            'text_format' => 'html',
            'tags' => Values::tags(self::terms($post)),
            'author' => $author ? Values::line($author->display_name) : '',
            'author_id' => $author ? Readers::id($author) : '',
            'section' => $section,
            'language' => str_replace('_', '-', get_bloginfo('language')),
        ];
        $members = array_filter($members, fn ($value) => $value !== '' && $value !== []);
        /**
         * Filters the item of a post before it is sent. Return null to keep the post out of Freshet.
         *
         * @param array|null $members members of PUT /api/items/{id}
         * @param \WP_Post   $post
         */
        $members = apply_filters('freshet_item', $members, $post);
        return is_array($members) ? $members : null;
    }

    private static function time(\WP_Post $post, string $which): int
    {
        $time = get_post_datetime($post, $which, 'gmt') ?: get_post_datetime($post, $which);
        return $time ? $time->getTimestamp() : time();
    }

    /** Names of the post's public terms, its tags first. @return list<string> */
    private static function terms(\WP_Post $post): array
    {
        $taxonomies = array_diff(get_object_taxonomies($post), ['post_format']);
        usort($taxonomies, fn ($one, $other) => ($other === 'post_tag') <=> ($one === 'post_tag'));
        $names = [];
        foreach (array_filter($taxonomies, 'is_taxonomy_viewable') as $taxonomy) {
            foreach (get_the_terms($post, $taxonomy) ?: [] as $term) {
                if ($term instanceof \WP_Term && !self::is_default($term)) {
                    $names[] = $term->name;
                }
            }
        }
        return $names;
    }

    private static function section(\WP_Post $post): string
    {
        $categories = get_the_terms($post, 'category') ?: [];
        foreach (is_array($categories) ? $categories : [] as $category) {
            if (!self::is_default($category)) {
                return Values::tags([$category->name])[0] ?? '';
            }
        }
        return '';
    }

    /** "Uncategorized" says nothing about a post. */
    private static function is_default(\WP_Term $term): bool
    {
        return $term->taxonomy === 'category' && $term->term_id === (int) get_option('default_category');
    }
}
