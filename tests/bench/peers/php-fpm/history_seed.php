<?php
// recordTopicView of design source 000 with its three calls, on a persistent connection. Ids are strings, as in Freshet.
$in = json_decode(file_get_contents('php://input'), true);
if (!is_array($in) || !is_string($in['userId'] ?? null) || !is_string($in['topicId'] ?? null)) {
    http_response_code(400);
    exit('{"code":"invalid"}');
}
$redis = new Redis();
$redis->pconnect($_SERVER['REDIS_SOCKET']);
$key = "user:views:topic:{{$in['userId']}}";
$redis->lPush($key, $in['topicId']);
$redis->lTrim($key, 0, 9);
$redis->expire($key, 604800);
header('Content-Type: application/json');
echo '{"ok":true}';
