<?php
// Seed 001's service. Two changes: the script is loaded once instead of at every call, and the reply is read from 0.
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
