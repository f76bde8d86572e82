<?php
// Work of ci/bench apps: arrays, objects, strings, JSON and regular expressions. Prints a digest.
ini_set('memory_limit', '1G');
mt_srand(42);
class Item { public function __construct(public string $name, public array $tags) {} }
$digest = '';
$kept = [];
for ($round = 0; $round < 8; $round++) {
    $items = [];
    for ($i = 0; $i < 30000; $i++) {
        $items[] = new Item(str_repeat(chr(97 + mt_rand(0, 25)), mt_rand(1, 60)), [$i, "t$i", mt_rand()]);
    }
    usort($items, fn($a, $b) => strcmp($a->name, $b->name) ?: $a->tags[0] - $b->tags[0]);
    $text = json_encode($items);
    $kept[] = json_decode($text, true);
    if ($round % 2) array_shift($kept);
    $digest = md5($digest . $text . preg_match_all('/a+b?/', $text));
}
echo $digest, ' ', count($kept), "\n";
