<?php
// Reports a page view, then prints recommendations and the hottest article: php example.php [URL]
require __DIR__ . '/Freshet.php';

$freshet = new Freshet\Freshet($argv[1] ?? 'http://127.0.0.1:8080', preset: 'page');
$counted = $freshet->track('hello', userId: 'ann', sessionId: 's1', dwellMs: 42000);
echo 'page views: ' . ($counted['pv'] ?? 'unknown') . "\n";
foreach ($freshet->recommendations('ann', limit: 3)['items'] as $item) {
    echo "{$item['title']}: {$item['reason']['text']}\n";
}
$hot = $freshet->hot(model: 'engagement', limit: 1)['items'];
echo 'hottest: ' . ($hot[0]['title'] ?? $hot[0]['id'] ?? 'unknown') . "\n";
