<?php
// Texts for readers, by the names that Freshet's interface uses.

declare(strict_types=1);

namespace Freshet\WordPress;

defined('ABSPATH') || exit;

final class Texts
{
    /** Why an item is recommended, by `kind` of its reason. Names in braces stand for members of the reason. */
    public static function reasons(): array
    {
        return [
            /* translators: {title} is the title of a post that the reader liked or read. Keep the braces. */
            'like' => __('Because of “{title}”', 'freshet'),
            /* translators: {author} is the name of an author. Keep the braces. */
            'author' => __('By {author}, whose work you liked', 'freshet'),
            /* translators: {tag} is the name of a tag. Keep the braces. */
            'new_in_tag' => __('New in {tag}', 'freshet'),
            'rising' => __('Rising now', 'freshet'),
            'new_here' => __('New here', 'freshet'),
            'new' => __('New', 'freshet'),
            'match' => __('Matches what you like', 'freshet'),
            'query' => __('Matches your search', 'freshet'),
            'followed' => __('From an author whom you follow', 'freshet'),
            'also_read' => __('Readers of this post also read it', 'freshet'),
            'similar' => __('Similar to this post', 'freshet'),
            'more' => __('More to read', 'freshet'),
        ];
    }

    /** What a reader did with a post, by the interaction's `kind`. */
    public static function interaction(string $kind): string
    {
        return [
            'view' => __('Read', 'freshet'),
            'like' => __('Liked', 'freshet'),
            'share' => __('Shared', 'freshet'),
            'favorite' => __('Marked as a favorite', 'freshet'),
            'reply' => __('Commented on', 'freshet'),
            'post' => __('Wrote', 'freshet'),
        ][$kind] ?? $kind;
    }

    /** What a key of an export contains, by the beginning of its name. */
    public static function stored(string $key, string $what): string
    {
        $texts = [
            'hot:added:' => __('What you contributed to the counters of posts', 'freshet'),
            'feed:cache:' => __('Posts queued for the next pages of your feed', 'freshet'),
            'feed:state:' => __('Your position in your feed', 'freshet'),
            'user:visitors:' => __('Names under which your feed knows what you saw before you logged in', 'freshet'),
            'user:interactions:' => __('Posts you interacted with', 'freshet'),
            'user:earlier:' => __('Posts you interacted with earlier, as fingerprints', 'freshet'),
            'user:views:topic:' => __('Posts you read', 'freshet'),
            'user:views:reply:' => __('Replies you read', 'freshet'),
            'user:views:at:' => __('When you read them', 'freshet'),
            'user:not_interested:why:' => __('Why you are not interested in posts', 'freshet'),
            'user:not_interested:' => __('Posts you are not interested in', 'freshet'),
            'user:events:' => __('Reports of what you read, kept so that they count only once', 'freshet'),
            'wf:' => __('Posts in your timeline', 'freshet'),
            'active:' => __('When you last opened a timeline', 'freshet'),
            'follow:authors:' => __('Authors you follow', 'freshet'),
            'follow:readers:' => __('That you follow an author', 'freshet'),
        ];
        foreach ($texts as $start => $text) {
            if (str_starts_with($key, $start)) {
                return $text;
            }
        }
        return $what;
    }
}
