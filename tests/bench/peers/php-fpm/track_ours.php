<?php
// Freshet's earlier script, run by PHP-FPM with the keys and arguments that Freshet passed with default settings.
require __DIR__ . '/common.php';
$in = report();
$id = $in['articleId'];
$reader = $in['userId'];
$reply = call_script($_SERVER['OURS_SHA'], [
    "hot:pv:$id", "hot:uv:hll:$id", "hot:dwell:sum:$id", "hot:dwell:cnt:$id", "hot:first_ts:$id", "item:$id",
    "hot:session:$id:$reader", 'hot:rank', 'hot:published', "hot:added:$reader",
    $id, $reader, min($in['dwellMs'], 180000), '', '', 0, 1800, 2592000, '1 3 0.002 0 0 86400', 180000,
    '-29.897352853986263', 1000000, 0, '', 86400, 0, 0,
], 10);
[$pv, $uv, $mean, $score] = explode(' ', $reply);
header('Content-Type: application/json');
echo json_encode(['pv' => (int)$pv, 'uv' => (int)$uv, 'avg_dwell_ms' => (float)$mean, 'score' => (float)$score]);
