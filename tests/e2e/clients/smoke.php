<?php
// php smoke.php PUBLIC INTERNAL KID SECRET NAME: prints the client's results as JSON, the same in every language.
require __DIR__ . '/../../../scripts/clients/php/Freshet.php';

use Freshet\Freshet;
use Freshet\FreshetException;

[, $base, $internal, $kid, $secret, $name] = $argv;
$site = new Freshet($base);
$backend = new Freshet($internal, [$kid, $secret]);
$items = array_map(fn ($i) => "$name-$i", [1, 2, 3, 4]);
$ids = fn ($page) => array_column($page['items'], 'id');
$error = function (callable $call) {
    try {
        return $call();
    } catch (FreshetException $problem) {
        return $problem;
    }
};
$out = [];

$now = time();
$out['put'] = $backend->putItem($items[0], ['title' => 'Über ééé', 'tags' => ['news'], 'published_at' => $now - 60]);
$lines = array_map(fn ($id) => ['id' => $id, 'title' => $id, 'published_at' => $now - 60], array_slice($items, 1));
$out['lines'] = $backend->putItems($lines)['accepted'];
$out['title'] = $backend->getItem($items[0])['title'];
$out['pv'] = $site->track($items[0], userId: $name, sessionId: 's', dwellMs: 1000)['pv'];
$out['stats'] = $backend->stats($items[0])['pv'];
$out['pushed'] = $backend->push('discover', array_slice($items, 0, 3), [$name])['pushed'];
$first = $site->timeline('discover', $name, limit: 2);
$out['first'] = $ids($first);
$out['older'] = $ids($site->timeline('discover', $name, 'up', $first['up'], 2));
$backend->push('discover', [$items[3]], [$name]);
$out['newer'] = $ids($site->timeline('discover', $name, 'down', $first['drop'], 2));
$out['look'] = $site->look($name, $items[0])['ok'];
$out['history'] = $site->history($name)['items'];
$site->dismiss($name, $items[1]);
$out['dismissed'] = $site->recommendations($name)['excluded']['not_interested'];
$site->undismiss($name, $items[1]);
$out['undismissed'] = $site->recommendations($name)['excluded']['not_interested'];
$backend->follow($name, 'ann@x/y');
$out['follows'] = $site->follows($name)['items'];
$page = $site->feed($name, limit: 2);
$out['feed'] = count($page['items']);
$out['page'] = gettype($page['page']);
$out['more'] = count($site->feed($name, 'load_more', $page['page'], 2)['items']);
$invalid = $error(fn () => $site->request('POST', '/api/track', body: ['dwellMs' => 1]));
$out['invalid'] = [$invalid->status, $invalid->problem, $invalid->member];
$out['unsigned'] = $error(fn () => (new Freshet($internal, [$kid, $secret . 'x']))->getItem($items[0]))->status;
$out['whoami'] = $backend->whoami();
$out['ready'] = $backend->health()['ready'];
$merge = $backend->mergeHistory($name, "$name-account");
while ($backend->job($merge['job'])['moved']['views'] === 0) {
    usleep(50_000);
}
$out['merged'] = [$merge['ok'], $site->history("$name-account")['items']];
$out['exported'] = $backend->exportUser($name)['userId'];
$out['erased'] = $backend->job($backend->eraseUser($name)['job'])['failed'];
echo json_encode($out, JSON_UNESCAPED_UNICODE), "\n";
