<?php
// driver.php < scenarios: makes the calls of each scenario with the PHP client and prints their outcomes, as JSON.
declare(strict_types=1);

namespace Freshet;

require __DIR__ . '/../../../scripts/clients/php/Freshet.php';

$pauses = [];

// Replaces PHP's own usleep() in the client's namespace.
function usleep(int $microseconds): void
{
    $GLOBALS['pauses'][] = $microseconds / 1e6;
    \usleep($microseconds);
}

function camel(string $name): string
{
    return lcfirst(str_replace('_', '', ucwords($name, '_')));
}

function client(string $base, array $options): Freshet
{
    $named = [];
    foreach ($options as $name => $value) {
        $named[camel($name)] = $value;
    }
    return new Freshet($base, ...$named);
}

// `more` are named arguments; for putItem() they are the item.
function call(Freshet $client, string $name, array $args, array $more): mixed
{
    return $name === 'put_item' ? $client->putItem(...$args, members: $more) : $client->{camel($name)}(...$args, ...$more);
}

function described(FreshetException $error): array
{
    return ['status' => $error->status === $error->getCode() ? $error->status : 'differs', 'code' => $error->problem, 'member' => $error->member,
        'message' => $error->getMessage(), 'retry_after_s' => $error->retryAfterS, 'temporary' => $error->temporary()];
}

function outcome(Freshet $client, string $name, array $args, array $more): array
{
    $GLOBALS['pauses'] = [];
    $began = hrtime(true);
    $took = fn () => ['pauses' => $GLOBALS['pauses'], 'seconds' => (hrtime(true) - $began) / 1e9];
    try {
        $result = call($client, $name, $args, $more);
        if (is_array($result) && isset($result['error'])) {
            $result['error'] = described($result['error']);
        }
        return ['result' => $result] + $took();
    } catch (FreshetException $error) {
        return ['error' => described($error)] + $took();
    } catch (\Throwable $error) {
        return ['crash' => get_class($error) . ': ' . $error->getMessage()];
    }
}

$outcomes = [];
foreach (json_decode(stream_get_contents(STDIN), true, flags: JSON_THROW_ON_ERROR) as $scenario) {
    $client = client($scenario['base'], $scenario['options']);
    $outcomes[] = array_map(fn ($each) => outcome($client, $each['call'], $each['args'], $each['more']), $scenario['calls']);
}
echo json_encode($outcomes, JSON_THROW_ON_ERROR | JSON_PRESERVE_ZERO_FRACTION), "\n";
