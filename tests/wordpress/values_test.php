<?php
// The parts of the WordPress plugin that need no WordPress: php values_test.php

declare(strict_types=1);

use Freshet\Freshet;
use Freshet\WordPress\Texts;
use Freshet\WordPress\Values;

define('ABSPATH', __DIR__);
$root = dirname(__DIR__, 2);
require "$root/scripts/clients/php/Freshet.php";
require "$root/scripts/wordpress/freshet/includes/values.php";
require "$root/scripts/wordpress/freshet/includes/texts.php";

function __(string $text, string $domain): string
{
    return $domain === 'freshet' ? "<$text>" : $text;
}

$failures = 0;
function same(mixed $expected, mixed $actual, string $what): void
{
    if ($expected !== $actual) {
        $GLOBALS['failures']++;
        fwrite(STDERR, "$what: expected " . json_encode($expected) . ', got ' . json_encode($actual) . "\n");
    }
}

// Keys
foreach ([['', null], [" \n", null], ['secret', ['k1', 'secret']], [" k2:secret\n", ['k2', 'secret']], ['a:b:c', ['a', 'b:c']], ['not a kid:x', ['k1', 'not a kid:x']]] as [$entered, $key]) {
    same($key, Values::key($entered), "key $entered");
}

// Addresses
foreach (['http://127.0.0.1:8081' => 'http://127.0.0.1:8081', ' https://[::1]:1/x/ ' => 'https://[::1]:1/x', 'http://h' => 'http://h', 'ftp://h' => null, 'h:80' => null, '' => null,
    'http://h?q' => null, 'http://h#f' => null, 'http://u:p@h' => null, 'javascript:x' => null, 'http:///x' => null] as $entered => $address) {
    same($address, Values::address($entered), "address $entered");
}
foreach (['' => '', '/' => '', '/freshet' => '/freshet', '/a/b-c_d/' => '/a/b-c_d', 'https://www.example.org/' => 'https://www.example.org', 'freshet' => null, '/a b' => null, '//h' => null,
    '/"' => null, 'javascript:x' => null] as $entered => $prefix) {
    same($prefix, Values::prefix($entered), "prefix $entered");
}

// Texts
same('añ', Values::clip('añb', 3), 'a cut after a character');
same('a', Values::clip('añb', 2), 'a cut within a character');
same('', Values::clip('🙂', 3), 'a cut within the first character');
same('abc', Values::clip('abc', 3), 'no cut');
same('Tom & Jerry “x”', Values::line("<b>Tom</b>\n &amp;\u{200B}\tJerry &#8220;x&#8221; "), 'a line');
same('A title', Values::title('A title', 'text'), 'a title');
same('One two', Values::title('', '<!-- wp:paragraph {"a":1} --><p>One <b>two</b></p><!-- /wp:paragraph -->'), 'a short text as a title');
same('1 2 3 4 5 6 7 8 9 10 11 12…', Values::title(' ', implode(' ', range(1, 13))), 'a long text as a title');
same(1024, strlen(Values::title(str_repeat('é', 600), '')), 'a long title');
same(['one', 'Tom & Jerry'], Values::tags([' one ', 'Tom &amp; Jerry', 'one', '', '<b></b>']), 'tags');
same([str_repeat('ü', 64)], Values::tags([str_repeat('ü', 65), str_repeat('ü', 66)]), 'long tags');
same(100, count(Values::tags(array_map('strval', range(1, 200)))), 'many tags');
same(2048 / 64, count(Values::tags(array_map(fn ($number) => str_pad((string) $number, 64, 'x'), range(1, 200)))), 'many long tags');

// Tokens
$key = ['k1', '0123456789abcdef0123456789abcdef'];
foreach (['42', 'ann@example.org', 'a.b', 'Zoë + 1%'] as $reader) {
    $token = urldecode(Freshet::token($key[0], $key[1], $reader, 1000));  // as PHP decodes cookies
    same(true, Values::is_token_of($token, $key, $reader, 999), "a token of $reader");
    same(false, Values::is_token_of($token, $key, $reader, 1000), "an expired token of $reader");
    same(false, Values::is_token_of($token, $key, 'other', 999), "another reader's token");
    same(false, Values::is_token_of($token, ['k1', 'x'], $reader, 999), "a token of another key");
    same(false, Values::is_token_of(str_replace('.1000.', '.9000.', $token), $key, $reader, 999), "a changed token of $reader");
}
foreach (['', 'x', '...', 'v1.k1.42.', str_repeat('.', 100)] as $token) {
    same(false, Values::is_token_of($token, $key, '42', 999), "the token $token");
}

// Pauses
same([60, 60, 120, 240, 3600, 3600], array_map([Values::class, 'pause'], [0, 1, 2, 3, 7, 1000]), 'pauses');

// Every kind of reason and interaction, and every exported key so far, has a text that can be translated.
preg_match_all('/return "(\w+)";/', explode('reason_text', file_get_contents("$root/core/readers/reason.cpp"))[0], $kinds);
same($kinds[1], array_intersect($kinds[1], array_keys(Texts::reasons())), 'kinds of reasons');
same(true, count($kinds[1]) >= 12, 'kinds of reasons are found');
preg_match_all('/InteractionInfo\{Interaction::\w+, "(\w+)"/', file_get_contents("$root/core/readers/interaction.h"), $kinds);
same(true, count($kinds[1]) >= 6, 'kinds of interactions are found');
foreach ($kinds[1] as $kind) {
    same(true, str_starts_with(Texts::interaction($kind), '<'), "the interaction $kind");
}
preg_match_all('/KeyDescription\{"([^"]+)", "([^"]+)"\}/', file_get_contents("$root/core/readers/key_descriptions.cpp"), $keys, PREG_SET_ORDER);
$translated = array_filter($keys, fn ($key) => Texts::stored("{$key[1]}{42}", $key[2]) !== $key[2]);  // others are shown in English
same(true, count($translated) >= 16, 'exported keys have a text');
same('what', Texts::stored('unknown:42', 'what'), 'an unknown key');
same('<Why you are not interested in posts>', Texts::stored('user:not_interested:why:{42}', ''), 'the longer of two names');

exit($failures ? 1 : 0);
