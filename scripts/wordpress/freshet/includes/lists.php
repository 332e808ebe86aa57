<?php
// Lists on pages: blocks, shortcodes and the classic widget.
//
// The hot list is the same for everyone and part of the page. Recommendations depend on the reader, so the page contains an
// empty list that Freshet's script fills: pages may be cached.

declare(strict_types=1);

namespace Freshet\WordPress;

use Freshet\Freshet;

defined('ABSPATH') || exit;

final class Lists
{
    private const CACHED_S = 30;
    private const MODELS = ['', 'views', 'engagement', 'trending'];
    private static int $count = 0;

    public static function register(): void
    {
        add_action('init', [self::class, 'register_blocks']);
        add_action('widgets_init', fn () => register_widget(ListWidget::class));
        add_shortcode('freshet_hot', fn ($attributes) => self::hot((array) $attributes));
        add_shortcode('freshet_recommended', fn ($attributes) => self::recommended((array) $attributes));
    }

    public static function register_blocks(): void
    {
        wp_register_script('freshet-blocks', plugins_url('assets/blocks.js', PLUGIN_FILE), ['wp-block-editor', 'wp-blocks', 'wp-components', 'wp-element', 'wp-i18n', 'wp-server-side-render'], VERSION, true);
        wp_set_script_translations('freshet-blocks', 'freshet');
        foreach (['hot', 'recommended'] as $name) {
            register_block_type(dirname(PLUGIN_FILE) . "/blocks/$name", ['render_callback' => function (array $attributes) use ($name): string {
                $html = self::$name($attributes);
                return $html === '' ? '' : '<div ' . get_block_wrapper_attributes() . ">$html</div>";
            }]);
        }
    }

    /** The hot list as HTML; "" if it is empty or Freshet does not answer. Arguments: limit, model, tag, title. */
    public static function hot(array $arguments): string
    {
        if (is_feed()) {
            return '';
        }
        $arguments = self::arguments($arguments);
        $items = array_filter(self::hot_items($arguments), fn ($item) => $item['id'] !== PageScript::article());
        $rows = '';
        foreach (array_slice($items, 0, $arguments['limit']) as $item) {
            $rows .= '<li><a href="' . esc_url($item['url']) . '">' . esc_html($item['title']) . '</a></li>';
        }
        $html = $rows === '' ? '' : self::heading($arguments['title']) . "<ol class=\"freshet-list freshet-hot\">$rows</ol>";
        return self::filtered($html, array_values($items), ['list' => 'hot'] + $arguments);
    }

    /** An empty list for Freshet's script. Arguments: limit, title. A widget gives its title as HTML, $heading. */
    public static function recommended(array $arguments, string $heading = ''): string
    {
        if (!Options::saved() || is_feed()) {
            return '';
        }
        $arguments = self::arguments($arguments);
        $options = ['list' => 'recommended', 'limit' => $arguments['limit'], 'endpoint' => PageScript::url('api/track'), 'reasons' => Texts::reasons()];
        $options += PageScript::article() !== '' ? ['article' => PageScript::article()] : [];
        // Nothing may move when the links arrive, so the page reserves a line for each. The script hides the list and its heading
        // if there are none. Readers who may not have agreed see neither: their list takes no space until they do.
        $hidden = PageScript::waits() ? ' hidden' : '';
        if ($hidden !== '') {
            $options['consent'] = 'wait';
            wp_enqueue_script(PageScript::CONSENT);
        }
        wp_enqueue_script(PageScript::LIST);
        $id = 'freshet-title-' . ++self::$count;
        $heading = $heading !== '' ? "<div id=\"$id\"$hidden>$heading</div>" : self::heading($arguments['title'], " id=\"$id\"$hidden");
        $label = $heading !== '' ? " aria-labelledby=\"$id\"" : ' aria-label="' . esc_attr__('Recommended', 'freshet') . '"';
        $height = " style=\"min-height:{$arguments['limit']}lh\"";
        $html = $heading . "<ol class=\"freshet-list freshet-recommended\"$label$hidden$height data-freshet-list=\"" . esc_attr((string) wp_json_encode($options)) . '"></ol>';
        return self::filtered($html, [], ['list' => 'recommended'] + $arguments);
    }

    /** Checks what a shortcode, block or widget was given. */
    private static function arguments(array $given): array
    {
        $text = fn (string $name): string => is_scalar($given[$name] ?? null) ? trim((string) $given[$name]) : '';
        return [
            'limit' => min(50, max(1, (int) ($text('limit') ?: 5))),
            'model' => in_array($text('model'), self::MODELS, true) ? $text('model') : '',
            'tag' => $text('tag'),
            'title' => $text('title'),
        ];
    }

    /** Items with title and address, one more than the list has, because the page's own post is left out. */
    private static function hot_items(array $arguments): array
    {
        $query = ['model' => $arguments['model'], 'limit' => $arguments['limit'] + 1, 'tag' => $arguments['tag']];
        $name = 'freshet_hot_' . md5((string) wp_json_encode($query));
        $found = get_transient($name);
        if (!is_array($found)) {
            $answer = Service::page_call(fn (Freshet $client) => $client->hot(...$query));
            if (!empty($answer['unavailable'])) {
                return [];
            }
            $found = array_map(fn ($item) => array_intersect_key($item, ['id' => 1, 'title' => 1, 'url' => 1]), $answer['items'] ?? []);
            set_transient($name, $found, self::CACHED_S);
        }
        return self::current($found);
    }

    /** Titles and addresses as they are now. A post that is not public any more is left out, even if Freshet does not know it yet. */
    private static function current(array $items): array
    {
        $ids = array_filter(array_column($items, 'id'), fn ($id) => ctype_digit((string) $id));
        _prime_post_caches(array_map('intval', $ids), false, false);
        $out = [];
        foreach ($items as $item) {
            if (ctype_digit((string) $item['id'])) {
                $post = get_post((int) $item['id']);
                if ($post && Items::is_public($post) && $post->post_status === 'publish') {
                    $out[] = ['id' => (string) $post->ID, 'title' => Values::title(get_the_title($post), $post->post_content), 'url' => (string) get_permalink($post)];
                }
            } elseif (isset($item['title'], $item['url'])) {  // put by another program
                $out[] = $item;
            }
        }
        return $out;
    }

    private static function heading(string $title, string $attributes = ''): string
    {
        return $title === '' ? '' : "<h2 class=\"freshet-title\"$attributes>" . esc_html($title) . '</h2>';
    }

    private static function filtered(string $html, array $items, array $arguments): string
    {
        /**
         * Filters the HTML of a list.
         *
         * @param string $html      "" if there is nothing to show
         * @param array  $items     id, title and url of each; empty for recommendations, which a script fills
         * @param array  $arguments list (hot or recommended), limit, model, tag, title
         */
        return (string) apply_filters('freshet_list_html', $html, $items, $arguments);
    }
}
