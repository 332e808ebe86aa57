<?php
// Shared by both track scripts: decodes the body, and runs a script over a persistent connection to Redis.

function report(): array {
    $in = json_decode(file_get_contents('php://input'), true);
    if (!is_array($in) || !is_string($in['articleId'] ?? null) || !is_string($in['userId'] ?? null)
        || !is_int($in['dwellMs'] ?? null) || $in['dwellMs'] < 0) {
        http_response_code(400);
        exit('{"code":"invalid"}');
    }
    return $in;
}

// Runs a loaded script by its hash.
function call_script(string $sha, array $keysAndArguments, int $keys): array|string {
    $redis = new Redis();
    $redis->pconnect($_SERVER['REDIS_SOCKET']);
    $reply = $redis->evalSha($sha, $keysAndArguments, $keys);
    if ($reply === false) {
        http_response_code(503);
        exit('{"code":"unavailable"}');
    }
    return $reply;
}
