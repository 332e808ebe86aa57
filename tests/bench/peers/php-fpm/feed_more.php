<?php
// Design source 002, scenario 2: the next page from the reader's buffer.
require __DIR__ . '/feed_common.php';
$in = feed_request();
$redis = redis();
$ids = $redis->rawCommand('LPOP', "feed:cache:{{$in['agent_id']}}", (string)$in['limit']) ?: [];
serve($redis, $in['agent_id'], $ids, count($ids) === $in['limit']);
