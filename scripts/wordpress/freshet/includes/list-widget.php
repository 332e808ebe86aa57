<?php
// The lists as a classic widget.

declare(strict_types=1);

namespace Freshet\WordPress;

defined('ABSPATH') || exit;

final class ListWidget extends \WP_Widget
{
    public function __construct()
    {
        parent::__construct('freshet_list', __('Freshet list', 'freshet'), ['description' => __('What is read most now, or recommendations.', 'freshet')]);
    }

    public function widget($args, $instance): void
    {
        $instance = $this->update((array) $instance, []);
        $title = $instance['title'] === '' ? '' : $args['before_title'] . esc_html($instance['title']) . $args['after_title'];
        $title = wp_kses_post($title);
        $recommended = $instance['list'] === 'recommended';  // then the title appears with the list
        $list = $recommended ? Lists::recommended(['limit' => $instance['limit']], $title) : Lists::hot(['limit' => $instance['limit']]);
        if ($list !== '') {
            echo $args['before_widget'], $recommended ? '' : $title, $list, $args['after_widget'];  // phpcs:ignore WordPress.Security.EscapeOutput -- escaped by Lists
        }
    }

    public function form($instance): string
    {
        $instance = $this->update((array) $instance, []);
        $field = fn (string $name): array => [esc_attr($this->get_field_id($name)), esc_attr($this->get_field_name($name)), esc_attr((string) $instance[$name])];
        vprintf('<p><label for="%1$s">' . esc_html__('Title', 'freshet') . '</label><input class="widefat" id="%1$s" name="%2$s" value="%3$s"></p>', $field('title'));
        [$id, $name] = $field('list');
        echo "<p><label for=\"$id\">" . esc_html__('List', 'freshet') . "</label><select class=\"widefat\" id=\"$id\" name=\"$name\">";  // phpcs:ignore WordPress.Security.EscapeOutput -- escaped above
        foreach (['hot' => __('Hot list', 'freshet'), 'recommended' => __('Recommendations', 'freshet')] as $value => $label) {
            printf('<option value="%s"%s>%s</option>', esc_attr($value), selected($instance['list'], $value, false), esc_html($label));
        }
        echo '</select></p>';
        vprintf('<p><label for="%1$s">' . esc_html__('Number of posts', 'freshet') . '</label><input type="number" min="1" max="50" class="tiny-text" id="%1$s" name="%2$s" value="%3$s"></p>', $field('limit'));
        return '';
    }

    public function update($new_instance, $old_instance): array
    {
        return [
            'title' => sanitize_text_field((string) ($new_instance['title'] ?? '')),
            'list' => ($new_instance['list'] ?? '') === 'recommended' ? 'recommended' : 'hot',
            'limit' => min(50, max(1, (int) ($new_instance['limit'] ?? 5))),
        ];
    }
}
