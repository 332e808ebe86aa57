<?php
// Reads PHP from stdin and prints the changes that tests/mutate can make to it: [[start, end, how, new], …], in bytes.
declare(strict_types=1);

const FLIPPED = ['===' => '!==', '!==' => '===', '==' => '!=', '!=' => '==', '<' => '<=', '<=' => '<', '>' => '>=', '>=' => '>'];
const SWAPPED = ['&&' => '||', '||' => '&&', '+' => '-', '-' => '+', '*' => '/', '/' => '*', '++' => '--', '--' => '++', 'true' => 'false',
    'false' => 'true', 'min' => 'max', 'max' => 'min', 'rawurlencode' => 'urlencode'];

$text = stream_get_contents(STDIN);
$tokens = array_values(array_filter(PhpToken::tokenize($text), fn ($token) => !$token->isIgnorable()));
$edits = [];

// The index of the bracket that closes the one at $open.
function closing(array $tokens, int $open): int
{
    for ($depth = 0, $i = $open; ; ++$i) {
        $depth += in_array($tokens[$i]->text, ['(', '[', '{'], true) <=> in_array($tokens[$i]->text, [')', ']', '}'], true);
        if ($depth === 0) {
            return $i;
        }
    }
}

// The index of the ; that ends the statement at $start, or null if it has a block.
function end_of_statement(array $tokens, int $start): ?int
{
    for ($i = $start; isset($tokens[$i]); ++$i) {
        if ($tokens[$i]->text === ';') {
            return $i;
        }
        if ($tokens[$i]->text === '{') {
            return null;
        }
        if (in_array($tokens[$i]->text, ['(', '['], true)) {
            $i = closing($tokens, $i);
        }
    }
    return null;
}

$inString = false;  // with variables
foreach ($tokens as $i => $token) {
    $inString = $inString !== ($token->text === '"' || $token->is([T_START_HEREDOC, T_END_HEREDOC]));
    [$start, $end, $word] = [$token->pos, $token->pos + strlen($token->text), $token->text];
    if (isset(FLIPPED[$word])) {
        $edits[] = [$start, $end, 'flipped', FLIPPED[$word]];
    }
    if (isset(SWAPPED[$word])) {
        $edits[] = [$start, $end, 'swapped', SWAPPED[$word]];
    }
    if ($word === '!') {
        $edits[] = [$start, $end, 'dropped', ''];
    }
    if ($token->is(T_LNUMBER)) {
        $edits[] = [$start, $end, 'changed', (string) ((int) str_replace('_', '', $word) + 1)];
    }
    if ($token->is([T_IF, T_ELSEIF])) {
        [$from, $to] = [$tokens[$i + 1]->pos, $tokens[closing($tokens, $i + 1)]->pos + 1];
        $edits[] = [$from, $to, 'negated', '(!' . substr($text, $from, $to - $from) . ')'];
    }
    if (!$inString && in_array($tokens[$i - 1]->text ?? '', [';', '{', '}'], true) && $token->is([T_VARIABLE, T_STRING, T_THROW])) {
        $last = end_of_statement($tokens, $i);
        if ($last !== null) {
            $edits[] = [$start, $tokens[$last]->pos + 1, 'deleted', ';'];
        }
    }
}
echo json_encode($edits);
