<?php
namespace Sandgate;

/** The packages of a working directory: its vendor/autoload.php is loaded before a cell, and again when it has changed. */
final class Composer
{
    /** @var array<string, int> when the packages of a folder changed */
    private static array $seen = [];

    public static function load(): void
    {
        $vendor = getcwd() . '/vendor';
        clearstatcache(true, "$vendor/composer/autoload_real.php");
        $time = (int) @filemtime("$vendor/composer/installed.php") ?: 1;
        $before = self::$seen[$vendor] ?? 0;
        if ($before === $time) {
            return;
        }
        self::$seen[$vendor] = $time;
        $loader = require "$vendor/autoload.php";
        if ($before === 0 || !$loader instanceof \Composer\Autoload\ClassLoader) {
            return;
        }
        // The loader is there and knows what was there before.
        $list = static fn (string $name): array => is_file($file = "$vendor/composer/autoload_$name.php") ? require $file : [];
        foreach ($list('psr4') as $prefix => $folders) {
            $loader->setPsr4($prefix, $folders);
        }
        foreach ($list('namespaces') as $prefix => $folders) {
            $loader->set($prefix, $folders);
        }
        $loader->addClassMap($list('classmap'));
        foreach ($list('files') as $id => $file) {
            if (empty($GLOBALS['__composer_autoload_files'][$id])) {
                $GLOBALS['__composer_autoload_files'][$id] = true;
                require $file;
            }
        }
    }
}
