<?php
// Page of a timeline as in design source 004, with fixes: the limit is obeyed, an empty page keeps its cursors, and pulling
// down returns the nearest items first. Two round trips: the page, and the details of its items.
$channel = 'discover';
$reader = (string)($_GET['customerId'] ?? '');
$direction = (string)($_GET['direction'] ?? 'first');
$limit = (int)($_GET['limit'] ?? 5);
$cursor = (int)($_GET['score'] ?? 0);
if ($reader === '' || $limit < 1 || $limit > 100 || !in_array($direction, ['first', 'down', 'up'], true)) {
    http_response_code(400);
    exit('{"code":"invalid"}');
}
$redis = new Redis();
$redis->pconnect($_SERVER['REDIS_SOCKET']);
$key = "wf:$channel:{{$reader}}";
$options = ['withscores' => true, 'limit' => [0, $limit + 1]];
if ($direction === 'down') $page = $redis->zRangeByScore($key, "($cursor", '+inf', $options);
else $page = $redis->zRevRangeByScore($key, $direction === 'up' ? "($cursor" : '+inf', '-inf', $options);
$more = count($page) > $limit;
$page = array_slice($page, 0, $limit, true);
if ($direction === 'down') $page = array_reverse($page, true);
$pipe = $redis->pipeline();
foreach ($page as $id => $score) $pipe->hMGet("item:{{$id}}", ['title', 'url', 'author', 'tags', 'published_at']);
$cards = $pipe->exec();
$items = [];
foreach (array_keys($page) as $at => $id) {
    $card = $cards[$at];
    $items[] = ['id' => (string)$id, 'title' => $card['title'], 'update_time' => (int)$card['published_at'], 'url' => $card['url'],
        'author' => $card['author'], 'tags' => explode(' ', (string)$card['tags']), 'score' => (int)$page[$id]];
}
header('Content-Type: application/json');
echo json_encode(['items' => $items, 'drop' => $items ? $items[0]['score'] : $cursor, 'up' => $items ? end($items)['score'] : $cursor,
    'has_more' => $more]);
