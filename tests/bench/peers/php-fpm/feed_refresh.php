<?php
// Design source 002, scenario 1. One ZREVRANGE of the newest items stands in for the search engine and is cheaper than a real one.
require __DIR__ . '/feed_common.php';
$in = feed_request();
$redis = redis();
refresh($redis, $in, $redis->zRevRange('recall', 0, 499));
