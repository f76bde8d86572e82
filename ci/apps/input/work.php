<?php
// For apps.php: the extensions, each where it is there, and the language itself.
mt_srand(42);
echo md5(serialize(range(1, 100000))), ' ', crc32(json_encode(array_map(fn($i) => ['k' => $i], range(1, 5000)))), "\n";
$words = [];
for ($i = 0; $i < 50000; $i++) $words[] = str_repeat(chr(97 + mt_rand(0, 25)), mt_rand(1, 60));
sort($words);
echo md5(implode(',', $words)), ' ', preg_match_all('/a+b?/', implode(' ', $words)), "\n";
if (extension_loaded('dom')) {
    $document = new DOMDocument();
    $document->loadXML('<a>' . str_repeat('<b x="1">t</b>', 3000) . '</a>');
    foreach ((new DOMXPath($document))->query('//b') as $i => $node) if ($i % 2) $node->parentNode->removeChild($node);
    echo md5($document->saveXML()), "\n";
}
if (extension_loaded('simplexml')) echo simplexml_load_string('<a><b>1</b></a>')->b, "\n";
if (extension_loaded('intl')) {
    echo (new NumberFormatter('de_DE', NumberFormatter::DECIMAL))->format(1234567.891), "\n";
    $letters = ['ö', 'a', 'z', 'å'];
    (new Collator('sv_SE'))->sort($letters);
    echo implode($letters), ' ', transliterator_transliterate('Any-Latin; Latin-ASCII', 'Привет мир'), "\n";
}
if (extension_loaded('pdo_sqlite')) {
    $base = new PDO('sqlite::memory:');
    $base->exec('create table t(a, b)');
    for ($i = 0; $i < 500; $i++) $base->exec("insert into t values($i, 'x$i')");
    echo $base->query('select sum(a) || group_concat(b) from t')->fetchColumn(), "\n";
}
if (extension_loaded('gd')) {
    $image = imagecreatetruecolor(200, 200);
    imagefilledellipse($image, 100, 100, 90, 50, 0xff8800);
    ob_start();
    imagepng(imagescale($image, 333));
    echo md5(ob_get_clean()), "\n";
}
if (extension_loaded('mbstring')) echo mb_convert_case('ärger', MB_CASE_UPPER), "\n";
if (extension_loaded('zip')) {
    $file = tempnam(sys_get_temp_dir(), 'hakmem');
    $zip = new ZipArchive();
    $zip->open($file, ZipArchive::CREATE | ZipArchive::OVERWRITE);
    $zip->addFromString('a', str_repeat('x', 100000));
    $zip->close();
    echo strlen(file_get_contents("zip://$file#a")), "\n";
    unlink($file);
}
