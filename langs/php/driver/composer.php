<?php
namespace Sandgate;

/**
 * The packages of a working directory: its vendor/autoload.php is loaded before a cell, and again
 * when it has changed.
 */
final class Composer
{
    private const LISTS = ['psr4', 'namespaces', 'classmap', 'files', 'real'];

    /** @var array<string, string> the times and sizes of a folder's lists */
    private static array $seen = [];

    public static function load(): void
    {
        $vendor = getcwd() . '/vendor';
        $state = '';
        foreach (self::LISTS as $name) {
            $list = "$vendor/composer/autoload_$name.php";
            clearstatcache(true, $list);
            $state .= (is_file($list) ? filemtime($list) . ':' . filesize($list) : ':') . ' ';
        }
        $before = self::$seen[$vendor] ?? null;
        if ($before === $state) {
            return;
        }
        self::$seen[$vendor] = $state;
        $loader = require "$vendor/autoload.php";
        if ($before === null || !$loader instanceof \Composer\Autoload\ClassLoader) {
            return;
        }
        // The loader is already loaded and only knows the earlier packages.
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
