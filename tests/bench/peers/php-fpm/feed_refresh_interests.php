<?php
// Design source 002, scenario 1, for a reader with interests: a Gaussian decay times the number of the reader's liked tags that an item
// has. The newest items of each liked tag, and of all, stand in for the search engine and are cheaper than a real one.
const LIKES = 10;
const TAGS = 8;
const SCALE_S = 7 * 86400;
require __DIR__ . '/feed_common.php';
$in = feed_request();
$redis = redis();
$liked = $redis->zRevRange("user:interactions:{{$in['agent_id']}}", 0, LIKES - 1);
$pipe = $redis->pipeline();
foreach ($liked as $member) $pipe->hGet('item:{' . substr($member, 2) . '}', 'tags');
$tags = array_count_values(explode(' ', implode(' ', array_filter($pipe->exec()))));
arsort($tags);
$tags = array_slice($tags, 0, TAGS, true);
$pipe = $redis->pipeline();
$pipe->zRevRange('recall', 0, 499, true);
foreach ($tags as $tag => $likes) $pipe->zRevRange("tag:$tag", 0, 99, true);
$lists = $pipe->exec();
$weights = array_merge([0], array_values($tags));
$now = time();
$scores = [];
foreach ($lists as $at => $published) {
    foreach ($published as $id => $time) {
        $decay = exp(-(($now - $time) / SCALE_S) ** 2 / 2);
        $scores[$id] = ($scores[$id] ?? $decay) + $weights[$at] * $decay;
    }
}
arsort($scores);
refresh($redis, $in, array_slice(array_keys($scores), 0, 500));
