<?php
// Shared by both feed scripts: the decoded body, Redis, the details of a page, and the write after the response. Seen items
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
