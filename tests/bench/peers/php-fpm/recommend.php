<?php
// Recommendations as in design source 000: a precomputed list of the reader without recently viewed items and items the reader
// interacted with, and the details of the rest. The cost of ranking is not included.
$reader = (string)($_GET['userId'] ?? '');
$limit = (int)($_GET['limit'] ?? 20);
if ($reader === '' || $limit < 1 || $limit > 100) {
    http_response_code(400);
    exit('{"code":"invalid"}');
}
$redis = new Redis();
$redis->pconnect($_SERVER['REDIS_SOCKET']);
$pipe = $redis->pipeline();
$pipe->lRange("user:views:topic:{{$reader}}", 0, 9);
$pipe->zRevRange("user:interactions:{{$reader}}", 0, -1);
$pipe->zRevRange("recommended:$reader", 0, 199, true);
[$viewed, $interacted, $ranked] = $pipe->exec();
$exclude = array_flip($viewed);
foreach ($interacted as $member) $exclude[substr($member, 2)] = true;
$left = array_slice(array_diff_key($ranked, $exclude), 0, $limit, true);
$pipe = $redis->pipeline();
foreach ($left as $id => $score) $pipe->hMGet("item:{{$id}}", ['title', 'url', 'author', 'tags', 'published_at']);
$cards = $pipe->exec();
$items = [];
foreach (array_keys($left) as $at => $id) {
    $card = $cards[$at];
    $items[] = ['id' => (string)$id, 'title' => $card['title'], 'update_time' => (int)$card['published_at'], 'url' => $card['url'],
        'author' => $card['author'], 'tags' => explode(' ', (string)$card['tags']), 'score' => (float)$left[$id]];
}
header('Content-Type: application/json');
echo json_encode(['items' => $items, 'excluded' => ['viewed' => count($viewed), 'interacted' => count($interacted)]]);
