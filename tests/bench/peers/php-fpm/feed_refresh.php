<?php
// Design source 002, scenario 1. One ZREVRANGE of the newest items stands in for the search engine and is cheaper than a real one.
require __DIR__ . '/feed_common.php';
$in = feed_request();
$agent = $in['agent_id'];
$redis = redis();
$candidates = $redis->zRevRange('recall', 0, 499);
$pipe = $redis->pipeline();
for ($day = 0; $day < 7; $day++) $pipe->rawCommand('SMISMEMBER', seen_key($agent, $day), ...$candidates);
$seen = $pipe->exec();
$clean = [];
foreach ($candidates as $at => $id) {
    $known = false;
    foreach ($seen as $day) $known = $known || $day[$at];
    if (!$known) $clean[] = $id;
}
$page = array_slice($clean, 0, $in['limit']);
$rest = array_slice($clean, $in['limit']);
$cache = "feed:cache:{{$agent}}";
$pipe = $redis->pipeline();
$pipe->del($cache);
if ($rest) $pipe->rPush($cache, ...$rest);
$pipe->expire($cache, 1800);
$pipe->exec();
serve($redis, $agent, $page, count($rest) > 0);
