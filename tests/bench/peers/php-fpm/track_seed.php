<?php
// The original service (design source 001) with two changes: the script is loaded once instead of with every call, and indexes of
// the reply start at 0.
require __DIR__ . '/common.php';
$in = report();
$reply = call_script($_SERVER['SEED_SHA'], [time(), $in['articleId'], $in['userId'], $in['dwellMs'], 86400], 0);
header('Content-Type: application/json');
echo json_encode([
    'pv' => (int)$reply[0],
    'uv' => (int)$reply[1],
    'avg_dwell_ms' => (float)$reply[2],
    'score' => (float)$reply[3],
]);
