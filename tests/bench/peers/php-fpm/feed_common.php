<?php
// Shared by the feed scripts: the decoded body, Redis, the details of a page, and the write after the response. Seen items
// are in one set per reader and day, since no distribution packages RedisBloom, which design source 002 uses.

function feed_request(): array {
    $in = json_decode(file_get_contents('php://input'), true);
    if (!is_array($in) || !is_string($in['agent_id'] ?? null) || !is_int($in['limit'] ?? null) || $in['limit'] < 1 || $in['limit'] > 100) {
        http_response_code(400);
        exit('{"code":"invalid"}');
    }
    return $in;
}

function redis(): Redis {
    $redis = new Redis();
    $redis->pconnect($_SERVER['REDIS_SOCKET']);
    return $redis;
}

function seen_key(string $agent, int $daysBack): string {
    return 'seen:' . $agent . ':' . gmdate('Ymd', time() - 86400 * $daysBack);
}

// Serves the candidates that the reader has not seen, and keeps those beyond the page in the reader's buffer.
function refresh(Redis $redis, array $in, array $candidates): void {
    $agent = $in['agent_id'];
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
}

function serve(Redis $redis, string $agent, array $ids, bool $more): void {
    $pipe = $redis->pipeline();
    foreach ($ids as $id) $pipe->hMGet("item:{{$id}}", ['title', 'url', 'author', 'tags', 'published_at']);
    $cards = $pipe->exec();
    $items = [];
    foreach ($ids as $at => $id) {
        $card = $cards[$at];
        $items[] = ['id' => $id, 'title' => $card['title'], 'update_time' => (int)$card['published_at'], 'url' => $card['url'],
            'author' => $card['author'], 'tags' => explode(' ', (string)$card['tags'])];
    }
    header('Content-Type: application/json');
    echo json_encode(['code' => 0, 'msg' => 'success', 'data' => ['items' => $items, 'has_more' => $more]]);
    fastcgi_finish_request();
    if (!$ids) return;
    $key = seen_key($agent, 0);
    $pipe = $redis->pipeline();
    $pipe->sAddArray($key, $ids);
    $pipe->expire($key, 8 * 86400);
    $pipe->exec();
}
