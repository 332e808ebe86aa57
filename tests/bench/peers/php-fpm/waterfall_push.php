<?php
// Push to a list of readers as in design source 004: existing items keep their position, and a timeline keeps its newest 500
// items. Pipelines of 500 readers.
const PIPELINED = 500;
$in = json_decode(file_get_contents('php://input'), true);
if (!is_array($in) || !is_array($in['items'] ?? null) || !is_array($in['customers'] ?? null) || count($in['customers']) > 10000) {
    http_response_code(400);
    exit('{"code":"invalid"}');
}
$redis = new Redis();
$redis->pconnect($_SERVER['REDIS_SOCKET']);
$pushed = 0;
foreach (array_chunk($in['customers'], PIPELINED) as $customers) {
    $score = (int)(microtime(true) * 1000);
    $pipe = $redis->pipeline();
    foreach ($customers as $customer) {
        $key = "wf:discover:{{$customer}}";
        foreach ($in['items'] as $item) $pipe->zAdd($key, ['NX'], $score, $item);
        $pipe->zRemRangeByRank($key, 0, -501);
    }
    $replies = $pipe->exec();
    $each = count($in['items']) + 1;
    foreach ($replies as $at => $reply) if ($at % $each !== $each - 1) $pushed += $reply;
}
header('Content-Type: application/json');
echo json_encode(['pushed' => $pushed, 'duplicates' => count($in['items']) * count($in['customers']) - $pushed]);
