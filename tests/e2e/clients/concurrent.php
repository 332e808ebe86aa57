<?php
// php concurrent.php BASE: a process and its three children share a client. Prints how many replies were not those to their requests.
require __DIR__ . '/../../../scripts/clients/php/Freshet.php';

$client = new Freshet\Freshet($argv[1], attempts: 1, timeoutMs: 60000);

function ask(Freshet\Freshet $client, string $stem, int $count = 50): int
{
    $wrong = 0;
    for ($i = 0; $i < $count; $i++) {
        try {
            $wrong += $client->getItem("$stem-$i") !== ['id' => "$stem-$i"];
        } catch (Freshet\FreshetException) {
            $wrong++;
        }
    }
    return $wrong;
}

$wrong = ask($client, 'parent', 1);
foreach (['a', 'b', 'c'] as $stem) {
    if (pcntl_fork() === 0) {
        exit(ask($client, $stem));
    }
}
$wrong += ask($client, 'parent');
while (pcntl_wait($status) > 0) {
    $wrong += pcntl_wexitstatus($status);
}
echo $wrong, "\n";
